"""A daemon that is its own peer: a task is sent as a frame, visits, and comes back as a message.
Creations, calls and tasks that yield go through a frame in place.
"""

import gc
import os
import random
import signal
import time

import numpy as np
import pytest
import support

import ray
from ray.exceptions import RayTaskError, TaskCancelledError, WorkerCrashedError

pytestmark = pytest.mark.one_path("everything goes through the daemon anyway")


@pytest.fixture(autouse=True)
def session(start, monkeypatch):
    monkeypatch.setenv("MOBULA_LOOPBACK", "1")
    start(num_cpus=4, num_gpus=2, resources={"special": 2}, object_store_memory=200 << 20)


@ray.remote
def echo(*args, **kwargs):
    return args, kwargs


ARGUMENTS = [
    (),
    (1, "two", 3.0, None, b"five"),
    ({"a": [1, (2, 3)]}, {4}),
    ("x" * 1000,),
    ("y" * 60_000, b"z" * 60_000),
    ("z" * 1_000_000,),
    tuple(range(500)),
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments(arguments):
    assert ray.get(echo.remote(*arguments, key=arguments)) == (arguments, {"key": arguments})


def test_arrays_and_references():
    array = np.arange(100_000)
    ref, inner = ray.put(array), ray.put("inner")
    (got, again, nested), _ = ray.get(echo.remote(array, ref, [inner]))
    assert np.array_equal(got, array) and np.array_equal(again, array)
    assert ray.get(nested[0]) == "inner"
    late = echo.remote(echo.remote(ref, [inner]), 1)
    assert np.array_equal(ray.get(late)[0][0][0][0], array)


def test_several_returns_and_names():
    @ray.remote(num_returns=3)
    def three():
        return 1, ray.get_runtime_context().get_task_name(), np.zeros(100_000)

    one, name, zeros = ray.get(three.options(name="a name of its own").remote())
    assert (one, name, zeros.sum()) == (1, "a name of its own", 0)


def test_demands():
    @ray.remote(num_gpus=1, num_cpus=2, resources={"special": 1})
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.remote()) == {"CPU": 2.0, "GPU": 1.0, "special": 1.0}
    assert ray.get(assigned.options(num_cpus=0.5).remote())["CPU"] == 0.5


def test_errors_and_retries(tmp_path):
    @ray.remote(max_retries=2, retry_exceptions=True)
    def third(path, crashes):
        with open(path, "a") as file:
            file.write("x")
        if os.path.getsize(path) < 3:
            if crashes:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("not yet")
        return "done"

    assert ray.get(third.remote(str(tmp_path / "raises"), False)) == "done"
    assert ray.get(third.remote(str(tmp_path / "crashes"), True)) == "done"
    with pytest.raises(RayTaskError, match="unknown"):
        ray.get(ray.remote(lambda table: table["unknown"]).remote({}))


class Counter:
    def __init__(self, start, step=1):
        self.count, self.step = start, step

    def add(self, times=1):
        self.count += self.step * times
        return self.count

    def pid(self):
        return os.getpid()


class Async(Counter):
    async def add(self, times=1):
        return Counter.add(self, times)


@pytest.mark.parametrize("kind, options", [(Counter, {}), (Async, {}), (Counter, {"threads": 4})])
def test_actors(kind, options):
    extra = {"max_concurrency": 4} if options else {}
    actor = ray.remote(kind).options(name="counter", num_cpus=1, **extra).remote(10, step=5)
    assert ray.get([actor.add.remote() for _ in range(3)])[-1] in (15, 20, 25)
    assert ray.get(actor.add.remote(times=ray.put(2))) == 35
    assert ray.get(ray.get_actor("counter").add.remote(0)) == 35
    ray.kill(actor)


def test_an_actor_that_is_restarted():
    actor = ray.remote(Counter).options(max_restarts=1, max_task_retries=-1).remote(1)
    assert ray.get(actor.add.remote()) == 2
    os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)
    assert ray.get(actor.add.remote()) == 2


def test_cancel(tmp_path):
    @ray.remote
    def wait():
        support.touch(str(tmp_path / "begun"))
        support.wait_for_file(str(tmp_path / "never"))

    ref = wait.remote()
    support.wait_for_file(str(tmp_path / "begun"))
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=40)
    waiting = wait.options(resources={"special": 3}).remote()
    ray.cancel(waiting)
    with pytest.raises(TaskCancelledError):
        ray.get(waiting, timeout=40)


def test_results_of_all_sizes():
    """In the slot, in the message, and those that stay where they were made."""
    sizes = [0, 10, 100, 10_000, 60_000, 70_000, 3_000_000]

    @ray.remote(num_returns=len(sizes))
    def several():
        return tuple(b"x" * size for size in sizes)

    assert [len(value) for value in ray.get(several.remote())] == sizes


def test_references_inside_results():
    @ray.remote
    def make(size):
        return [ray.put(b"i" * size), {"task": echo.remote(size)}]

    for size in (1, 100_000):
        inner, table = ray.get(make.remote(size))
        assert len(ray.get(inner)) == size
        assert ray.get(table["task"])[0] == (size,)
    kept = [ray.get(make.remote(10))[0] for _ in range(50)]
    assert ray.get(kept) == [b"i" * 10] * 50


def test_a_large_container():
    refs = [ray.put(i) for i in range(5000)]

    @ray.remote
    def through(items):
        return items

    assert ray.get(ray.get(through.remote(refs))) == list(range(5000))


def test_nothing_is_left():
    def use():
        for size in (100, 50_000, 500_000):
            refs = [echo.remote(ray.put(b"x" * size), [ray.put(b"y")]) for _ in range(20)]
            ray.get(refs)
            del refs
        gc.collect()

    use()
    before = support.store_free_settled()
    use()
    assert support.wait_until(lambda: support.store_free() >= before)


def test_nested_tasks_lend_their_cpus():
    @ray.remote
    def fib(n):
        return n if n < 2 else sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert ray.get(fib.remote(8), timeout=100) == 21


def test_max_calls():
    @ray.remote(max_calls=2)
    def pid():
        return os.getpid()

    assert len({ray.get(pid.remote()) for _ in range(8)}) >= 4


def test_an_error_and_its_cause():
    @ray.remote
    def inner():
        raise KeyError("the cause")

    @ray.remote
    def outer(value):
        return value

    with pytest.raises(RayTaskError, match="the cause") as raised:
        ray.get(outer.remote(inner.remote()))
    assert isinstance(raised.value, KeyError)


def test_retries_are_counted_by_the_origin(tmp_path):
    @ray.remote(max_retries=3)
    def crash(path):
        with open(path, "a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerCrashedError):
        ray.get(crash.remote(str(tmp_path / "four")))
    assert os.path.getsize(tmp_path / "four") == 4
    with pytest.raises(WorkerCrashedError):
        ray.get(crash.options(max_retries=0).remote(str(tmp_path / "once")))
    assert os.path.getsize(tmp_path / "once") == 1

    @ray.remote(max_retries=2, retry_exceptions=[ValueError])
    def raises(path, kind):
        with open(path, "a") as file:
            file.write("x")
        raise kind("no")

    with pytest.raises(ValueError):
        ray.get(raises.remote(str(tmp_path / "three"), ValueError))
    assert os.path.getsize(tmp_path / "three") == 3
    with pytest.raises(TypeError):
        ray.get(raises.remote(str(tmp_path / "other"), TypeError))
    assert os.path.getsize(tmp_path / "other") == 1


@pytest.mark.parametrize("force", [False, True])
def test_cancel_reaches_the_children(tmp_path, force):
    @ray.remote
    def child(path):
        support.touch(path + ".begun")
        try:
            support.wait_for_file(path + ".never")
        finally:
            support.touch(path + ".ended")

    @ray.remote(max_retries=5)
    def parent(path):
        return ray.get(child.remote(path))

    path = str(tmp_path / "child")
    ref = parent.remote(path)
    support.wait_for_file(path + ".begun")
    ray.cancel(ref, force=force, recursive=True)
    with pytest.raises((TaskCancelledError, WorkerCrashedError)):
        ray.get(ref, timeout=40)
    if not force:
        support.wait_for_file(path + ".ended")


def test_tasks_of_a_process_that_died_come_back(tmp_path):
    """What has not begun when its submitter dies is recalled, and never runs."""

    @ray.remote(num_cpus=0)
    def submits(path):
        refs = [mark.options(resources={"special": 2}).remote(f"{path}.{i}") for i in range(3)]
        support.wait_for_file(path + ".0")
        os.kill(os.getpid(), signal.SIGKILL)
        return refs

    @ray.remote
    def mark(path):
        support.touch(path)
        support.wait_for_file(str(tmp_path / "go"))

    with pytest.raises(WorkerCrashedError):
        ray.get(submits.options(max_retries=0).remote(str(tmp_path / "mark")))
    support.touch(str(tmp_path / "go"))
    assert ray.get(echo.options(resources={"special": 2}).remote(1), timeout=40)
    assert sorted(path.name for path in tmp_path.glob("mark.*")) == ["mark.0"]


def test_workers_killed_at_random(tmp_path):
    """Nothing is lost, and what may run once does not run twice."""

    @ray.remote
    def work(path, name):
        with open(path, "a") as file:
            file.write(f"{name}\n")
        time.sleep(0.002)
        return name, os.getpid(), b"x" * random.choice([1, 1000, 100_000])

    once, often = str(tmp_path / "once"), str(tmp_path / "often")
    refs = [work.options(max_retries=-1).remote(often, i) for i in range(400)]
    fragile = [work.options(max_retries=0).remote(once, i) for i in range(400)]
    for _ in range(12):
        ready, _ = ray.wait(refs, num_returns=random.randrange(20, 300), timeout=40)
        try:
            os.kill(ray.get(random.choice(ready))[1], signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert [result[0] for result in ray.get(refs, timeout=100)] == list(range(400))
    crashed = 0
    for i, ref in enumerate(fragile):
        try:
            assert ray.get(ref, timeout=100)[0] == i
        except WorkerCrashedError:
            crashed += 1
    with open(once) as file:
        runs = file.read().split()
    assert len(runs) == len(set(runs))
    assert len(runs) >= 400 - crashed
