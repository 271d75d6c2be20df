"""Generators when things end: workers killed at any moment, drivers that die, a full store, reads
that never end.
"""

import gc
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import support

import ray
from ray.exceptions import WorkerCrashedError
from ray.util.state import list_objects

NODE = {"num_cpus": 4, "options": ["--object-store-memory=100000000"]}
MIB = 1 << 20


def crew():
    """What makes and reads items. Made here, so that it travels by value: a worker that is killed
    soon has no time to import this module.
    """

    def value(i):
        """Small ones in the slot, larger ones in a block, and others that are pickled."""
        if i % 50 == 7:
            return [i]
        return np.full(300, i) if i % 5 == 0 else i

    def same(found, i):
        want = value(i)
        return bool((found == want).all()) if hasattr(want, "shape") else found == want

    @ray.remote(max_retries=-1)
    def count(n):
        for i in range(n):
            yield value(i)

    @ray.remote(max_retries=-1)
    def read_all(n):
        for i, ref in enumerate(count.remote(n)):
            assert same(ray.get(ref), i)
        return n

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Maker:
        def count(self, n):
            for i in range(n):
                yield value(i)

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class AsyncMaker:
        async def count(self, n):
            for i in range(n):
                yield value(i)

    return same, count, read_all, Maker, AsyncMaker


same, count, _, Maker, _ = crew()


def objects():
    return {found.object_id for found in list_objects(limit=100_000)}


def children(daemon):
    """The workers of the session."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{name}/cmdline") as file:
                title = file.read()
        except OSError:  # it has just ended
            continue
        if parent == daemon and title.startswith("ray::") and "zygote" not in title.lower():
            found.append(int(name))
    return found


def test_workers_are_killed_at_any_moment(start):
    """Makers and readers die; each item comes once, in order, and nothing is left."""
    start(address="local", num_cpus=4, object_store_memory=200 * MIB, log_to_driver=False)
    same, count, read_all, Maker, AsyncMaker = crew()
    daemon, ends, kills = support.daemon_pid(), threading.Event(), []

    def kill():
        chance = random.Random(1)
        while not ends.wait(chance.uniform(0.02, 0.12)):
            workers = children(daemon)
            if workers:
                pid = chance.choice(workers)
                kills.append(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    killer = threading.Thread(target=kill)
    makers = [Maker.remote(), AsyncMaker.remote()]
    chance = random.Random(2)
    killer.start()
    try:
        while len(kills) < 25:
            n = chance.randrange(200, 1500)
            limit = chance.choice([None, 3])
            generators = [count.options(_generator_backpressure_num_objects=limit).remote(n)]
            generators += [maker.count.remote(n) for maker in makers]
            stops = [n, n, chance.randrange(n)]
            readers = [read_all.remote(n) for _ in range(2)]
            for generator, stop in zip(generators, stops):
                for i in range(stop):
                    assert same(ray.get(next(generator), timeout=60), i)
                if stop == n:
                    with pytest.raises(StopIteration):
                        next(generator)
            assert ray.get(readers, timeout=100) == [n, n]
    finally:
        ends.set()
        killer.join()
    del generators, generator, makers
    gc.collect()
    assert support.wait_until(lambda: len(objects()) < 8), list_objects()


# ---- drivers ----


def begin_reading(kind):
    """In a driver: reads a little of an endless generator."""

    @ray.remote
    def endless(kind):
        i = 0
        while True:
            yield {"small": i, "array": np.ones(1000), "refs": [ray.put(i)]}[kind]
            i += 1
            if i % 100 == 0:
                time.sleep(0.001)

    generator = endless.remote(kind)
    kept = [next(generator) for _ in range(10)]
    test_kept.append((generator, kept, list(count.remote(100))))
    return os.getpid()


test_kept = []


@pytest.mark.parametrize("kind", ["small", "array", "refs"])
def test_a_driver_that_dies(node, driver, kind):
    """Its job ends, and the node holds nothing of it."""
    started = driver()
    started.call(begin_reading, kind)
    started.kill()
    assert support.wait_until(lambda: not started.processes())
    rows = ray._core.observe(node.socket, ray._core.QUERY_OBJECTS, 1000, 30)
    assert support.wait_until(
        lambda: ray._core.observe(node.socket, ray._core.QUERY_OBJECTS, 1000, 30)[0] == 0
    ), rows
    # the next one finds all numbers and slots in order
    other = driver()
    assert other.call(read_some, 2000) == 2000
    assert other.end() == 0


def read_some(n):
    """In a driver."""
    for i, ref in enumerate(count.remote(n)):
        assert same(ray.get(ref), i)
    return i + 1


def leave_reading():
    """In a driver that leaves, with items that it has not read and arrays that it still reads."""
    refs = count.remote(1000)
    array = ray.get(next(refs))
    ray.shutdown()
    return int(array.sum())


def test_a_driver_that_leaves(node, driver):
    started = driver()
    assert started.call(leave_reading) == 0
    assert support.wait_until(
        lambda: ray._core.observe(node.socket, ray._core.QUERY_OBJECTS, 1000, 30)[0] <= 1
    )


# ---- memory ----


@ray.remote
def arrays(n):
    for i in range(n):
        yield np.full(MIB, i)  # 8 MiB


def test_unread_items_go_to_disk(start):
    start(address="local", num_cpus=2, object_store_memory=64 * MIB)
    generator = arrays.remote(20)
    assert ray.get(generator.completed(), timeout=100) is None
    for i, ref in enumerate(generator):
        assert (ray.get(ref) == i).all()
    assert i == 19
    generator = arrays.remote(20)
    ray.get(generator.completed(), timeout=100)
    refs = list(generator)
    assert [int(found[0]) for found in map(ray.get, refs)] == list(range(20))
    del refs, ref, generator
    gc.collect()
    assert support.wait_until(lambda: len(objects()) <= 2)


def test_an_item_larger_than_the_store(start):
    start(address="local", num_cpus=2, object_store_memory=32 * MIB)

    @ray.remote
    def huge():
        yield np.ones(8 * MIB)
        yield [ray.put("inside"), np.ones(8 * MIB)]

    one, two = map(ray.get, huge.remote())
    assert one.sum() == 8 * MIB and ray.get(two[0]) == "inside"


def test_a_reader_behind_a_full_store(start):
    """Everything is pinned by the reader: the task waits for space until it lets go."""
    start(address="local", num_cpus=2, object_store_memory=40 * MIB)
    generator = arrays.options(_generator_backpressure_num_objects=2).remote(12)
    for i, ref in enumerate(generator):
        array = ray.get(ref)
        assert (array == i).all()
    assert i == 11


# ---- deadlocks ----


def test_waiting_for_an_item_is_waiting_for_its_task(folder):
    code = """
import os, ray
ray.init("local", num_cpus=4, _temp_dir=os.path.dirname(__file__))

@ray.remote
class Selfish:
    def set(self, me): self.me = me
    def count(self): yield 1
    def read(self): return ray.get(next(self.me.count.remote()))

actor = Selfish.remote()
ray.get(actor.set.remote(actor))
try:
    print("ended", ray.get(actor.read.remote(), timeout=40))
except Exception as error:
    print(isinstance(error, ray.exceptions.DeadlockError))
"""
    result = support.run_driver(
        support.script(folder, code), env={**os.environ, "RAY_deadlock_raise": "1"}
    )
    assert result.stdout == "True\n", result
    assert "A deadlock" in result.stderr and "Selfish.read" in result.stderr


# ---- frames ----


def test_through_frames(start, monkeypatch, folder):
    monkeypatch.setenv("MOBULA_LOOPBACK", "1")
    start(address="local", num_cpus=2)

    @ray.remote(max_retries=1)
    def dies(n):
        for i in range(n):
            yield i
            if i == 5 and not os.path.exists(f"{folder}/died"):
                support.touch(f"{folder}/died")
                os.kill(os.getpid(), signal.SIGKILL)

    assert ray.get(list(dies.remote(10))) == list(range(10))
    assert ray.get(list(ray.get(count.options(num_returns="dynamic").remote(3)))[1]) == 1
    maker = Maker.remote()
    assert len(list(maker.count.remote(10))) == 10

    @ray.remote(max_retries=0)
    def crash():
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    first, last = crash.remote()
    assert ray.get(first) == 1
    with pytest.raises(WorkerCrashedError):
        ray.get(last)
