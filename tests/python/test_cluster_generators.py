"""Tasks and methods that yield on another node than the one that reads their items."""

import asyncio
import gc
import os
import signal

import clusters
import numpy
import pytest
import support

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

pytestmark = [
    pytest.mark.one_path("what goes to other nodes goes through the daemons in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60
LARGE = 100_000  # bytes: more than a message has of a value


@pytest.fixture(scope="module")
def nodes():
    """The driver's node, one with `blue`, and one with `red`."""
    with clusters.joined({}, {"resources": {"blue": 4}}, {"resources": {"red": 4}}) as made:
        yield made


cluster = clusters.empty


def get(refs):
    return ray.get(refs, timeout=LIMIT)


def take(generator):
    """The next item; StopIteration at the end."""
    ref = generator._next_sync(timeout_s=LIMIT)
    assert not ref.is_nil()
    return get(ref)


def read(generator):
    """All items, each within a limited time."""
    while True:
        try:
            item = take(generator)
        except StopIteration:
            return
        yield item


def node_id():
    return ray.get_runtime_context().get_node_id()


@ray.remote(resources={"blue": 1})
def count(n):
    yield from range(n)


@ray.remote(resources={"blue": 1})
def arrays(n):
    for i in range(n):
        yield numpy.full(LARGE, i, dtype=numpy.uint8)


@ray.remote(resources={"blue": 1}, max_retries=2)
def once_killed(folder, n, at):
    """Its first worker is killed when it is about to make item `at`."""
    for i in range(n):
        if i == at and not os.path.exists(f"{folder}/killed"):
            support.touch(f"{folder}/killed")
            os.kill(os.getpid(), signal.SIGKILL)
        yield i


@ray.remote(resources={"blue": 1}, num_cpus=0)
def endless(folder, name="endless"):
    try:
        i = 0
        while True:
            yield i
            i += 1
    finally:
        support.touch(f"{folder}/{name}.ended")


def await_file(path):
    assert support.wait_until(lambda: os.path.exists(path), LIMIT), path


# ---- tasks


def test_it_runs_where_its_resource_is(nodes):
    @ray.remote(resources={"blue": 1})
    def where():
        yield node_id()
        yield node_id()

    assert list(read(where.remote())) == [nodes[1].node_id] * 2


def test_items_come_as_they_are_made(nodes, tmp_path):
    @ray.remote(resources={"blue": 1})
    def stepwise(folder):
        for i in range(3):
            yield i
            support.wait_for_file(f"{folder}/{i}")  # which is made when the item has come

    generator = stepwise.remote(str(tmp_path))
    for i in range(3):
        assert take(generator) == i
        support.touch(f"{tmp_path}/{i}")
    assert list(read(generator)) == []
    assert get(generator.completed()) is None


def test_their_order(nodes):
    assert list(read(count.remote(3000))) == list(range(3000))


def test_none(nodes):
    assert list(read(count.remote(0))) == []


def test_large_items(nodes):
    for i, item in enumerate(read(arrays.remote(20))):
        assert item.shape == (LARGE,) and (item == i).all()
    assert i == 19


def test_items_of_all_sizes(nodes):
    sizes = [0, 1, 20, 31, 32, 33, 40, 41, 1000, 65_000, 66_000, 3_000_000, 5]

    @ray.remote(resources={"blue": 1})
    def sized():
        for size in sizes:
            yield b"x" * size

    assert [len(item) for item in read(sized.remote())] == sizes


def test_references_in_items(nodes):
    @ray.remote(resources={"blue": 1})
    def pairs(given):
        for i in range(10):
            yield [ray.put(i), ray.put(numpy.full(LARGE, i)), given]

    given = ray.put("given")
    for i, (small, large, back) in enumerate(read(pairs.remote([given]))):
        assert get(small) == i and (get(large) == i).all() and get(back[0]) == "given"


def test_references_to_items_are_like_any(nodes):
    @ray.remote(resources={"red": 1})
    def size(item):
        return len(item)

    refs = list(arrays.remote(3))
    assert get([size.remote(ref) for ref in refs]) == [LARGE] * 3
    ready, _ = ray.wait(refs, num_returns=3, timeout=LIMIT)
    assert len(ready) == 3


def test_what_was_not_read_goes(nodes):
    before = support.store_free_settled()
    generator = arrays.remote(10)
    assert (take(generator) == 0).all()
    get(generator.completed())
    del generator
    gc.collect()
    assert support.wait_until(lambda: support.store_free() >= before)


def test_an_exception_is_the_last_item(nodes):
    @ray.remote(resources={"blue": 1})
    def raises():
        yield 1
        raise ValueError("after one")

    generator = raises.remote()
    assert take(generator) == 1
    with pytest.raises(ValueError, match="after one"):
        take(generator)
    assert list(read(generator)) == []
    assert get(generator.completed()) is None


@pytest.mark.parametrize("size", [1, LARGE])
def test_no_more_than_the_limit_wait(nodes, tmp_path, size):
    limit, n = 3, 12

    @ray.remote(resources={"blue": 1}, _generator_backpressure_num_objects=limit)
    def limited(folder):
        for i in range(n):
            # whoever takes an item says so just before
            early = i >= limit and not os.path.exists(f"{folder}/{i - limit}")
            yield [early, b"x" * size]

    generator = limited.remote(str(tmp_path))
    seen = []
    for i in range(n):
        support.touch(f"{tmp_path}/{i}")
        seen.append(take(generator)[0])
    assert seen == [False] * n


def test_a_closed_generator_ends_its_task(nodes, tmp_path):
    generator = endless.remote(str(tmp_path))
    assert take(generator) == 0
    generator.close()
    await_file(f"{tmp_path}/endless.ended")


@pytest.mark.parametrize("limit", [-1, 2])
def test_a_dropped_generator_ends_its_task(nodes, tmp_path, limit):
    task = endless.options(_generator_backpressure_num_objects=limit)
    generator = task.remote(str(tmp_path))
    assert take(generator) == 0
    del generator
    gc.collect()
    await_file(f"{tmp_path}/endless.ended")


@pytest.mark.parametrize("limit", [-1, 2])
def test_a_cancelled_generator(nodes, tmp_path, limit):
    task = endless.options(_generator_backpressure_num_objects=limit)
    generator = task.remote(str(tmp_path))
    assert take(generator) == 0
    ray.cancel(generator)
    with pytest.raises(TaskCancelledError):
        list(read(generator))
    await_file(f"{tmp_path}/endless.ended")


@pytest.mark.parametrize("limit", [-1, 2])
def test_a_worker_that_dies(nodes, tmp_path, limit):
    task = once_killed.options(_generator_backpressure_num_objects=limit)
    assert list(read(task.remote(str(tmp_path), 10, 5))) == list(range(10))


def test_a_worker_that_dies_for_good(nodes, tmp_path):
    generator = once_killed.options(max_retries=0).remote(str(tmp_path), 10, 5)
    assert [take(generator) for _ in range(5)] == list(range(5))
    with pytest.raises(WorkerCrashedError):
        take(generator)
    assert list(read(generator)) == []


def test_a_task_that_raises_and_is_run_again(nodes, tmp_path):
    @ray.remote(resources={"blue": 1}, max_retries=2, retry_exceptions=True)
    def fails_once(folder):
        for i in range(6):
            if i == 3 and not os.path.exists(f"{folder}/failed"):
                support.touch(f"{folder}/failed")
                raise ValueError("once")
            yield i

    assert list(read(fails_once.remote(str(tmp_path)))) == list(range(6))


def test_dynamic(nodes):
    @ray.remote(resources={"blue": 1}, num_returns="dynamic")
    def some():
        yield 1
        yield numpy.full(LARGE, 2)

    first, second = get(some.remote())
    assert get(first) == 1 and (get(second) == 2).all()


def test_one_that_is_passed_on(nodes):
    @ray.remote(resources={"red": 1})
    def total(generator):
        return sum(get(ref) for ref in generator)

    assert get(total.remote(count.remote(10))) == 45


def test_one_of_a_task_on_another_node(nodes):
    @ray.remote(resources={"red": 1})
    def reader():
        return list(read(count.remote(100)))

    assert get(reader.remote()) == list(range(100))


def test_many_at_once(nodes):
    generators = [count.options(num_cpus=0.1).remote(200) for _ in range(20)]
    assert [sum(read(generator)) for generator in generators] == [19900] * 20


def test_spread(nodes, tmp_path):
    """Each waits until one has begun on another node."""

    @ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")
    def where(folder):
        support.touch(f"{folder}/{node_id()}")
        yield support.wait_until(lambda: len(os.listdir(folder)) > 1)

    generators = [where.remote(str(tmp_path)) for _ in range(9)]
    assert all(item for generator in generators for item in read(generator))


def test_in_a_placement_group(nodes):
    """Its bundle is on another node."""
    group = ray.util.placement_group([{"blue": 1, "CPU": 1}])
    get(group.ready())
    strategy = PlacementGroupSchedulingStrategy(placement_group=group)
    task = count.options(scheduling_strategy=strategy)
    assert list(read(task.remote(10))) == list(range(10))
    ray.util.remove_placement_group(group)


# ---- methods of actors


class Maker:
    def count(self, n):
        yield from range(n)

    def arrays(self, n):
        for i in range(n):
            yield numpy.full(LARGE, i, dtype=numpy.uint8)

    def endless(self, folder):
        try:
            i = 0
            while True:
                yield i
                i += 1
        finally:
            support.touch(f"{folder}/endless.ended")

    def raises(self):
        yield 1
        raise ValueError("after one")

    def where(self):
        return node_id()


class AsyncMaker:
    async def count(self, n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def where(self):
        return node_id()


def blue(of, **options):
    """An actor on the node with `blue`, where it is by now."""
    actor = ray.remote(of).options(num_cpus=0, resources={"blue": 1}, **options).remote()
    get(actor.where.remote())
    return actor


def call(method, *args, **options):
    return method.options(num_returns="streaming", **options).remote(*args)


@pytest.mark.parametrize("threads", [1, 4])
def test_methods(nodes, threads):
    actor = blue(Maker, max_concurrency=threads)
    assert get(actor.where.remote()) == nodes[1].node_id
    assert list(read(call(actor.count, 1000))) == list(range(1000))
    for i, item in enumerate(read(call(actor.arrays, 10))):
        assert (item == i).all()
    generators = [call(actor.count, 10) for _ in range(10)]
    assert [list(read(generator)) for generator in generators] == [list(range(10))] * 10


def test_methods_of_async_actors(nodes):
    actor = blue(AsyncMaker)
    generators = [call(actor.count, 100) for _ in range(10)]
    assert [list(read(generator)) for generator in generators] == [list(range(100))] * 10


def test_in_an_event_loop(nodes):
    actor = blue(AsyncMaker)

    async def all_of(generator):
        return [await ref async for ref in generator]

    async def main():
        return await asyncio.wait_for(all_of(call(actor.count, 100)), LIMIT)

    assert asyncio.run(main()) == list(range(100))


def test_methods_that_raise(nodes):
    generator = call(blue(Maker).raises)
    assert take(generator) == 1
    with pytest.raises(ValueError, match="after one"):
        take(generator)
    assert list(read(generator)) == []


@pytest.mark.parametrize("limit", [-1, 2])
def test_a_closed_one_ends_its_call(nodes, tmp_path, limit):
    actor = blue(Maker)
    generator = call(actor.endless, str(tmp_path), _generator_backpressure_num_objects=limit)
    assert take(generator) == 0
    generator.close()
    await_file(f"{tmp_path}/endless.ended")
    assert list(read(call(actor.count, 3))) == [0, 1, 2]  # it was in its way


@ray.remote(num_cpus=0)
def use(actor):
    """What another process reads of it."""
    sizes = [item.shape for item in read(call(actor.arrays, 5))]
    return list(read(call(actor.count, 5))), sizes, node_id()


def test_methods_are_called_from_everywhere(nodes):
    """By processes of its own node, which is not its home, and of a third one."""
    actor = blue(Maker)
    for where, node in (({"blue": 1}, nodes[1]), ({"red": 1}, nodes[2]), ({}, nodes[0])):
        made, sizes, seen = get(use.options(resources=where).remote(actor))
        assert made == list(range(5)) and sizes == [(LARGE,)] * 5
        assert not where or seen == node.node_id


def test_an_actor_of_the_drivers_node_is_called_from_others(nodes):
    actor = ray.remote(Maker).options(num_cpus=0).remote()
    assert get(actor.where.remote()) == nodes[0].node_id
    made, sizes, _ = get(use.options(resources={"red": 1}).remote(actor))
    assert made == list(range(5)) and sizes == [(LARGE,)] * 5


def test_an_actor_whose_process_dies(nodes, tmp_path):
    class Fragile(Maker):
        def fragile(self, folder, n, at):
            for i in range(n):
                if i == at and not os.path.exists(f"{folder}/killed"):
                    support.touch(f"{folder}/killed")
                    os.kill(os.getpid(), signal.SIGKILL)
                yield i

    actor = blue(Fragile, max_restarts=1, max_task_retries=1)
    assert list(read(call(actor.fragile, str(tmp_path), 10, 5))) == list(range(10))


def test_large_items_of_an_actor_whose_process_dies(nodes, tmp_path):
    """Its next process is told which items have come, although it is on the same node."""

    class Fragile(Maker):
        def fragile(self, folder, n):
            for i in range(n):
                if i == 3 and not os.path.exists(f"{folder}/killed"):
                    support.wait_for_file(f"{folder}/go")
                    support.touch(f"{folder}/killed")
                    os.kill(os.getpid(), signal.SIGKILL)
                yield numpy.full(LARGE, i, dtype=numpy.uint8)

    actor = blue(Fragile, max_restarts=1, max_task_retries=1)
    generator = call(actor.fragile, str(tmp_path), 10)
    for i in range(10):
        assert (take(generator) == i).all()
        if i == 2:
            support.touch(f"{tmp_path}/go")
    assert list(read(generator)) == []


# ---- nodes that end


def two_blue(cluster):
    """The driver's node, and two that can make the items."""
    cluster.add_node(num_cpus=1)
    others = [cluster.add_node(num_cpus=1, resources={"blue": 1}) for _ in range(2)]
    ray.init(address=cluster.address)
    return {node.node_id: node for node in others}


def items_until(folder, n, size):
    """The last ones when the file is there: a node that dies before has made three."""
    for i in range(n):
        if i == 3:
            support.wait_for_file(f"{folder}/go")
        yield [i, node_id(), b"x" * size]


@ray.remote(resources={"blue": 1}, max_retries=1)
def located(folder, n, size):
    yield from items_until(folder, n, size)


class Located:
    def located(self, folder, n, size):
        yield from items_until(folder, n, size)

    def where(self):
        return node_id()


def read_and_kill(cluster, others, folder, generator, n):
    """Ends the node that makes the items when three of them were read. Where each was made."""
    places = []
    for i in range(n):
        number, where, _ = take(generator)
        assert number == i
        places.append(where)
        if i == 2:
            cluster.remove_node(others[where], allow_graceful=False)
            support.touch(f"{folder}/go")
    assert list(read(generator)) == []
    return places


def made_by_two(places):
    first, last = places[:3], places[3:]
    return len(set(first)) == len(set(last)) == 1 and first[0] != last[0]


@pytest.mark.parametrize("size", [1, LARGE])
@pytest.mark.parametrize("limit", [-1, 2])
def test_a_node_that_dies(cluster, tmp_path, size, limit):
    others = two_blue(cluster)
    task = located.options(_generator_backpressure_num_objects=limit)
    generator = task.remote(str(tmp_path), 10, size)
    assert made_by_two(read_and_kill(cluster, others, tmp_path, generator, 10))


def test_a_node_that_dies_for_good(cluster, tmp_path):
    others = two_blue(cluster)
    generator = located.options(max_retries=0).remote(str(tmp_path), 10, 1)
    with pytest.raises(NodeDiedError):
        read_and_kill(cluster, others, tmp_path, generator, 10)
    assert list(read(generator)) == []


@pytest.mark.parametrize("limit", [-1, 2])
def test_an_actors_node_that_dies(cluster, tmp_path, limit):
    others = two_blue(cluster)
    actor = blue(Located, max_restarts=1, max_task_retries=1)
    options = {"_generator_backpressure_num_objects": limit}
    generator = call(actor.located, str(tmp_path), 10, 1, **options)
    assert made_by_two(read_and_kill(cluster, others, tmp_path, generator, 10))


def test_an_actors_node_that_dies_for_good(cluster, tmp_path):
    others = two_blue(cluster)
    generator = call(blue(Located).located, str(tmp_path), 10, 1)
    with pytest.raises((ActorDiedError, ActorUnavailableError)):  # known, or silent for long
        read_and_kill(cluster, others, tmp_path, generator, 10)


def test_an_actor_whose_process_dies_before_all_was_sent(cluster, tmp_path):
    """The method has ended, and its items wait for the caller's node, which stands still. When that
    goes on the actor has another process, and the call goes there at once.
    """
    n = 300
    cluster.add_node(num_cpus=1, _system_config={"health_check_timeout_ms": 60_000})
    cluster.add_node(num_cpus=1, resources={"blue": 1})
    caller = cluster.add_node(num_cpus=1, resources={"red": 1})
    ray.init(address=cluster.address)

    class Hasty(Maker):
        def hasty(self, folder):
            if not os.path.exists(f"{folder}/begun"):
                support.touch(f"{folder}/begun")
                support.wait_for_file(f"{folder}/go")
            for i in range(n):
                yield numpy.full(LARGE, i, dtype=numpy.uint16)
            support.touch(f"{folder}/ended")

        def pid(self):
            return os.getpid()

    @ray.remote(num_cpus=0, resources={"red": 1}, max_retries=0)
    def read_all(actor, folder):
        return [int(item[0]) for item in read(call(actor.hasty, folder))]

    actor = blue(Hasty, max_restarts=1, max_task_retries=1, max_concurrency=2)
    first = get(actor.pid.remote())
    items = read_all.remote(actor, str(tmp_path))
    await_file(f"{tmp_path}/begun")
    (daemon,) = caller.all_processes["raylet"]
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        support.touch(f"{tmp_path}/go")
        await_file(f"{tmp_path}/ended")
        os.kill(first, signal.SIGKILL)
        assert get(actor.pid.remote()) != first
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert get(items) == list(range(n))


def test_a_run_that_goes_on_elsewhere(cluster, tmp_path):
    """The first one is here, until its CPU is another task's. What it has opened is nobody's."""
    cluster.add_node(num_cpus=1, resources={"here": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)

    @ray.remote(max_retries=1, retry_exceptions=True)
    def moves(folder):
        yield [node_id(), b""]
        if not os.path.exists(f"{folder}/failed"):
            support.wait_for_file(f"{folder}/go")
            support.touch(f"{folder}/failed")
            raise ValueError("once")
        yield [node_id(), b"x" * 10_000_000]

    @ray.remote(resources={"here": 1})
    def hold(folder):
        support.wait_for_file(f"{folder}/end")

    generator = moves.remote(str(tmp_path))
    first, _ = take(generator)
    held = hold.remote(str(tmp_path))
    before = support.store_free_settled()
    support.touch(f"{tmp_path}/go")
    second, _ = take(generator)
    assert second != first
    assert list(read(generator)) == []
    del generator
    gc.collect()
    assert support.wait_until(lambda: support.store_free() >= before)
    support.touch(f"{tmp_path}/end")
    get(held)


def little_memory(cluster):
    """The driver's node has less memory than the values that come."""
    cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    cluster.add_node(num_cpus=1, resources={"blue": 1})
    ray.init(address=cluster.address)
    return 2500, 60_000


def test_items_that_come_go_to_disk(cluster):
    n, size = little_memory(cluster)

    @ray.remote(resources={"blue": 1})
    def items():
        for i in range(n):
            yield i.to_bytes(2, "big") * (size // 2)

    generator = items.remote()
    get(generator.completed())
    for i, item in enumerate(read(generator)):
        assert len(item) == size and int.from_bytes(item[:2], "big") == i
    assert i == n - 1


def test_items_of_this_node_go_to_disk(cluster):
    """The reader is on the actor's node, which is not its home: large items are moved, small ones
    are copied.
    """
    n, size = 1500, 60_000
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1, resources={"blue": 2}, object_store_memory=80 << 20)
    ray.init(address=cluster.address)

    class Mixed(Maker):
        def mixed(self):
            for i in range(n):
                yield i.to_bytes(2, "big") * (size // 2 * (1 + i % 2))

    @ray.remote(num_cpus=0, resources={"blue": 1}, max_retries=0)
    def read_all(actor):
        generator = call(actor.mixed)
        get(generator.completed())
        wrong = [
            i
            for i, item in enumerate(read(generator))
            if len(item) != size * (1 + i % 2) or int.from_bytes(item[:2], "big") != i
        ]
        return wrong, node_id()

    actor = blue(Mixed)
    assert get(read_all.remote(actor)) == ([], get(actor.where.remote()))


def test_large_items_that_were_not_read_are_lost_with_their_node(cluster, tmp_path):
    others = two_blue(cluster)
    generator = located.remote(str(tmp_path), 3, LARGE)
    get(generator.completed())
    _, where, _ = take(generator)
    cluster.remove_node(others[where], allow_graceful=False)
    with pytest.raises(ObjectLostError):
        take(generator)


def test_a_readers_node_that_dies(cluster, tmp_path):
    """Nobody reads what a task makes for it: the task is ended."""
    two_blue(cluster)
    reader = cluster.add_node(num_cpus=1, resources={"reader": 1})

    @ray.remote(resources={"blue": 1}, max_retries=0)
    def pids():
        while True:
            yield os.getpid()

    @ray.remote(resources={"reader": 1}, max_retries=0)
    def begin(folder):
        generator = pids.remote()
        with open(f"{folder}/pid", "w") as file:
            file.write(str(take(generator)))
        support.touch(f"{folder}/begun")
        support.wait_for_file(f"{folder}/never", LIMIT)

    begin.remote(str(tmp_path))
    await_file(f"{tmp_path}/begun")
    pid = int((tmp_path / "pid").read_text())
    assert support.alive(pid)
    cluster.remove_node(reader, allow_graceful=False)
    assert support.wait_until(lambda: not support.alive(pid), LIMIT)


def test_a_callers_node_that_dies(cluster, tmp_path):
    """The method ends as one whose generator is closed, and the actor goes on."""
    two_blue(cluster)
    caller = cluster.add_node(num_cpus=1, resources={"caller": 1})
    actor = blue(Maker)

    @ray.remote(resources={"caller": 1}, max_retries=0)
    def begin(actor, folder):
        generator = call(actor.endless, folder)
        assert take(generator) == 0
        support.touch(f"{folder}/begun")
        support.wait_for_file(f"{folder}/never", LIMIT)

    begin.remote(actor, str(tmp_path))
    await_file(f"{tmp_path}/begun")
    cluster.remove_node(caller, allow_graceful=False)
    await_file(f"{tmp_path}/endless.ended")
    assert list(read(call(actor.count, 3))) == [0, 1, 2]
