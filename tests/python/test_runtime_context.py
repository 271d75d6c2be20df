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
