"""What a task, an actor or a driver can ask about itself."""

import pytest

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def ids():
    context = ray.get_runtime_context()
    return {
        "job": context.get_job_id(),
        "node": context.get_node_id(),
        "worker": context.get_worker_id(),
        "task": context.get_task_id(),
        "actor": context.get_actor_id(),
        "name": context.get_actor_name(),
        "again": context.was_current_actor_reconstructed,
    }


@ray.remote
class Actor:
    def ids(self):
        context = ray.get_runtime_context()
        return (
            context.get_actor_id(),
            context.get_task_id(),
            context.get_node_id(),
            context.get_worker_id(),
        )


def is_id(text):
    return isinstance(text, str) and len(text) >= 8 and int(text, 16) >= 0


def test_in_the_driver():
    context = ray.get_runtime_context()
    assert (
        is_id(context.get_node_id())
        and is_id(context.get_job_id())
        and is_id(context.get_worker_id())
    )
    assert (
        context.get_task_id() is None
        and context.get_actor_id() is None
        and context.get_actor_name() is None
    )
    assert context.get_node_id() == ray.nodes()[0]["NodeID"]


def test_in_a_task():
    found = ray.get(ids.remote())
    context = ray.get_runtime_context()
    assert found["job"] == context.get_job_id() and found["node"] == context.get_node_id()
    assert is_id(found["worker"]) and found["worker"] != context.get_worker_id()
    assert is_id(found["task"])
    assert (found["actor"], found["name"], found["again"]) == (None, None, False)


def test_each_task_has_its_own_id():
    found = ray.get([ids.remote() for _ in range(50)])
    assert len({each["task"] for each in found}) == 50


def test_in_an_actor():
    one, two = Actor.remote(), Actor.remote()
    first, second, third = ray.get([one.ids.remote(), one.ids.remote(), two.ids.remote()])
    assert is_id(first[0]) and first[0] == second[0] != third[0]
    assert first[1] != second[1] and first[3] == second[3] != third[3]
    assert first[2] == ray.nodes()[0]["NodeID"]


@ray.remote
class Ids:
    def of(self):
        context = ray.get_runtime_context()
        return context.get(), context.get_task_id(), context.get_actor_id()


def test_ids_as_objects():
    context = ray.get_runtime_context()
    assert isinstance(context.node_id, ray.NodeID) and isinstance(context.job_id, ray.JobID)
    assert context.node_id.hex() == context.get_node_id()
    assert context.job_id.hex() == context.get_job_id()
    assert context.task_id is None and context.actor_id is None
    assert context.get() == {
        "job_id": context.job_id,
        "node_id": context.node_id,
        "namespace": context.namespace,
    }
    found, task, actor = ray.get(Ids.remote().of.remote())
    assert found == {
        **context.get(),
        "task_id": ray.TaskID.from_hex(task),
        "actor_id": ray.ActorID.from_hex(actor),
    }
    assert ray.WorkerID.from_hex(context.get_worker_id()).hex() == context.get_worker_id()


@pytest.mark.parametrize("name", ["ActorID", "JobID", "NodeID", "TaskID", "WorkerID"])
def test_what_an_id_is(name):
    kind = getattr(ray, name)
    one, other = kind.from_random(), kind.from_random()
    assert one == kind(one.binary()) == kind.from_binary(bytes(one)) == kind.from_hex(one.hex())
    assert one != other and one != one.binary() and len({one, kind(one.binary()), other}) == 2
    assert len(one.binary()) == kind.size() and repr(one) == f"{name}({one.hex()})"
    assert kind.nil().is_nil() and not one.is_nil()
    assert ray.get(ray.put(one)) == one
    for wrong in (b"", one.binary() + b"x", one.hex(), None):
        with pytest.raises(ValueError, match=f"a {name} has {kind.size()} bytes"):
            kind(wrong)


def test_the_number_of_a_job():
    assert ray.JobID.from_int(258).hex() == "00000102" and ray.JobID.from_int(258).int() == 258


def test_where_it_runs(cluster):
    @ray.remote
    def look():
        context = ray.get_runtime_context()
        return context.get_temp_dir(), context.get_session_name(), context.get_node_labels()

    folder, name, labels = ray.get(look.remote())
    context = ray.get_runtime_context()
    assert f"{folder}/{name}" == cluster.address_info["session_dir"]
    assert (folder, name) == (context.get_temp_dir(), context.get_session_name())
    assert labels == context.get_node_labels() == {"ray.io/node-id": context.get_node_id()}
    assert context.get_resource_ids() == context.get_accelerator_ids() == {"GPU": []}


def test_the_runtime_environment_is_an_empty_one():
    context = ray.get_runtime_context()
    assert context.runtime_env == {} and context.get_runtime_env_string() == "{}"


def test_no_two_workers_have_the_same_id():
    @ray.remote(num_cpus=0)
    class Brief:
        def ids(self):
            session = ray._private.worker._core.session()
            return session["number"], ray.get_runtime_context().get_worker_id()

    found = []
    for _ in range(30):
        brief = Brief.remote()
        found.append(ray.get(brief.ids.remote()))
        ray.kill(brief)
    assert len({number for number, _ in found}) < 30  # they are used again
    assert len({worker for _, worker in found}) == 30


def names():
    context = ray.get_runtime_context()
    return context.get_task_name(), context.get_task_function_name()


def test_names_of_tasks_and_methods():
    @ray.remote
    class Named:
        def __init__(self):
            self.first = (*names(), ray.get_runtime_context().get_actor_id())

        def plain(self):
            return names()

        def made(self):
            return self.first, ray.get_runtime_context().get_actor_id()

    @ray.remote
    class AsyncNamed:
        async def plain(self):
            return names()

    task = ray.remote(names)
    assert ray.get(task.remote()) == ("names", "names")
    assert ray.get(task.options(name="given").remote()) == ("given", "names")
    assert ray.get(task.options(name="given", retry_exceptions=[ValueError]).remote()) == (
        "given",
        "names",
    )
    assert ray.get(Named.remote().plain.remote()) == ("Named.plain", "Named.plain")
    assert ray.get(Named.options(max_concurrency=2).remote().plain.remote()) == (
        "Named.plain",
        "Named.plain",
    )
    assert ray.get(AsyncNamed.remote().plain.remote()) == ("AsyncNamed.plain", "AsyncNamed.plain")
    made, actor = ray.get(Named.remote().made.remote())
    assert made == ("Named.__init__", "Named.__init__", actor)
    assert names() == (None, None)


def test_assigned_resources():
    @ray.remote(num_cpus=2)
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.remote()) == {"CPU": 2.0}


def test_private_names_that_libraries_use():
    (node,) = ray.nodes()
    per_node = ray._private.state.available_resources_per_node()
    assert list(per_node) == [node["NodeID"]] and per_node[node["NodeID"]]["CPU"] == 4
    import ray._private.services as services
    import ray._private.worker as worker

    assert worker.global_worker.connected is True
    assert isinstance(services.get_node_ip_address(), str)
    assert ray.ray_constants.REDIS_DEFAULT_PASSWORD
    assert ray.cloudpickle.loads(ray.cloudpickle.dumps(lambda: 5))() == 5
    assert ray.util.get_node_ip_address().count(".") == 3


def test_exceptions_are_the_ones_that_users_know():
    errors = ray.exceptions
    for name in (
        "RayTaskError RayActorError ActorDiedError ActorUnavailableError GetTimeoutError "
        "WorkerCrashedError TaskCancelledError ObjectLostError OwnerDiedError ObjectFreedError "
        "ObjectReconstructionFailedError ObjectStoreFullError OutOfDiskError OutOfMemoryError "
        "NodeDiedError RuntimeEnvSetupError PendingCallsLimitExceeded AuthenticationError"
    ).split():
        assert issubclass(getattr(errors, name), errors.RayError), name
    assert issubclass(errors.ActorDiedError, errors.RayActorError)
    assert issubclass(errors.ActorUnavailableError, errors.RayActorError)
    for name in ("OwnerDiedError", "ObjectFreedError", "ObjectReconstructionFailedError"):
        assert issubclass(getattr(errors, name), errors.ObjectLostError)
    assert issubclass(errors.GetTimeoutError, TimeoutError)
