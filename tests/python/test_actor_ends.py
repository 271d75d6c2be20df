"""The end of an actor: killed, by itself, with its last handle; and the hook that comes then."""

import _thread
import asyncio
import os
import sys
import time

import pytest
import support

import ray
from ray.exceptions import ActorDiedError, RayActorError

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def start_alone():
    """A session of one CPU in the place of the module's."""
    ray.shutdown()
    ray.init(num_cpus=1)
    yield
    ray.shutdown()
    ray.init(num_cpus=4)


@ray.remote
class Counter:
    def __init__(self, start=0, *, step=1):
        self.value = start
        self.step = step

    def add(self, n=1):
        self.value += n * self.step
        return self.value

    def get(self):
        return self.value

    def pid(self):
        return os.getpid()

    def fail(self):
        raise KeyError("method")

    def leave(self):
        os._exit(1)


def test_kill():
    counter = Counter.remote()
    pid = ray.get(counter.pid.remote())
    ray.kill(counter)
    with pytest.raises(ActorDiedError):
        ray.get(counter.get.remote(), timeout=40)
    assert support.wait_until(lambda: not support.alive(pid))
    ray.kill(counter)  # again is no error


def test_kill_ends_running_and_waiting_calls(folder):
    @ray.remote
    class Stuck:
        def run(self):
            support.touch(f"{folder}/running")
            time.sleep(1000)

    stuck = Stuck.remote()
    refs = [stuck.run.remote() for _ in range(3)]
    support.wait_for_file(f"{folder}/running")
    ray.kill(stuck)
    for ref in refs:
        with pytest.raises(RayActorError):
            ray.get(ref, timeout=40)


def test_kill_before_it_has_started():
    counter = Counter.remote()
    ray.kill(counter)
    with pytest.raises(RayActorError):
        ray.get(counter.get.remote(), timeout=40)


def test_kill_in_a_task():
    @ray.remote
    def end(counter):
        ray.kill(counter)

    counter = Counter.remote()
    ray.get(counter.get.remote())
    ray.get(end.remote(counter))
    with pytest.raises(ActorDiedError):
        ray.get(counter.get.remote(), timeout=40)


def test_kill_takes_handles_only():
    for bad in (5, None, ray.put(1), Counter):
        with pytest.raises((TypeError, ValueError), match=type(bad).__name__):
            ray.kill(bad)


def test_an_actor_that_exits_is_dead():
    counter = Counter.remote()
    ray.get(counter.get.remote())
    refs = [counter.leave.remote(), counter.get.remote(), counter.get.remote()]
    for ref in refs:
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=40)
    with pytest.raises(ActorDiedError):
        ray.get(counter.get.remote(), timeout=40)


@ray.remote
class Leaver:
    def __init__(self, path):
        import atexit

        atexit.register(support.touch, path)

    def get(self):
        return 1

    def leave(self, how):
        if how == "exit_actor":
            ray.actor.exit_actor()
        sys.exit(how)


@ray.remote
class AsyncLeaver(Leaver.__ray_actor_class__):
    async def leave(self, how):
        await asyncio.sleep(0)
        return super().leave(how)


@pytest.mark.parametrize(
    "how, told",
    [(None, "code 0"), (3, "code 3"), ("words", "code 1"), ("exit_actor", r"exit_actor\(\)")],
)
@pytest.mark.parametrize("kind", ["plain", "threads", "async"])
def test_an_actor_that_leaves_by_itself_ends_as_python_does(kind, how, told, folder):
    path = f"{folder}/ended"
    actor = (
        (AsyncLeaver if kind == "async" else Leaver)
        .options(max_concurrency=1 + (kind != "plain"))
        .remote(path)
    )
    assert ray.get(actor.get.remote()) == 1
    with pytest.raises(ActorDiedError, match=told):
        ray.get(actor.leave.remote(how), timeout=40)
    assert os.path.exists(path)
    with pytest.raises(ActorDiedError):
        ray.get(actor.get.remote(), timeout=40)


def test_an_actor_that_leaves_in_its_constructor():
    @ray.remote
    class Early:
        def __init__(self, how):
            if how == "exit_actor":
                ray.actor.exit_actor()
            sys.exit(1)

        def get(self):
            return 1

    for how in ("exit_actor", "exit"):
        with pytest.raises(ActorDiedError):
            ray.get(Early.remote(how).get.remote(), timeout=40)


def test_an_async_actor_that_leaves_is_no_error_to_tell_of(folder):
    code = """
import ray
ray.init(num_cpus=1, address="local")

@ray.remote
class Leaver:
    async def leave(self):
        ray.actor.exit_actor()

try:
    ray.get(Leaver.remote().leave.remote())
except ray.exceptions.ActorDiedError:
    print("left")
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.stderr) == ("left\n", "")


def test_only_an_actor_can_leave():
    with pytest.raises(TypeError, match="exit_actor called on a non-actor worker"):
        ray.actor.exit_actor()
    with pytest.raises(TypeError, match="exit_actor called on a non-actor worker"):
        ray.get(ray.remote(lambda: ray.actor.exit_actor()).remote())


def test_a_call_is_never_run_twice(folder):
    @ray.remote
    class Fragile:
        def run(self, i):
            with open(f"{folder}/log", "a") as file:
                file.write(f"{i}\n")
            if i == 3:
                os._exit(1)
            return i

    fragile = Fragile.remote()
    refs = [fragile.run.remote(i) for i in range(6)]
    assert ray.get(refs[:3], timeout=40) == [0, 1, 2]
    for ref in refs[3:]:
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=40)
    with open(f"{folder}/log") as file:
        assert file.read().split() == ["0", "1", "2", "3"]


def test_results_outlive_their_actor():
    @ray.remote
    class Maker:
        def make(self):
            return b"x" * 1_000_000

        def put(self):
            return [ray.put(b"y" * 1_000_000)]

    maker = Maker.remote()
    result, (inner,) = maker.make.remote(), ray.get(maker.put.remote())
    ray.get(result)
    ray.kill(maker)
    assert ray.get(result, timeout=30) == b"x" * 1_000_000
    assert ray.get(inner, timeout=30) == b"y" * 1_000_000


def test_an_actor_ends_with_its_last_handle():
    counter = Counter.remote()
    pid = ray.get(counter.pid.remote())
    again = ray.get(ray.put([counter]))
    del counter
    time.sleep(0.1)
    assert support.alive(pid) and ray.get(again[0].pid.remote()) == pid
    del again
    assert support.wait_until(lambda: not support.alive(pid))


def test_calls_without_a_handle_kept():
    assert ray.get(Counter.remote(5).get.remote()) == 5
    refs = [Counter.remote(i).add.remote() for i in range(10)]
    assert ray.get(refs, timeout=40) == list(range(1, 11))


def test_calls_finish_before_an_actor_without_handles_ends(folder):
    @ray.remote
    class Slow:
        def run(self, i):
            time.sleep(0.02)
            support.touch(f"{folder}/{i}")

    slow = Slow.remote()
    for i in range(10):
        slow.run.remote(i)
    del slow
    assert support.wait_until(lambda: len(os.listdir(folder)) == 10)


@pytest.mark.parametrize("way", ["the last handle", "__ray_terminate__", "exit_actor", "async"])
def test_the_hook_at_an_actors_end(folder, way):
    class Keeper:
        def leave(self):
            ray.actor.exit_actor()

        def __ray_shutdown__(self):
            support.touch(f"{folder}/told")
            raise KeyError("which is printed, and no more")

    class Loop:
        async def one(self):
            return 1

        async def __ray_shutdown__(self):
            support.touch(f"{folder}/told")

    keeper = ray.remote(Loop if way == "async" else Keeper).remote()
    ray.get(keeper.__ray_ready__.remote())
    if way == "exit_actor":
        keeper.leave.remote()
    elif way == "__ray_terminate__":
        keeper.__ray_terminate__.remote()
    else:
        del keeper
    support.wait_for_file(f"{folder}/told")


def test_the_hook_does_not_come_where_an_actor_is_killed(folder):
    class Keeper:
        def __ray_shutdown__(self):
            support.touch(f"{folder}/told")

    keeper = ray.remote(Keeper).remote()
    ray.get(keeper.__ray_ready__.remote())
    ray.kill(keeper)
    with pytest.raises(ActorDiedError):
        ray.get(keeper.__ray_ready__.remote())
    time.sleep(0.2)
    assert os.listdir(folder) == []


def test_the_hook_may_wait_for_tasks(start_alone, folder):
    """The actor's CPU is lent meanwhile, as it is while a method waits."""

    @ray.remote(num_cpus=1)
    def save():
        support.touch(f"{folder}/saved")

    @ray.remote(num_cpus=1)
    class Keeper:
        def __ray_shutdown__(self):
            ray.get(save.remote())

    keeper = Keeper.remote()
    ray.get(keeper.__ray_ready__.remote())
    del keeper
    support.wait_for_file(f"{folder}/saved")
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 1)


def test_the_hook_comes_once_however_many_threads_end_the_actor(folder):
    @ray.remote(max_concurrency=4)
    class Keeper:
        def leave(self):
            support.touch(f"{folder}/leaves-{_thread.get_ident()}")
            support.wait_until(lambda: len(os.listdir(folder)) >= 2, 30)
            ray.actor.exit_actor()

        def __ray_shutdown__(self):
            support.touch(f"{folder}/begins-{_thread.get_ident()}")
            time.sleep(0.3)
            support.touch(f"{folder}/ends-{_thread.get_ident()}")

    keeper = Keeper.remote()
    refs = [keeper.leave.remote(), keeper.leave.remote()]
    for ref in refs:
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=40)
    names = sorted(name.partition("-")[0] for name in os.listdir(folder))
    assert names == ["begins", "ends", "leaves", "leaves"]


def test_a_detached_actor_takes_its_tasks_along_and_nothing_else(folder):
    """In a session that its program started for itself, and that goes on."""

    @ray.remote
    def wait(path):
        support.wait_for_file(path)

    @ray.remote(num_cpus=0)
    class Maker:
        def make(self):
            return [wait.remote(f"{folder}/never") for _ in range(2)]

    maker = Maker.options(lifetime="detached", name="maker").remote()
    refs = ray.get(maker.make.remote())
    ray.kill(maker)
    for ref in refs:
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref, timeout=40)
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 4)
    assert ray.get(ray.remote(lambda: 1).remote()) == 1
