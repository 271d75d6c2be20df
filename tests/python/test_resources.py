"""Resources: what tasks and actors ask for, what they hold, and what they wait for."""

import os
import time

import pytest
import support

import ray


@ray.remote
def echo(x):
    return x


@pytest.fixture
def gate(folder):
    """A task that tells that it runs and then waits: gate.remote(name); what(runs); open(name)."""

    @ray.remote
    def hold(name):
        support.touch(f"{folder}/{name}.runs")
        support.wait_for_file(f"{folder}/{name}.open")
        return name

    class Gate:
        task = hold

        @staticmethod
        def runs():
            return {name[:-5] for name in os.listdir(folder) if name.endswith(".runs")}

        @staticmethod
        def open(name):
            support.touch(f"{folder}/{name}.open")

    yield Gate
    for name in list(Gate.runs()) + ["a", "b", "c", "d"]:
        Gate.open(name)


def settle():
    """Time enough for something that must not happen."""
    time.sleep(0.15)


def available(name):
    return ray.available_resources().get(name, 0)


def test_no_more_tasks_than_cpus(start, gate):
    start(num_cpus=2)
    refs = [gate.task.remote(name) for name in "abc"]
    assert support.wait_until(lambda: len(gate.runs()) == 2)
    settle()
    assert gate.runs() == {"a", "b"} and available("CPU") == 0
    gate.open("a")
    assert support.wait_until(lambda: "c" in gate.runs())
    for name in "bc":
        gate.open(name)
    assert ray.get(refs) == ["a", "b", "c"]
    assert support.wait_until(lambda: available("CPU") == 2)


def test_fractions_of_cpus(start, gate):
    start(num_cpus=1)
    half = gate.task.options(num_cpus=0.5)
    refs = [half.remote(name) for name in "abc"]
    assert support.wait_until(lambda: len(gate.runs()) == 2)
    settle()
    assert gate.runs() == {"a", "b"}
    for name in "abc":
        gate.open(name)
    ray.get(refs)


def test_ten_tenths_are_one(start, folder):
    start(num_cpus=1)

    @ray.remote(num_cpus=0.1)
    def meet():
        support.meet(folder, "tenth", 10)

    ray.get([meet.remote() for _ in range(10)])
    assert support.wait_until(lambda: available("CPU") == 1)


def test_tasks_without_cpus_always_run(start, gate):
    start(num_cpus=1)
    busy = gate.task.remote("a")
    assert support.wait_until(lambda: gate.runs() == {"a"})
    assert ray.get(echo.options(num_cpus=0).remote(5), timeout=30) == 5
    gate.open("a")
    ray.get(busy)


def test_custom_resources(start, gate):
    start(num_cpus=4, resources={"disk": 1})
    disk = gate.task.options(resources={"disk": 1})
    refs = [disk.remote(name) for name in "ab"]
    assert support.wait_until(lambda: len(gate.runs()) == 1)
    assert ray.get(echo.remote(1), timeout=30) == 1  # whoever needs no disk does not wait for it
    settle()
    assert gate.runs() == {"a"} and available("disk") == 0
    gate.open("a")
    assert support.wait_until(lambda: gate.runs() == {"a", "b"})
    gate.open("b")
    assert ray.get(refs) == ["a", "b"]
    assert support.wait_until(lambda: available("disk") == 1)


def test_memory_is_a_resource(start, gate):
    start(num_cpus=4, _memory=1000 << 20)
    needy = gate.task.options(memory=600 << 20)
    refs = [needy.remote(name) for name in "ab"]
    assert support.wait_until(lambda: len(gate.runs()) == 1)
    settle()
    assert gate.runs() == {"a"}
    for name in "ab":
        gate.open(name)
    ray.get(refs)


def test_gpus_by_index(start, folder):
    start(num_cpus=4, num_gpus=4)

    @ray.remote(num_gpus=1)
    def which():
        support.meet(folder, "which", 4)
        return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    found = ray.get([which.remote() for _ in range(4)])
    assert sorted(ids for ids, _ in found) == [[0], [1], [2], [3]]
    assert all(visible == str(ids[0]) for ids, visible in found)

    @ray.remote(num_gpus=2)
    def two():
        return ray.get_gpu_ids()

    ids = ray.get(two.remote())
    assert len(set(ids)) == 2 and set(ids) <= {0, 1, 2, 3}

    @ray.remote
    def none():
        return ray.get_gpu_ids()

    assert ray.get(none.remote()) == []
    assert ray.get_gpu_ids() == []


def test_fractions_of_gpus_share_one(start, folder):
    start(num_cpus=4, num_gpus=2)

    @ray.remote(num_gpus=0.5)
    def which():
        support.meet(folder, "which", 4)
        return tuple(ray.get_gpu_ids())

    found = ray.get([which.remote() for _ in range(4)])
    assert sorted(found) == [(0,), (0,), (1,), (1,)]


def test_gpus_are_those_that_the_driver_sees(start, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    start(num_cpus=2)
    assert ray.cluster_resources()["GPU"] == 2

    @ray.remote(num_gpus=2)
    def which():
        return sorted(ray.get_gpu_ids()), os.environ["CUDA_VISIBLE_DEVICES"]

    assert ray.get(which.remote()) == ([5, 7], "5,7")


def test_more_gpus_than_are_visible(start, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(ValueError, match="num_gpus"):
        start(num_gpus=2)


def test_a_task_with_gpus_has_a_fresh_process(start):
    start(num_cpus=1, num_gpus=1)

    @ray.remote(num_gpus=1)
    def pid():
        return os.getpid()

    assert len({ray.get(pid.remote()) for _ in range(3)}) == 3


@pytest.mark.parametrize("visible", [None, "5,7"])
def test_a_worker_forgets_the_gpus_that_it_had(start, monkeypatch, visible):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    start(num_cpus=1, num_gpus=2)

    @ray.remote(num_gpus=1, max_calls=0)
    def with_gpu():
        return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]

    @ray.remote
    def without():
        return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), ray.get_gpu_ids()

    had, met = set(), 0
    for _ in range(50):
        pid, gpu = ray.get(with_gpu.remote())
        assert gpu in ("0", "1", "5", "7")
        had.add(pid)
        pid, *found = ray.get(without.remote())
        assert found == [visible, []]
        met += pid in had
        if met == 3:
            return
    raise AssertionError("no worker ran both")


def test_an_actor_keeps_its_gpu(start):
    start(num_cpus=2, num_gpus=2)

    @ray.remote(num_gpus=1)
    class Model:
        def gpus(self):
            return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    models = [Model.remote(), Model.remote()]
    found = ray.get([model.gpus.remote() for model in models])
    assert sorted(ids for ids, _ in found) == [[0], [1]]
    assert ray.get([model.gpus.remote() for model in models]) == found
    assert available("GPU") == 0
    del models
    assert support.wait_until(lambda: available("GPU") == 2)


def test_a_blocked_task_gives_its_cpus_back(start):
    start(num_cpus=1)

    @ray.remote
    def nested(depth):
        return 0 if depth == 0 else 1 + ray.get(nested.remote(depth - 1))

    assert ray.get(nested.remote(6), timeout=40) == 6

    @ray.remote
    def waits():
        ready, _ = ray.wait([nested.remote(1)])
        return ray.get(ready[0])

    assert ray.get(waits.remote(), timeout=40) == 1


def test_a_blocked_task_keeps_its_other_resources(start, gate):
    start(num_cpus=2, num_gpus=1, resources={"disk": 1})

    @ray.remote(num_cpus=1, num_gpus=1, resources={"disk": 1})
    def outer():
        return ray.get(gate.task.remote("a"))

    ref = outer.remote()
    assert support.wait_until(lambda: gate.runs() == {"a"})
    assert support.wait_until(lambda: available("CPU") == 1)
    assert available("GPU") == 0 and available("disk") == 0
    gate.open("a")
    assert ray.get(ref) == "a"
    assert support.wait_until(
        lambda: available("CPU") == 2 and available("GPU") == 1 and available("disk") == 1
    )


def test_a_get_of_what_is_there_lends_nothing(start):
    start(num_cpus=1)

    @ray.remote
    def quick(refs):
        return ray.get(refs[0])

    assert ray.get([quick.remote([ray.put(i)]) for i in range(50)], timeout=40) == list(range(50))
    assert support.wait_until(lambda: available("CPU") == 1)


def test_an_actor_without_num_cpus_needs_one_and_holds_none(start, gate):
    start(num_cpus=1)

    @ray.remote
    class Plain:
        def hello(self):
            return "hello"

    actors = [Plain.remote() for _ in range(5)]
    assert ray.get([actor.hello.remote() for actor in actors], timeout=40) == ["hello"] * 5
    assert available("CPU") == 1
    busy = gate.task.remote("a")
    assert support.wait_until(lambda: gate.runs() == {"a"})
    late = Plain.remote().hello.remote()
    assert ray.wait([late], timeout=0.15) == ([], [late])  # there is no CPU to place it
    # but those that are placed go on
    assert ray.get(actors[0].hello.remote(), timeout=30) == "hello"
    gate.open("a")
    assert ray.get([late, busy], timeout=40) == ["hello", "a"]


def test_an_actor_with_num_cpus_holds_them(start):
    start(num_cpus=2)

    @ray.remote(num_cpus=1)
    class Holder:
        def hello(self):
            return "hello"

    holders = [Holder.remote() for _ in range(2)]
    ray.get([holder.hello.remote() for holder in holders])
    assert available("CPU") == 0
    ref = echo.remote(1)
    assert ray.wait([ref], timeout=0.15) == ([], [ref])
    ray.kill(holders[0])
    assert ray.get(ref, timeout=40) == 1
    assert support.wait_until(lambda: available("CPU") == 1)


def test_an_actor_with_zero_cpus(start, gate):
    start(num_cpus=1)

    @ray.remote(num_cpus=0)
    class Free:
        def hello(self):
            return "hello"

    busy = gate.task.remote("a")
    assert support.wait_until(lambda: gate.runs() == {"a"})
    assert ray.get(Free.remote().hello.remote(), timeout=30) == "hello"
    gate.open("a")
    ray.get(busy)


def test_a_crashed_task_gives_everything_back(start):
    start(num_cpus=2, num_gpus=1, resources={"disk": 1})

    @ray.remote(num_gpus=1, resources={"disk": 1}, max_retries=1)
    def crash():
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(crash.remote(), timeout=40)
    assert support.wait_until(
        lambda: (available("CPU"), available("GPU"), available("disk")) == (2, 1, 1)
    )


def test_a_big_task_is_not_starved_by_small_ones(start):
    start(num_cpus=2)

    @ray.remote
    def small():
        time.sleep(0.005)
        return time.monotonic()

    @ray.remote(num_cpus=2)
    def big():
        return time.monotonic()

    before = [small.remote() for _ in range(20)]
    wanted = big.remote()
    after = [small.remote() for _ in range(300)]
    ran = ray.get(wanted, timeout=40)
    ray.get(before)
    assert sum(end < ran for end in ray.get(after)) < 150


def test_first_come_first_served(start, folder):
    start(num_cpus=1)

    @ray.remote
    def note(i):
        with open(f"{folder}/order", "a") as file:
            file.write(f"{i}\n")

    ray.get([note.remote(i) for i in range(50)])
    with open(f"{folder}/order") as file:
        assert file.read().split() == [str(i) for i in range(50)]


def test_assigned_resources(start):
    start(num_cpus=2, num_gpus=1, resources={"disk": 1})

    @ray.remote(num_cpus=0.5, num_gpus=1, resources={"disk": 0.5})
    def look():
        context = ray.get_runtime_context()
        return context.get_assigned_resources(), context.get_accelerator_ids()

    assigned, accelerators = ray.get(look.remote())
    assert assigned == {"CPU": 0.5, "GPU": 1.0, "disk": 0.5}
    assert accelerators["GPU"] == ["0"]


NEVER = """
import ray, sys, time
ray.init(num_cpus=2, resources={"disk": 1})
@ray.remote(%s)
def greedy():
    return 1
@ray.remote
def modest():
    return 2
ref = greedy.remote()
print(ray.get(modest.remote()), ray.wait([ref], timeout=1) == ([], [ref]))
ray.shutdown()
"""


@pytest.mark.parametrize(
    "option, missing",
    [
        ("num_cpus=64", "CPU"),
        ("num_gpus=1", "GPU"),
        ("resources={'unicorn': 1}", "unicorn"),
        ("resources={'disk': 2}", "disk"),
        ("memory=1 << 60", "memory"),
    ],
    ids=["cpus", "gpus", "unknown", "too much", "memory"],
)
def test_what_can_never_fit_warns_and_waits(folder, option, missing):
    result = support.run_driver(support.script(folder, NEVER % option))
    assert result.stdout.split() == ["2", "True"], result.stderr
    assert missing in result.stderr and "greedy" in result.stderr


def test_everything_that_is_missing_is_named(folder):
    option = "num_cpus=64, memory=1 << 45, resources={'unicorn': 0.5, 'disk': 1}"
    result = support.run_driver(support.script(folder, NEVER % option))
    assert "CPU: 64, but this node has 2 in all" in result.stderr, result.stderr
    assert "unicorn: 0.5, but this node has 0 in all" in result.stderr
    assert f"memory: {1 << 45}, but" in result.stderr
    assert "disk" not in result.stderr


def test_a_plain_task_on_a_node_without_cpus_warns(folder):
    code = """
import ray
ray.init(num_cpus=0)
@ray.remote
def plain(): return 1
ref = plain.remote()
print(ray.wait([ref], timeout=1) == ([], [ref]))
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.split() == ["True"], result.stderr
    assert "CPU" in result.stderr and "plain" in result.stderr


def test_an_actor_that_can_never_fit_warns(folder):
    code = """
import ray
ray.init(num_cpus=2)
@ray.remote(num_gpus=3)
class Greedy:
    def hello(self): return 1
greedy = Greedy.remote()
ref = greedy.hello.remote()
print(ray.wait([ref], timeout=1) == ([], [ref]))
"""
    result = support.run_driver(support.script(folder, code))
    assert (
        result.stdout.strip() == "True" and "GPU" in result.stderr and "Greedy" in result.stderr
    ), result.stderr
