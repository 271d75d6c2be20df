"""Every kind of task as a frame: out of its record, and into it again, before it runs."""

import os
import signal

import numpy as np
import pytest
import support

import ray
from ray.exceptions import RayTaskError, TaskCancelledError

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
