"""ray.util.collective."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import support

import ray
from ray.util import collective
from ray.util.collective.types import Backend, ReduceOp

INIT = {"num_cpus": 4}
pytestmark = pytest.mark.usefixtures("cluster")

LARGE = 700_001  # float64: less than a piece, and not a multiple of any number of ranks
PIECES = 2_500_003  # float64: two pieces


@ray.remote(num_cpus=0)
class Rank:
    """One rank, or several of different groups."""

    def init(self, world_size, rank, group_name="default", **options):
        options.setdefault("backend", "gloo")
        collective.init_collective_group(world_size, rank, group_name=group_name, **options)

    def call(self, name, *args, **kwargs):
        """A function of collective's on copies of the arrays; they, and what it returned."""
        args = [_own(arg) for arg in args]
        result = getattr(collective, name)(*args, **kwargs)
        return [*args, result]

    def many(self, count):
        for _ in range(count):
            collective.allreduce(array := np.ones(3))
        return array

    def run(self, function, *args):
        return function(*args)

    def pid(self):
        return os.getpid()


def _own(arg):
    if isinstance(arg, np.ndarray):
        return arg.copy()
    return [_own(one) for one in arg] if isinstance(arg, list) else arg


@pytest.fixture
def ranks():
    """Makes actors that are a group; they are killed after the test."""
    made = []

    def make(count, **options):
        actors = [Rank.remote() for _ in range(count)]
        made.extend(actors)
        ray.get([actor.init.remote(count, i, **options) for i, actor in enumerate(actors)])
        return actors

    yield make
    for actor in made:
        ray.kill(actor)


def on_all(actors, name, arrays, *args, **kwargs):
    """What each rank's first argument is after a call of all, each with an array of its own."""
    calls = [a.call.remote(name, one, *args, **kwargs) for a, one in zip(actors, arrays)]
    return [answer[0] for answer in ray.get(calls)]


def arrays_of(count, size, dtype="float64"):
    random = np.random.default_rng(7)
    return [random.integers(0, 3, size).astype(dtype) for _ in range(count)]


def test_allreduce(ranks):
    actors = ranks(3)
    for size in (0, 1, 3, 2048, 2049, LARGE, PIECES):
        arrays = arrays_of(3, size)
        for found in on_all(actors, "allreduce", arrays):
            assert np.array_equal(found, sum(arrays))


def test_operations(ranks):
    actors = ranks(3)
    for size in (5, LARGE):
        arrays = [array + 1 for array in arrays_of(3, size)]
        for op, expected in (
            (ReduceOp.PRODUCT, arrays[0] * arrays[1] * arrays[2]),
            (ReduceOp.MIN, np.minimum.reduce(arrays)),
            (ReduceOp.MAX, np.maximum.reduce(arrays)),
        ):
            for found in on_all(actors, "allreduce", arrays, op=op):
                assert np.array_equal(found, expected)


def test_dtypes(ranks):
    actors = ranks(2)
    for dtype in "float16 float32 int8 uint8 int16 int32 int64 uint64 complex128 >f8".split():
        for size in (7, 100_000):
            arrays = arrays_of(2, size, dtype)
            for found in on_all(actors, "allreduce", arrays):
                assert found.dtype == dtype and np.array_equal(found, arrays[0] + arrays[1])


def test_bools_have_an_order_and_no_sum(ranks):
    actors = ranks(2)
    arrays = [np.array([True, False, True]), np.array([True, False, False])]
    found = on_all(actors, "allreduce", arrays, op=ReduceOp.MAX)
    assert found[1].tolist() == [True, False, True]
    with pytest.raises(RuntimeError, match="uint8"):
        on_all(actors, "allreduce", arrays)


def test_every_rank_gets_the_same_bits(ranks):
    actors = ranks(4)
    random = np.random.default_rng(1)
    for size in (100, 300_000):
        found = on_all(actors, "allreduce", [random.random(size) * 10.0**i for i in range(4)])
        assert all(np.array_equal(found[0], other) for other in found[1:])


def test_arrays_that_do_not_lie_in_one_piece(ranks):
    def strided(rank, step):
        whole = np.full((600, 400), float(rank))
        part = whole[::step, 1::3].T
        collective.allreduce(part)
        collective.broadcast(part, 1)
        scalar = np.array(float(rank))  # of no dimension
        collective.allreduce(scalar)
        return whole, scalar.item()

    actors = ranks(2)
    for step in (200, 2):
        found = ray.get([actor.run.remote(strided, i, step) for i, actor in enumerate(actors)])
        for rank, (whole, scalar) in enumerate(found):
            expected = np.full((600, 400), float(rank))
            expected[::step, 1::3] = 1
            assert np.array_equal(whole, expected) and scalar == 1


def test_reduce_changes_only_one_rank(ranks):
    actors = ranks(3)
    for size in (3, LARGE, PIECES):
        arrays = arrays_of(3, size)
        found = on_all(actors, "reduce", arrays, dst_rank=1)
        assert np.array_equal(found[0], arrays[0]) and np.array_equal(found[2], arrays[2])
        assert np.array_equal(found[1], sum(arrays))


def test_broadcast(ranks):
    actors = ranks(3)
    for size in (3, LARGE, PIECES):
        arrays = arrays_of(3, size)
        for found in on_all(actors, "broadcast", arrays, src_rank=2):
            assert np.array_equal(found, arrays[2])


def test_allgather(ranks):
    actors = ranks(2)
    for size in (3, LARGE, PIECES):
        arrays = arrays_of(2, size)
        places = [np.zeros(size) for _ in actors]
        for found in ray.get(
            [a.call.remote("allgather", places, b) for a, b in zip(actors, arrays)]
        ):
            assert all(np.array_equal(place, array) for place, array in zip(found[0], arrays))


def test_reducescatter(ranks):
    actors = ranks(3)
    for size in (3, LARGE, PIECES):
        lists = [arrays_of(3, size), [a + 1 for a in arrays_of(3, size)], arrays_of(3, size)]
        out = np.zeros(size)
        found = ray.get([a.call.remote("reducescatter", out, b) for a, b in zip(actors, lists)])
        for rank, (output, given, _) in enumerate(found):
            assert np.array_equal(output, sum(one[rank] for one in lists))
            assert all(np.array_equal(a, b) for a, b in zip(given, lists[rank]))


def test_send_and_recv(ranks):
    actors = ranks(3)
    for size in (3, LARGE, PIECES):
        array = np.arange(size, dtype=float)
        sent = actors[2].call.remote("send", array, 0)
        got = actors[0].call.remote("recv", np.zeros(size), 2)
        assert np.array_equal(ray.get(got)[0], array)
        ray.get(sent)


def test_pairs_do_not_wait_for_each_other(ranks):
    actors = ranks(3)
    ray.get(actors[0].init.remote(2, 0, "other"))
    later = actors[1].call.remote("recv", np.zeros(3), 0)
    ray.get(
        [
            actors[0].call.remote("send", np.ones(3), 2),
            actors[2].call.remote("recv", np.zeros(3), 0),
        ]
    )
    ray.get(actors[0].call.remote("send", np.ones(3), 1))
    assert ray.get(later)[0].sum() == 3


def test_barrier(ranks, folder):
    actors = ranks(3)
    waiting = [actor.call.remote("barrier") for actor in actors[:2]]
    assert not ray.wait(waiting, timeout=0.2)[0]
    ray.get([*waiting, actors[2].call.remote("barrier")])


def test_many_one_after_the_other(ranks):
    actors = ranks(4)
    for found in ray.get([actor.many.remote(100) for actor in actors]):
        assert found.tolist() == [4, 4, 4]


def test_what_is_known_of_a_group(ranks):
    actors = ranks(2, group_name="known")
    for rank, actor in enumerate(actors):
        ask = [
            actor.call.remote(name, "known")
            for name in ("get_rank", "get_collective_group_size", "is_group_initialized")
        ]
        assert [answer[-1] for answer in ray.get(ask)] == [rank, 2, True]
    assert collective.get_rank("known") == collective.get_collective_group_size("known") == -1
    assert not collective.is_group_initialized("known")
    assert collective.gloo_available() and not collective.nccl_available()


def test_several_groups_at_once(ranks):
    actors = ranks(3, group_name="all")
    ray.get([actor.init.remote(2, i, "two") for i, actor in enumerate(actors[1:])])
    one = np.ones(100_000)
    two = [actor.call.remote("allreduce", one, "two") for actor in actors[1:]]
    three = [actor.call.remote("allreduce", one, "all") for actor in actors]
    assert [found[0][0] for found in ray.get(two)] == [2, 2]
    assert [found[0][-1] for found in ray.get(three)] == [3, 3, 3]


def test_a_driver_is_a_rank():
    actor = Rank.remote()
    ray.get(actor.init.remote(2, 1, "with the driver"))
    collective.init_collective_group(2, 0, "gloo", "with the driver")
    summed = actor.call.remote("allreduce", np.ones(10), "with the driver")
    collective.allreduce(array := np.ones(10), "with the driver")
    assert array[0] == 2 and ray.get(summed)[0][0] == 2
    collective.destroy_collective_group("with the driver")


def test_tasks_are_ranks():
    @ray.remote
    def task(rank):
        collective.init_collective_group(2, rank, "gloo", "tasks")
        collective.allreduce(array := np.full(50_000, float(rank + 1)), "tasks")
        collective.destroy_collective_group("tasks")
        return array[0]

    assert ray.get([task.remote(0), task.remote(1)]) == [3, 3]


def test_declared():
    actors = [Rank.remote() for _ in range(3)]
    collective.create_collective_group(actors, 3, [2, 0, 1], "gloo", "declared")
    with pytest.raises(RuntimeError, match="twice"):
        collective.create_collective_group(actors, 3, [2, 0, 1], "gloo", "declared")
    found = ray.get([actor.call.remote("allreduce", np.ones(3), "declared") for actor in actors])
    assert [one[0][0] for one in found] == [3, 3, 3]
    assert [r[-1] for r in ray.get([a.call.remote("get_rank", "declared") for a in actors])] == [
        2,
        0,
        1,
    ]
    ray.get([actor.call.remote("destroy_collective_group", "declared") for actor in actors])
    with pytest.raises(RuntimeError, match="not initialized"):
        ray.get(actors[0].call.remote("barrier", "declared"))
    collective.create_collective_group(actors[:1], 1, [0], "gloo", "declared")
    ray.get(actors[0].call.remote("barrier", "declared"))
    collective.destroy_collective_group("declared")


def test_destroyed_and_made_again(ranks):
    actors = ranks(2, group_name="again")
    for _ in range(5):
        # One is ahead of the other, which has not left the old group yet.
        for rank, actor in enumerate(actors):
            actor.call.remote("destroy_collective_group", "again")
            actor.init.remote(2, rank, "again")
        found = ray.get([actor.call.remote("allreduce", np.ones(3), "again") for actor in actors])
        assert [one[0][0] for one in found] == [2, 2]


def test_nothing_is_left(ranks):
    before = support.store_free_settled()
    actors = ranks(3, group_name="left")
    on_all(actors, "allreduce", arrays_of(3, PIECES), "left")
    ray.get([actor.call.remote("destroy_collective_group", "left") for actor in actors])
    assert support.wait_until(lambda: support.store_free_settled() >= before - (1 << 20))
    assert support.wait_until(lambda: "collective:left" not in ray.util.list_named_actors())


def test_shapes_that_do_not_fit(ranks):
    actors = ranks(3)
    for size in (4, 100_000):
        calls = [
            actor.call.remote("allreduce", np.ones(size + (rank == 1)))
            for rank, actor in enumerate(actors)
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match=r"rank 1") as error:
                ray.get(call)
            assert f"({size},)" in str(error.value) and f"({size + 1},)" in str(error.value)
    # All have got the error, and go on.
    assert on_all(actors, "allreduce", [np.ones(2)] * 3)[0].tolist() == [3, 3]


def test_calls_that_do_not_fit(ranks):
    actors = ranks(2)
    for first, second in (
        (("allreduce", np.ones(3)), ("barrier",)),
        (("allreduce", np.ones(3)), ("allreduce", np.ones(3, "float32"))),
        (("broadcast", np.ones(3), 0), ("broadcast", np.ones(3), 1)),
    ):
        calls = [actors[0].call.remote(*first), actors[1].call.remote(*second)]
        for call in calls:
            with pytest.raises(RuntimeError, match="rank 0 called|rank 1 called"):
                ray.get(call)
    sent = actors[0].call.remote("send", np.ones(3), 1)
    with pytest.raises(RuntimeError, match="do not fit"):
        ray.get(actors[1].call.remote("recv", np.ones(4), 0))
    with pytest.raises(RuntimeError, match="do not fit"):
        ray.get(sent)


@pytest.mark.parametrize("size", [3, LARGE])
def test_a_rank_that_is_killed(ranks, size):
    actors = ranks(3)
    pid = ray.get(actors[2].pid.remote())
    waiting = [actor.call.remote("allreduce", np.ones(size)) for actor in actors[:2]]
    assert not ray.wait(waiting, timeout=0.1)[0]
    os.kill(pid, signal.SIGKILL)
    for call in waiting:
        with pytest.raises(RuntimeError, match=rf"rank 2 \(process {pid}\) died"):
            ray.get(call, timeout=20)
    with pytest.raises(RuntimeError, match="rank 2"):  # at once, from now on
        ray.get(actors[0].call.remote("barrier"), timeout=20)


def test_kills_at_any_moment(ranks):
    random = np.random.default_rng(3)
    before = support.store_free_settled()
    for _ in range(5):
        actors = ranks(3, group_name="killed")
        victim = actors[int(random.integers(3))]
        pid = ray.get(victim.pid.remote())
        calls = [a.call.remote("allreduce", np.ones(PIECES), "killed") for a in actors]
        time.sleep(random.random() * 0.1)
        os.kill(pid, signal.SIGKILL)
        for actor, call in zip(actors, calls):
            if actor is not victim:
                try:
                    assert ray.get(call, timeout=30)[0][0] == 3
                except RuntimeError as error:
                    assert f"process {pid}" in str(error)
        del calls, call
        for actor in actors:
            ray.kill(actor)
    assert support.wait_until(lambda: support.store_free_settled() >= before - (1 << 20))


def test_a_rank_that_is_restarted_joins_anew():
    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
    class Restarted:
        def init(self, rank):
            if collective.is_group_initialized("restarted"):
                collective.destroy_collective_group("restarted")
            collective.init_collective_group(2, rank, "gloo", "restarted")

        def sum(self):
            collective.allreduce(array := np.ones(3), "restarted")
            return array[0]

        def pid(self):
            return os.getpid()

    actors = [Restarted.remote() for _ in range(2)]
    init = lambda: ray.get([a.init.remote(i) for i, a in enumerate(actors)])  # noqa: E731
    total = lambda: ray.get([a.sum.remote() for a in actors])  # noqa: E731
    init()
    assert total() == [2, 2]
    os.kill(ray.get(actors[1].pid.remote()), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 1|not initialized"):
        total()
    init()
    assert total() == [2, 2]


def test_a_rank_that_does_not_come(ranks):
    actors = ranks(3, gloo_timeout=300)
    calls = [actor.call.remote("allreduce", np.ones(3)) for actor in actors[:2]]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"waited for 0\.3 s, and rank 2 did not come"):
            ray.get(call)
    with pytest.raises(RuntimeError, match="is broken"):
        ray.get(actors[2].call.remote("barrier"))


def test_a_rank_that_never_joined():
    actor = Rank.remote()
    ray.get(actor.init.remote(3, 1, "lonely", gloo_timeout=200))
    with pytest.raises(RuntimeError, match="ranks 0, 2 never joined"):
        ray.get(actor.call.remote("barrier", "lonely"))


def test_a_rank_that_has_left(ranks):
    actors = ranks(3)
    waiting = actors[0].call.remote("barrier")
    assert not ray.wait([waiting], timeout=0.1)[0]
    ray.get(actors[1].call.remote("destroy_collective_group"))
    with pytest.raises(RuntimeError, match="rank 1 has destroyed"):
        ray.get(waiting)
    # The other two still have each other.
    sent = actors[0].call.remote("send", np.ones(3), 2)
    assert ray.get(actors[2].call.remote("recv", np.zeros(3), 0))[0].sum() == 3
    ray.get(sent)


def test_a_rank_that_is_cancelled(ranks, folder):
    @ray.remote
    def rank():
        collective.init_collective_group(2, 0, "gloo", "cancelled")
        support.touch(os.path.join(folder, "joined"))
        while True:
            collective.barrier("cancelled")

    actor = Rank.remote()
    ray.get(actor.init.remote(2, 1, "cancelled", gloo_timeout=3000))
    task = rank.remote()
    support.wait_for_file(os.path.join(folder, "joined"))
    ray.get(actor.call.remote("barrier", "cancelled"))
    ray.cancel(task)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(task)
    # It was cancelled in its second barrier, or just before.
    with pytest.raises(RuntimeError, match="rank 0 (gave up in the middle of a call|did not come)"):
        ray.get(actor.call.remote("barrier", "cancelled"))  # for which rank 0 had come
        ray.get(actor.call.remote("barrier", "cancelled"))


def test_the_meeting_is_killed(ranks):
    actors = ranks(2, group_name="meeting")
    waiting = actors[0].call.remote("barrier", "meeting")
    assert not ray.wait([waiting], timeout=0.1)[0]
    ray.kill(ray.get_actor("collective:meeting"))
    with pytest.raises(RuntimeError, match="where its ranks meet was killed"):
        ray.get(waiting)


def test_wrong_ranks(ranks):
    actors = ranks(2, group_name="ranks")
    with pytest.raises(RuntimeError, match="twice"):
        ray.get(actors[0].init.remote(2, 1, "ranks"))
    with pytest.raises(RuntimeError, match="rank 1 of .* is taken, by process"):
        collective.init_collective_group(2, 1, "gloo", "ranks")
    other = Rank.remote()
    ray.get(other.init.remote(3, 0, "sizes"))
    with pytest.raises(RuntimeError, match="world_size 2 .* rank 0 3"):
        collective.init_collective_group(2, 1, "gloo", "sizes")
    assert not collective.is_group_initialized("sizes")
    for world_size, rank, error in (
        (0, 0, ValueError),
        (2, 2, ValueError),
        (2, -1, ValueError),
        ("2", 0, TypeError),
        (2, 0.5, TypeError),
    ):
        with pytest.raises(error):
            collective.init_collective_group(world_size, rank, "gloo", "wrong")
    for name, value in (("dst_rank", 2), ("dst_rank", -1)):
        with pytest.raises(ValueError, match=name):
            ray.get(actors[0].call.remote("reduce", np.ones(3), value, "ranks"))
    with pytest.raises(RuntimeError, match="is self"):
        ray.get(actors[0].call.remote("send", np.ones(3), 0, "ranks"))


def test_backends():
    for backend in ("nccl", "NCCL", Backend.NCCL, "mpi", "nixl"):
        with pytest.raises(NotImplementedError, match="use 'gloo'"):
            collective.init_collective_group(2, 0, backend)
    with pytest.raises(ValueError, match="Unrecognized backend: 'carrier pigeon'"):
        collective.init_collective_group(2, 0, "carrier pigeon")
    for backend in (None, "auto", "GLOO", "torch_gloo", Backend.GLOO):
        collective.init_collective_group(1, 0, backend, "alone")
        collective.allreduce(array := np.ones(100_000), "alone")
        assert array.sum() == 100_000
        collective.destroy_collective_group("alone")
    for name in ("allreduce", "reduce", "broadcast", "allgather", "reducescatter", "send", "recv"):
        with pytest.raises(NotImplementedError, match=f"use {name} with"):
            getattr(collective, name + "_multigpu")([np.ones(3)])


def test_bad_input():
    collective.init_collective_group(1, 0, "gloo", "bad")
    with pytest.raises(RuntimeError, match="not initialized"):
        collective.allreduce(np.ones(3), "nobody's")
    with pytest.raises(ValueError, match="needs to be a string"):
        collective.init_collective_group(1, 0, "gloo", "")
    with pytest.raises(ValueError, match="gloo_timeout"):
        collective.init_collective_group(1, 0, "gloo", "time", gloo_timeout=0)
    with pytest.raises(RuntimeError, match="unrecognized type, list"):
        collective.allreduce([1, 2], "bad")
    with pytest.raises(RuntimeError, match="dtype object"):
        collective.allreduce(np.array([None]), "bad")
    with pytest.raises(ValueError, match="read-only"):
        collective.allreduce(ray.get(ray.put(np.ones(10_000))), "bad")
    with pytest.raises(TypeError, match="ReduceOp"):
        collective.allreduce(np.ones(3), "bad", op="sum")
    with pytest.raises(RuntimeError, match="must be a list"):
        collective.allgather(np.ones(3), np.ones(3), "bad")
    with pytest.raises(RuntimeError, match="equal to world_size"):
        collective.allgather([np.ones(3)] * 2, np.ones(3), "bad")
    with pytest.raises(RuntimeError, match=r"tensor_list\[0\] is float64 \(4,\)"):
        collective.allgather([np.ones(4)], np.ones(3), "bad")
    with pytest.raises(RuntimeError, match=r"the tensor is float64 \(3,\)"):
        collective.reducescatter(np.ones(3), [np.ones(4)], "bad")
    collective.destroy_collective_group("bad")
    collective.destroy_collective_group("bad")  # nothing is there


def test_bad_declarations():
    actor = Rank.remote()
    with pytest.raises(RuntimeError, match="one rank"):
        collective.create_collective_group([actor], 1, [0, 1], "gloo", "declarations")
    with pytest.raises(RuntimeError, match="permutation"):
        collective.create_collective_group([actor], 1, [1], "gloo", "declarations")
    with pytest.raises(RuntimeError, match="world_size is 2"):
        collective.create_collective_group([actor], 2, [0], "gloo", "declarations")
    with pytest.raises(TypeError, match="handles"):
        collective.create_collective_group([1], 1, [0], "gloo", "declarations")
    with pytest.raises(RuntimeError, match="twice"):
        collective.create_collective_group([actor] * 2, 2, [0, 1], "gloo", "declarations")


def test_local_mode_has_no_groups():
    code = (
        "import ray; ray.init(local_mode=True)\n"
        "from ray.util import collective\n"
        "collective.init_collective_group(1, 0, 'gloo')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "local_mode=True has only one" in run.stderr


def test_groups_that_one_process_makes():
    from ray.experimental import collective as groups

    actors = [Rank.remote() for _ in range(3)]
    group = groups.create_collective_group(actors, backend="gloo")
    pair = groups.create_collective_group(actors[1:], "gloo", name="pair")
    assert [group.get_rank(actor) for actor in actors] == [0, 1, 2]
    assert pair.get_rank(actors[0]) == -1 and pair.name == "pair" and pair.backend == "gloo"
    assert groups.get_collective_groups(actors) == [group]
    assert groups.get_collective_groups(actors[2:]) == [group, pair]
    found = ray.get([actor.call.remote("allreduce", np.ones(3), group.name) for actor in actors])
    assert [one[0][0] for one in found] == [3, 3, 3]
    ray.kill(actors[0])
    with pytest.raises(RuntimeError, match="rank 0 .* died"):
        ray.get(actors[1].call.remote("barrier", group.name))
    groups.destroy_all_collective_groups()
    assert groups.get_collective_groups() == []
    assert not ray.get(actors[1].call.remote("is_group_initialized", "pair"))[-1]
    with pytest.raises(ValueError, match="No group"):
        groups.destroy_collective_group(pair)
    with pytest.raises(ValueError, match="unique"):
        groups.create_collective_group([actors[1]] * 2, "gloo")
    with pytest.raises(NotImplementedError, match="nccl"):
        groups.create_collective_group(actors[1:], "nccl")
    with pytest.raises(AttributeError, match="not in Mobula yet"):
        groups.allreduce.bind([])


@pytest.mark.parametrize("size", [3, 100_000])
def test_torch(ranks, size):
    pytest.importorskip("torch")

    def work(rank):
        import torch

        tensor = torch.full((size,), float(rank + 1), requires_grad=True)
        collective.allreduce(tensor)
        columns = torch.full((size, 2), rank)[:, 1]  # does not lie in one piece
        collective.broadcast(columns, 1)
        places = [torch.zeros(size) for _ in range(2)]
        collective.allgather(places, torch.full((size,), float(rank)))
        return tensor.sum().item(), columns.sum().item(), [place.sum().item() for place in places]

    actors = ranks(2)
    for found in ray.get([actor.run.remote(work, i) for i, actor in enumerate(actors)]):
        assert found == (3 * size, size, [0, size])


def test_tensors_that_numpy_has_not(ranks):
    torch = pytest.importorskip("torch")
    collective.init_collective_group(1, 0, "gloo", "torch")
    with pytest.raises(RuntimeError, match="BFloat16"):
        collective.allreduce(torch.ones(3, dtype=torch.bfloat16), "torch")
    with pytest.raises(RuntimeError, match="to_dense"):
        collective.allreduce(torch.ones(3).to_sparse(), "torch")
    with pytest.raises(NotImplementedError, match="cpu"):
        collective.allreduce(torch.ones(3, device="meta"), "torch")
    collective.destroy_collective_group("torch")
