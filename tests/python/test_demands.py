"""Demands: what a task may ask for at once, and how many different ones there may be."""

import gc
import os

import pytest
import support

import ray
from ray import _core
from ray.exceptions import RaySystemError

NAMES = [f"own{i}" for i in range(300)]
INIT = {"num_cpus": 2, "resources": dict.fromkeys(NAMES, 2), "_memory": 1 << 30}

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(x):
    return x


@ray.remote
def assigned():
    return ray.get_runtime_context().get_assigned_resources()


@pytest.mark.parametrize("count", [63, 64, 100, 255])
def test_many_resources_in_one_demand(count):
    demand = dict.fromkeys(NAMES[:count], 1)
    assert ray.get(assigned.options(resources=demand).remote(), timeout=30) == {"CPU": 1, **demand}


def test_too_many_resources_in_one_demand():
    greedy = echo.options(resources=dict.fromkeys(NAMES, 1))
    with pytest.raises(ValueError, match="at most 256"):
        greedy.remote(1)
    assert ray.get(echo.remote(1), timeout=30) == 1


def test_too_many_resources_in_a_task():
    @ray.remote(max_retries=0)
    def outer():
        with pytest.raises(ValueError, match="at most 256"):
            echo.options(resources=dict.fromkeys(NAMES, 1)).remote(1)
        return ray.get(echo.remote(2))

    assert ray.get(outer.remote(), timeout=30) == 2


def test_too_many_names():
    names = [f"unheard{i}" for i in range(900)]
    with pytest.raises(RaySystemError, match="1024 different names"):
        held = [  # names that nobody uses any more do not count
            Holder.options(resources=dict.fromkeys(names[i : i + 225], 1)).remote()
            for i in range(0, 900, 225)
        ]
        del held
    assert ray.get(echo.remote(1), timeout=30) == 1


@ray.remote
class Holder:
    def look(self):
        return ray.get_runtime_context().get_assigned_resources()


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"num_cpus": 1.5}, {"CPU": 1.5}),
        ({"memory": 1000.5}, {"CPU": 1, "memory": 1000.5}),
        ({"resources": {"own1": 1.0001}}, {"CPU": 1, "own1": 1.0001}),
    ],
    ids=str,
)
def test_fractions_above_one(options, expected):
    assert ray.get(assigned.options(**options).remote(), timeout=30) == expected


def test_fractions_above_one_in_a_queue_of_their_own(folder):
    """Two CPUs are too few for two at once, whichever way they go."""

    @ray.remote
    def alone():
        mark = os.open(f"{folder}/mark", os.O_CREAT | os.O_EXCL)
        os.close(mark)
        os.unlink(f"{folder}/mark")

    task = alone.options(num_cpus=1.5)
    ray.get(task.remote(), timeout=30)  # opens the queue for those that follow
    ray.get([task.remote() for _ in range(2000)], timeout=50)
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)


def known(memory):
    """Whether a demand for so much memory is known, among the numbers that such a short session can
    have.
    """
    ray.available_resources()  # what was said before is heard
    return any(_core.shape_demand(number).get("memory") == memory for number in range(200))


def test_a_demand_that_nobody_needs_is_forgotten():
    task = echo.options(memory=12345)
    assert ray.get(task.remote(1), timeout=30) == 1
    assert known(12345)
    del task
    assert support.wait_until(lambda: not known(12345))


def test_a_demand_lives_with_its_actor():
    holder = Holder.options(memory=54321, num_cpus=0).remote()
    gc.collect()
    assert ray.get(holder.look.remote(), timeout=30) == {"memory": 54321}
    assert known(54321)
    del holder
    assert support.wait_until(lambda: not known(54321))


def test_a_demand_lives_with_its_waiting_tasks(folder):
    @ray.remote
    def hold():
        support.wait_for_file(f"{folder}/go")

    busy = [hold.options(memory=600 << 20).remote() for _ in range(4)]  # one at a time
    assert known(600 << 20)
    support.touch(f"{folder}/go")
    ray.get(busy, timeout=30)
    assert support.wait_until(lambda: not known(600 << 20))


def test_a_demand_is_forgotten_with_its_worker():
    @ray.remote(max_retries=0, num_cpus=0)
    def die():
        import os

        task = echo.options(memory=23456)
        ray.get(task.remote(1))
        os._exit(1)

    ray.wait([die.remote()], timeout=30)
    assert support.wait_until(lambda: not known(23456))


def test_different_demands_one_after_the_other():
    for i in range(3000):
        assert ray.get(echo.options(memory=1000000 + i).remote(i), timeout=30) == i


def test_different_demands_at_once():
    refs = [echo.options(memory=1000000 + i).remote(i) for i in range(10000)]
    assert ray.get(refs, timeout=50) == list(range(10000))
