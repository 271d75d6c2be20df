"""References: what somebody still holds stays, and what nobody holds gives its memory back."""

import copy
import dataclasses
import gc
import os
import signal
import time

import pytest
import support

import ray
from ray.util.state import list_objects

INIT = {"num_cpus": 4, "object_store_memory": 200 << 20}
pytestmark = pytest.mark.usefixtures("cluster")

MB = 1_000_000
BIG = 20 * MB


@ray.remote
def make(size=BIG, fill=b"x"):
    return fill * size


@ray.remote
def length(data):
    return len(data)


@ray.remote
def echo(x):
    return x


@pytest.fixture(autouse=True)
def everything_comes_back():
    """Every test of this module must leave the store as free as it was."""
    gc.collect()
    before = support.store_free()
    yield
    gc.collect()
    assert support.wait_until(lambda: support.store_free() >= before - 8 * MB), (
        before,
        support.store_free(),
    )


def churn():
    """Goes through more than the whole store."""
    for _ in range(15):
        ray.put(b"y" * BIG)


def test_a_dropped_ref_gives_its_memory_back():
    before = support.store_free()
    ref = ray.put(b"x" * BIG)
    assert support.store_free() <= before - BIG
    del ref
    assert support.wait_until(lambda: support.store_free() >= before - 8 * MB)


def test_much_more_than_the_store_goes_through_it():
    for i in range(60):
        assert len(ray.get(ray.put(bytes([i]) * BIG))) == BIG
    for _ in range(30):
        assert ray.get(length.remote(make.remote())) == BIG


def test_many_small_objects_go_through_it():
    for _ in range(20):
        refs = [ray.put(b"x" * 2000) for _ in range(10_000)]
    assert ray.get(refs[-1]) == b"x" * 2000


def test_a_kept_ref_keeps_its_object():
    ref = ray.put(b"x" * BIG)
    result = make.remote(BIG, b"z")
    ray.wait([result])
    churn()
    assert ray.get(ref) == b"x" * BIG and ray.get(result) == b"z" * BIG


def test_copies_of_a_ref_keep_it():
    ref = ray.put(b"x" * BIG)
    holders = [[ref], {"k": ref}]
    del ref
    churn()
    assert len(ray.get(holders[0][0])) == BIG
    holders.pop(0)
    churn()
    assert len(ray.get(holders[0]["k"])) == BIG


def test_copies_by_the_copy_module():
    @dataclasses.dataclass
    class Holder:
        refs: list

    ref = ray.put(b"x" * BIG)
    assert copy.copy(ref) == ref and copy.deepcopy(ref) == ref
    found = [copy.deepcopy({"k": [ref]})["k"][0], dataclasses.asdict(Holder([ref]))["refs"][0]]
    del ref
    churn()
    assert [len(value) for value in ray.get(found)] == [BIG, BIG]


def test_a_refs_id():
    ref, other = ray.put(1), ray.put(2)
    assert ref.is_nil() is False
    assert ref.size() == ray.ObjectRef.size() == len(ref.binary()) == 20
    assert bytes(ref) == ref.binary() == bytes.fromhex(ref.hex()) != bytes(other)


def test_refs_inside_of_objects():
    outer = ray.put({"inner": [ray.put(b"x" * BIG)]})
    churn()
    assert len(ray.get(ray.get(outer)["inner"][0])) == BIG
    inner = ray.get(outer)["inner"][0]
    del outer
    churn()
    assert len(ray.get(inner)) == BIG


def test_refs_nested_three_deep():
    ref = ray.put(b"x" * BIG)
    for _ in range(3):
        ref = ray.put([ref])
    churn()
    for _ in range(3):
        (ref,) = ray.get(ref)
    assert len(ray.get(ref)) == BIG


def test_refs_that_a_task_returns():
    @ray.remote
    def make_inside():
        return [ray.put(b"x" * BIG)]

    ref = make_inside.remote()
    (inner,) = ray.get(ref)
    del ref
    churn()
    assert len(ray.get(inner)) == BIG


def test_refs_that_a_task_returns_and_nobody_looks_at():
    @ray.remote
    def make_inside():
        return [ray.put(b"x" * BIG), make.remote()]

    for _ in range(10):
        ray.wait([make_inside.remote()])


def test_refs_in_arguments():
    @ray.remote
    def use(refs, path):
        support.wait_for_file(path)
        return len(ray.get(refs[0]))

    path = os.path.join(support.run_folder(), f"go-{time.monotonic_ns()}")
    result = use.remote([ray.put(b"x" * BIG)], path)
    direct = length.remote(ray.put(b"x" * BIG))
    churn()
    support.touch(path)
    assert ray.get([result, direct]) == [BIG, BIG]


def test_arguments_of_tasks_that_wait(folder):
    @ray.remote
    def gate():
        support.wait_for_file(f"{folder}/go")

    @ray.remote
    def use(data, _):
        return len(data)

    results = [use.remote(ray.put(b"x" * BIG), gate.remote())]
    churn()
    support.touch(f"{folder}/go")
    assert ray.get(results) == [BIG]


def test_big_arguments_by_value():
    for _ in range(15):
        assert ray.get(length.remote(b"x" * BIG)) == BIG


def test_refs_in_an_actors_state():
    @ray.remote
    class Keeper:
        def keep(self, refs):
            self.refs = refs

        def make(self):
            self.refs = [ray.put(b"m" * BIG)]

        def lengths(self):
            return [len(data) for data in ray.get(self.refs)]

        def give(self):
            return self.refs

        def drop(self):
            self.refs = None

    keeper = Keeper.remote()
    ray.get(keeper.keep.remote([ray.put(b"x" * BIG)]))
    churn()
    assert ray.get(keeper.lengths.remote()) == [BIG]
    ray.get(keeper.make.remote())
    churn()
    (given,) = ray.get(keeper.give.remote())
    ray.get(keeper.drop.remote())
    churn()
    assert len(ray.get(given)) == BIG
    before = support.store_free()
    ray.get(keeper.keep.remote([ray.put(b"x" * BIG)]))
    ray.kill(keeper)
    assert support.wait_until(lambda: support.store_free() >= before - 8 * MB), (
        "a dead actor still holds its refs"
    )


def test_refs_in_a_global_of_a_worker():
    @ray.remote
    def keep(refs):
        import math

        math.kept_refs = refs

    @ray.remote
    def look():
        import math

        kept = getattr(math, "kept_refs", None)
        return None if kept is None else len(ray.get(kept[0]))

    @ray.remote
    def drop():
        import math

        math.kept_refs = None
        time.sleep(0.05)

    ray.get(keep.remote([ray.put(b"x" * BIG)]))
    churn()
    assert set(ray.get([look.remote() for _ in range(20)])) <= {None, BIG}
    for _ in range(3):
        ray.get([drop.remote() for _ in range(8)])


def test_refs_in_closures():
    ref = ray.put(b"x" * BIG)

    @ray.remote
    def closed_over():
        return len(ray.get(ref))

    pending = closed_over.remote()
    assert ray.get(pending) == BIG
    ref = None
    churn()
    assert ray.get(closed_over.remote()) == BIG
    del closed_over


def test_many_closures_one_after_the_other():
    """Each is dropped as soon as its result is there: while its worker is about to say that it
    keeps the function.
    """

    def loaded():
        return {
            row.object_id
            for row in list_objects(filters=[("reference_type", "=", "LOADED_FUNCTION")])
        }

    before = loaded()
    for _ in range(300):
        ref = ray.put(b"x" * 1000)

        @ray.remote
        def closed_over():
            return len(ray.get(ref))  # noqa: B023, F821

        assert ray.get(closed_over.remote()) == 1000
        del closed_over, ref
    assert support.wait_until(lambda: loaded() <= before)


def test_refs_in_exceptions():
    @ray.remote
    def fail():
        error = ValueError("carries")
        error.ref = ray.put(b"x" * BIG)
        raise error

    ref = fail.remote()
    ray.wait([ref])
    churn()
    with pytest.raises(ValueError) as info:
        ray.get(ref)
    assert len(ray.get(info.value.ref, timeout=30)) == BIG


def test_results_nobody_waits_for():
    for _ in range(20):
        make.remote()
    ray.get([make.remote(1) for _ in range(8)])


def test_results_dropped_before_they_are_there(folder):
    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return b"x" * BIG

    refs = [late.remote() for _ in range(4)]
    del refs
    support.touch(f"{folder}/go")


def test_one_of_several_results_is_kept():
    @ray.remote(num_returns=3)
    def three():
        return [fill * BIG for fill in (b"a", b"b", b"c")]

    _, kept, _ = three.remote()
    ray.wait([kept])
    churn()
    assert ray.get(kept) == b"b" * BIG


def test_a_ref_outlives_the_worker_that_made_the_object():
    @ray.remote(max_calls=1)
    def make_and_go():
        return os.getpid(), [ray.put(b"x" * BIG)]

    @ray.remote(max_calls=1)
    def result_and_go():
        return b"r" * BIG

    pid, (ref,) = ray.get(make_and_go.remote())
    result = result_and_go.remote()
    ray.wait([result])
    assert support.wait_until(lambda: not support.alive(pid))
    churn()
    assert ray.get(ref, timeout=30) == b"x" * BIG
    assert ray.get(result, timeout=30) == b"r" * BIG


def test_a_ref_outlives_a_killed_worker():
    @ray.remote
    class Maker:
        def make(self):
            self.own = ray.put(b"o" * BIG)
            return os.getpid(), [ray.put(b"x" * BIG)]

    maker = Maker.remote()
    pid, (ref,) = ray.get(maker.make.remote())
    os.kill(pid, signal.SIGKILL)
    assert support.wait_until(lambda: not support.alive(pid))
    churn()
    assert ray.get(ref, timeout=30) == b"x" * BIG


def test_a_crashed_tasks_objects_come_back():
    @ray.remote(max_retries=0)
    def crash():
        kept = [ray.put(b"x" * BIG), make.remote()]  # noqa: F841
        os._exit(1)

    for _ in range(5):
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(crash.remote(), timeout=30)


def test_refs_passed_on_from_worker_to_worker():
    @ray.remote
    def relay(refs, hops):
        return refs if hops == 0 else ray.get(relay.remote(refs, hops - 1))

    for _ in range(10):
        (ref,) = ray.get(relay.remote([ray.put(b"x" * MB)], 3))
        assert len(ray.get(ref)) == MB
    (ref,) = ray.get(relay.remote([ray.put(b"x" * BIG)], 4))
    churn()
    assert len(ray.get(ref)) == BIG


@pytest.mark.parametrize("count", [1, 10, 300, 3000])
def test_refs_returned_by_tasks_stay_good(count):
    """The worker drops its refs as soon as its result is out; the driver must not come too late."""

    @ray.remote
    def many(n):
        return [ray.put(i) for i in range(n)]

    for _ in range(max(1, min(100, 3000 // count))):
        refs = ray.get(many.remote(count))
        assert ray.get(refs, timeout=20) == list(range(count))


def test_refs_in_reference_cycles():
    for _ in range(5):
        cycle = [ray.put(b"x" * BIG)]
        cycle.append(cycle)
        del cycle
        gc.collect()


def test_an_errors_traceback_does_not_hold_for_ever():
    for _ in range(20):
        data = b"x" * BIG
        with pytest.raises(TypeError):
            ray.get(length.remote(ray.put(data), 1))


def anonymous(pid):
    """Bytes that a process has for itself."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))


def put_and_drop(count):
    for i in range(count):
        ray.put(i)
        ray.put(b"x" * 1000)


def call_and_drop(count):
    for _ in range(count // 1000):
        refs = [ignore.remote(i) for i in range(1000)]
        ray.wait(refs, num_returns=1000)


def put_pass_and_drop(count):
    for _ in range(count // 100):
        refs = [ignore.remote([ray.put(i)]) for i in range(100)]
        ray.wait(refs, num_returns=100)


@ray.remote
def ignore(value):
    return None


@pytest.mark.parametrize(
    "work, before, count",
    [
        (put_and_drop, 50_000, 300_000),
        (call_and_drop, 300_000, 300_000),  # the timeline keeps 262,144 runs
        (put_pass_and_drop, 300_000, 50_000),
    ],
)
def test_memory_is_flat_however_often(work, before, count):
    support.skip_if_sanitized()
    (call_and_drop if work is put_pass_and_drop else work)(before)  # pools have their size then
    pids = [os.getpid(), support.daemon_pid()]
    work(count // 10)
    sizes, free = [anonymous(pid) for pid in pids], support.store_free()
    work(count)
    grown = [anonymous(pid) - was for pid, was in zip(pids, sizes)]
    assert all(size < 3 * MB for size in grown), grown
    assert support.wait_until(lambda: support.store_free() >= free - MB)
