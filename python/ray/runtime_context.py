"""What a task, an actor or a driver can ask about itself."""

import os

import ray
from ray import _core
from ray._private import session
from ray._private.state import check_connected, nodes


def _current() -> dict:
    check_connected()
    return _core.current()


class RuntimeContext:
    """Answers about the one who asks; ids are hex strings, and None where there is none.

    context = ray.get_runtime_context()
    print(context.get_node_id(), context.get_task_id())
    """

    @property
    def job_id(self):
        """get_job_id() as a ray.JobID."""
        return ray.JobID.from_hex(self.get_job_id())

    @property
    def node_id(self):
        """get_node_id() as a ray.NodeID."""
        return ray.NodeID.from_hex(self.get_node_id())

    @property
    def task_id(self):
        """get_task_id() as a ray.TaskID, or None."""
        found = self.get_task_id()
        return None if found is None else ray.TaskID.from_hex(found)

    @property
    def actor_id(self):
        """get_actor_id() as a ray.ActorID, or None."""
        found = self.get_actor_id()
        return None if found is None else ray.ActorID.from_hex(found)

    def get_job_id(self) -> str:
        """The job: one driver and everything it started."""
        return _current()["job_id"]

    def get_node_id(self) -> str:
        """The node that this process runs on."""
        return _current()["node_id"]

    def get_worker_id(self) -> str:
        """This process."""
        return _current()["worker_id"]

    def get_task_id(self) -> "str | None":
        """The running task."""
        return _current()["task_id"]

    def get_task_name(self) -> "str | None":
        """The name of the running task: the one it was given, or that of its function, or A.m for a
        method.
        """
        return _current()["name"]

    def get_task_function_name(self) -> "str | None":
        """The function of the running task, whatever name the task was given."""
        current = _current()
        return current["name"] if current["function"] is None else current["function"].__name__

    def is_canceled(self) -> bool:
        """Whether the running task or method was cancelled; not for async methods, which are told
        by asyncio.CancelledError.
        """
        check_connected()
        return _core.is_cancelled()

    def get_actor_id(self) -> "str | None":
        """The actor that runs in this process."""
        return _current()["actor_id"]

    def get_actor_name(self) -> "str | None":
        """The name of the actor: None outside of one, "" for one without a name."""
        from ray._private import names

        actor = _current()["actor_id"]
        return None if actor is None else names.name_of(actor)

    def get_assigned_resources(self) -> dict:
        """What the running task or actor was given."""
        return dict(_current()["resources"])

    def get_accelerator_ids(self) -> dict:
        """The GPUs that the running task or actor may use, under "GPU"."""
        from ray._private.gpus import get_gpu_ids

        return {"GPU": [str(gpu) for gpu in get_gpu_ids()]}

    get_resource_ids = get_accelerator_ids

    def get_node_labels(self) -> dict:
        """The labels of the node that this process runs on."""
        return nodes()[0]["Labels"]

    def get_session_name(self) -> str:
        """The name of the session: that of its folder."""
        return os.path.basename(self._session_folder())

    def get_temp_dir(self) -> str:
        """The folder that has the sessions' folders."""
        return os.path.dirname(self._session_folder())

    def _session_folder(self):
        check_connected()
        return _core.session()["session_dir"]

    def get_placement_group_id(self) -> "str | None":
        """The placement group that the running task or actor is in."""
        from ray._private import placing

        check_connected()
        found = placing.current()
        return None if found is None else found[0].hex()

    @property
    def current_placement_group_id(self):
        """The same as an id: the nil one outside of a group."""
        from ray._private.ids import PlacementGroupID

        found = self.get_placement_group_id()
        return PlacementGroupID.nil() if found is None else PlacementGroupID.from_hex(found)

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what the running task submits goes into its placement group, too."""
        from ray._private import placing

        check_connected()
        found = placing.current()
        return found is not None and bool(found[2] & _core.WHERE_CAPTURES)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether a process of this actor died before, and this one is a restart."""
        return _current()["restarted"]

    @property
    def namespace(self) -> str:
        """The namespace of the driver."""
        return session.namespace

    @property
    def current_actor(self):
        """The handle of the actor that asks: it may call itself, or give itself to others."""
        actor = _current()["actor_id"]
        if actor is None:
            raise RuntimeError("get_runtime_context().current_actor is for methods of actors")
        if session.mode == session.LOCAL_MODE:
            from ray._private import local_mode

            return local_mode.current_actor()
        from ray._private import definition as definitions
        from ray.actor import ActorHandle

        definition, groups = definitions.of_actor
        reference = _core._restore(bytes.fromhex(actor))
        return ActorHandle(reference, definition, definition.name, groups=tuple(groups))

    @property
    def runtime_env(self) -> dict:
        """The runtime environment that the process is in: a ray.runtime_env.RuntimeEnv, which is a
        dict.
        """
        from ray._private import runtime_env

        return runtime_env.shown()

    def get_runtime_env_string(self) -> str:
        """The runtime environment, as JSON."""
        return self.runtime_env.serialize()

    @property
    def gcs_address(self) -> str:
        """The address of the node, for ray.init(address=...); "" of a session of one's own."""
        from ray._private.context import address_of

        check_connected()
        return address_of(_core.session()) or ""

    @property
    def worker(self):
        """This process: ray._private.worker.global_worker."""
        from ray._private.worker import global_worker

        check_connected()
        return global_worker

    def get(self) -> dict:
        """The ids, as objects, and the namespace in one dict, without those that are None."""
        found = {name: getattr(self, name) for name in ("job_id", "node_id", "task_id", "actor_id")}
        found["namespace"] = self.namespace
        return {name: value for name, value in found.items() if value is not None}


_context = RuntimeContext()


def get_runtime_context() -> RuntimeContext:
    """What the running task, actor or driver can ask about itself.

    @ray.remote
    def whoami():
        return ray.get_runtime_context().get_task_id()
    """
    return _context
