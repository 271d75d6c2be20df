"""What libraries read off `ray._private.worker.global_worker` and `_global_node`."""

import os

from ray import _core
from ray._private import session
from ray._private.later import lacks


def _initialized() -> bool:
    return _core.is_connected() and session.pid == os.getpid()


def _context():
    from ray.runtime_context import get_runtime_context

    return get_runtime_context()


class GlobalWorker:
    """This process's part in the session."""

    @property
    def connected(self) -> bool:
        """Whether it has one."""
        return _initialized()

    @property
    def mode(self) -> "int | None":
        """SCRIPT_MODE in a driver, WORKER_MODE in a worker."""
        return session.mode if _initialized() else None

    @property
    def namespace(self) -> str:
        """The namespace of the driver."""
        return session.namespace

    @property
    def current_job_id(self):
        """The job's id, a ray.JobID."""
        return _context().job_id

    job_id = current_job_id

    @property
    def current_task_id(self):
        """The running task's id, a ray.TaskID, or None."""
        return _context().task_id

    task_id = current_task_id

    @property
    def current_node_id(self):
        """The node's id, a ray.NodeID."""
        return _context().node_id

    @property
    def actor_id(self):
        """The actor's id, a ray.ActorID, or None."""
        return _context().actor_id

    @property
    def actor_name(self) -> "str | None":
        """The actor's name."""
        return _context().get_actor_name()

    @property
    def worker_id(self) -> bytes:
        """This process."""
        return bytes.fromhex(_context().get_worker_id())

    @property
    def runtime_env(self) -> dict:
        """The runtime environment."""
        return _context().runtime_env

    @property
    def node_ip_address(self) -> str:
        """The node's address."""
        from ray._private.services import get_node_ip_address

        return get_node_ip_address()

    @property
    def node(self) -> "GlobalNode | None":
        """The node that it is on; None: it is on none."""
        return GlobalNode() if _initialized() else None

    def check_connected(self):
        """Raises unless it is connected."""
        from ray._private import state

        state.check_connected()

    def get_accelerator_ids_for_accelerator_resource(self, resource_name, resource_regex=None):
        """The ids of the accelerators that the running task may use."""
        return _context().get_accelerator_ids().get(resource_name, [])


lacks(GlobalWorker, "core_worker function_actor_manager gcs_client memory_monitor redis_client")


class GlobalNode:
    """The node that this process is on."""

    @property
    def _session(self):
        return _core.session()

    @property
    def address_info(self) -> dict:
        """What ray.init's context says of it."""
        from ray._private.context import RayContext

        return RayContext(self._session).address_info

    @property
    def unique_id(self) -> str:
        """Its id."""
        return _context().get_node_id()

    node_id = unique_id

    @property
    def node_ip_address(self) -> str:
        """Its address."""
        return self.address_info["node_ip_address"]

    @property
    def gcs_address(self) -> str:
        """Where drivers join it; "": nowhere, it is a driver's own."""
        return self.address_info["gcs_address"]

    address = gcs_address

    @property
    def session_name(self) -> str:
        """The name of its session."""
        return _context().get_session_name()

    @property
    def webui_url(self) -> None:
        """None: there is no dashboard."""
        return None

    def is_head(self) -> bool:
        """Whether it is the first of its cluster, or the only one."""
        from ray._private import roster

        return roster.seen_here()[0].is_head

    def get_session_dir_path(self) -> str:
        """The folder of its session."""
        return self._session["session_dir"]

    def get_temp_dir_path(self) -> str:
        """The folder that has the folders of sessions."""
        return _context().get_temp_dir()


global_worker = GlobalWorker()
