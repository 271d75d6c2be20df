"""Tasks and methods that yield: ObjectRefGenerator, in all the ways that it can be read, end and
fail.
"""

import asyncio
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
from ray.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def count(n, error_at=None):
    for i in range(n):
        if i == error_at:
            raise ValueError(f"at {i}")
        yield i


@ray.remote
class Maker:
    def __init__(self):
        self.made = 0

    def count(self, n):
        for i in range(n):
            self.made = i + 1
            yield i

    def total(self):
        return self.made

    def pid(self):
        return os.getpid()


@ray.remote
class AsyncMaker:
    def __init__(self):
        self.made = 0
        self.closed = 0

    async def count(self, n, pause=0.0):
        try:
            for i in range(n):
                if pause:
                    await asyncio.sleep(pause)
                self.made = i + 1
                yield i
        finally:
            self.closed += 1

    def plain(self, n):
        yield from range(n)

    async def state(self):
        return self.made, self.closed


def read(generator) -> list:
    """Its values; of an error its class."""
    found = []
    for ref in generator:
        try:
            found.append(ray.get(ref, timeout=40))
        except RayTaskError as error:
            found.append(type(error.cause))
        except Exception as error:
            found.append(type(error))
    return found


def objects() -> int:
    """How many objects this session has."""
    from ray.util.state import list_objects

    return len({found.object_id for found in list_objects(limit=100_000)})


def settled(number) -> bool:
    """Whether there are no more objects than that, once everything is freed."""
    gc.collect()
    return support.wait_until(lambda: objects() <= number)


# ---- reading ----


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000])
def test_a_function_that_yields(n):
    generator = count.remote(n)
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert read(generator) == list(range(n))
    assert list(generator) == []
    assert generator.is_finished()


def test_every_kind_of_value():
    values = [
        None,
        "x" * 30,
        "y" * 24,
        "z" * 23,
        b"0" * 100,
        {"a": [1]},
        np.arange(5),
        np.zeros(1_000_000),
        ray.put(5),
        [ray.put(6)],
        "m" * 2_000_000,
    ]

    @ray.remote
    def give(values):
        yield from values

    got = read(give.remote(values))
    assert len(got) == len(values)
    for have, want in zip(got[:6], values[:6]):
        assert have == want
    assert (got[6] == values[6]).all() and (got[7] == values[7]).all()
    assert ray.get(got[8]) == 5 and ray.get(got[9][0]) == 6
    assert got[10] == values[10]


def test_items_come_while_the_task_runs(folder):
    @ray.remote
    def wait():
        yield "first"
        support.wait_for_file(f"{folder}/go")
        yield "second"

    generator = wait.remote()
    assert ray.get(next(generator)) == "first"
    assert not generator.next_ready() and not generator.is_finished()
    assert generator._next_sync(timeout_s=0.05).is_nil()
    assert generator._next_sync(0).is_nil()
    support.touch(f"{folder}/go")
    assert ray.get(generator._next_sync(timeout_s=40)) == "second"
    with pytest.raises(StopIteration):
        generator._next_sync(timeout_s=40)
    assert not generator.next_ready() and generator.is_finished()


def test_completed():
    generator = count.remote(3)
    assert ray.get(generator.completed(), timeout=40) is None
    assert generator.next_ready() and not generator.is_finished()
    assert read(generator) == [0, 1, 2]
    assert isinstance(generator.task_id(), ray.TaskID)


def test_it_is_the_task_that_says_its_id():
    @ray.remote
    def tell():
        yield ray.get_runtime_context().get_task_id()

    generator = tell.remote()
    assert generator.task_id().hex() == ray.get(next(generator))
    assert generator.task_id().hex() in repr(generator)


def test_references_can_be_kept_and_passed_on():
    refs = list(count.remote(100))

    @ray.remote
    def add(*values):
        return sum(values)

    assert ray.get(add.remote(*refs)) == sum(range(100))
    assert ray.get([support.echo.remote([ref]) for ref in refs[:3]])[2] == [refs[2]]
    assert ray.get(refs) == list(range(100))


def test_references_outlive_their_worker():
    @ray.remote(max_calls=1)
    def give():
        yield os.getpid()
        yield np.ones(100_000)
        yield [ray.put("inside")]

    refs = list(give.remote())
    pid = ray.get(refs[0])
    assert support.wait_until(lambda: not support.alive(pid))
    assert ray.get(refs[1]).sum() == 100_000
    assert ray.get(ray.get(refs[2])[0]) == "inside"
    assert ray.get(support.echo.remote(refs[1])).sum() == 100_000


def test_many_at_once():
    generators = [count.remote(n) for n in range(200)]
    for n, generator in enumerate(generators):
        assert read(generator) == list(range(n))


def test_by_turns():
    generators = [count.remote(50) for _ in range(4)]
    for i in range(50):
        assert ray.get([next(g) for g in generators]) == [i] * 4


def test_several_threads_share_one():
    generator, found = count.remote(5000), []

    def take():
        for ref in generator:
            found.append(ray.get(ref))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(5000))


def test_arguments_and_options():
    value = ray.put(4)
    assert read(count.options(num_cpus=2, name="other").remote(value)) == [0, 1, 2, 3]
    assert read(count.options(num_returns="streaming").remote(n=2)) == [0, 1]


def test_an_argument_that_comes_later():
    @ray.remote
    def slow():
        time.sleep(0.1)
        return 3

    assert read(count.remote(slow.remote())) == [0, 1, 2]


def test_in_a_task():
    @ray.remote
    def read_inside(n):
        return [ray.get(ref) for ref in count.remote(n)]

    assert ray.get(read_inside.remote(10)) == list(range(10))


def test_generators_of_generators():
    @ray.remote
    def double(n):
        for ref in count.remote(n):
            yield 2 * ray.get(ref)

    @ray.remote
    def twice(n):
        yield from double.remote(n)

    assert [ray.get(ray.get(ref)) for ref in twice.remote(20)] == [2 * i for i in range(20)]


def test_a_plain_function_that_returns_an_iterator():
    @ray.remote(num_returns="streaming")
    def letters():
        return iter("abc")

    @ray.remote(num_returns="streaming")
    def nothing():
        return 5

    assert read(letters.remote()) == ["a", "b", "c"]
    assert read(nothing.remote()) == [ValueError]


# ---- ray.wait ----


def test_wait(folder):
    @ray.remote
    def when(name, n):
        for i in range(n):
            support.wait_for_file(f"{folder}/{name}{i}")
            yield i

    first, second = when.remote("a", 2), when.remote("b", 1)
    other = support.echo.remote(1)
    ray.get(other)
    assert ray.wait([first, second], timeout=0.05) == ([], [first, second])
    assert ray.wait([first, other, second], timeout=0) == ([other], [first, second])
    support.touch(f"{folder}/b0")
    assert ray.wait([first, second], timeout=40) == ([second], [first])
    assert ray.wait([first, second], timeout=40) == ([second], [first])
    assert ray.get(next(second)) == 0
    assert ray.wait([second], timeout=40) == ([second], [])  # it is over, and that is news too
    assert list(second) == [] and ray.wait([second], timeout=40) == ([second], [])
    support.touch(f"{folder}/a0")
    support.touch(f"{folder}/a1")
    done = []
    left = [first]
    while left:
        ready, left = ray.wait(left, timeout=40)
        try:
            done.append(ray.get(next(ready[0])))
            left.append(ready[0])
        except StopIteration:
            pass
    assert done == [0, 1]
    with pytest.raises(TypeError, match="generators, and item 0 is int"):
        ray.wait([1])


# ---- errors ----


@pytest.mark.parametrize("at", [0, 1, 7])
def test_an_error_in_the_middle(at):
    generator = count.remote(10, at)
    assert read(generator) == [*range(at), ValueError]
    assert generator.is_finished()
    assert ray.get(generator.completed(), timeout=40) is None


def test_an_error_of_an_argument():
    @ray.remote
    def fail():
        raise KeyError("no")

    generator = count.remote(fail.remote())
    with pytest.raises(RayTaskError, match="input arguments"):
        ray.get(next(generator))
    assert list(generator) == []
    with pytest.raises(RayTaskError):
        ray.get(generator.completed(), timeout=40)


def test_an_item_that_can_not_be_pickled():
    @ray.remote
    def give():
        yield 1
        yield threading.Lock()
        yield 3

    assert read(give.remote()) == [1, TypeError]


def test_an_error_that_nobody_reads_is_told(capfd):
    generator = count.remote(3, 2)
    ray.get(generator.completed(), timeout=40)
    del generator
    gc.collect()
    assert support.wait_until(
        lambda: "Unhandled error" in (told := capfd.readouterr().err) and "at 2" in told
    )


def test_an_error_that_is_read_is_not_told(capfd):
    read(count.remote(3, 1))
    gc.collect()
    ray.get(support.echo.remote(1))
    time.sleep(0.2)
    assert "Unhandled" not in capfd.readouterr().err


def test_bad_input():
    generator = count.remote(1)
    with pytest.raises(ValueError, match="ObjectRefGenerator"):
        ray.get(generator)
    with pytest.raises(TypeError, match="comes from a task"):
        ray.ObjectRefGenerator()
    with pytest.raises(ValueError, match='"streaming" or "dynamic"'):
        count.options(num_returns="stream")
    with pytest.raises(ValueError, match="at least 1"):
        count.options(_generator_backpressure_num_objects=0)
    with pytest.raises(TypeError, match="timeout"):
        generator._next_sync(timeout_s="long")
    assert read(generator) == [0]


# ---- early ends ----


def test_what_is_not_read_is_freed():
    ray.get(count.remote(1).completed())
    before = objects()
    generator = count.remote(1000)
    ray.get(generator.completed(), timeout=40)
    first = next(generator)
    assert objects() >= before + 1000
    del generator
    assert settled(before + 1)
    assert ray.get(first) == 0


@pytest.mark.parametrize("how", ["close", "del"])
def test_the_task_ends_at_its_next_item(folder, how):
    @ray.remote
    def endless():
        try:
            while True:
                yield np.zeros(1000)
                time.sleep(0.001)
        finally:
            support.touch(f"{folder}/closed")

    before = objects()
    generator = endless.remote()
    kept = next(generator)
    if how == "close":
        generator.close()
        assert list(generator) == [] and generator.is_finished()
    del generator
    gc.collect()
    support.wait_for_file(f"{folder}/closed")
    assert settled(before + 2)
    assert ray.get(kept).size == 1000


def test_an_error_while_it_is_closed_is_told(capfd):
    @ray.remote
    def stubborn():
        try:
            while True:
                yield 1
                time.sleep(0.001)
        finally:
            raise OSError("in the end")

    generator = stubborn.remote()
    next(generator)
    del generator
    assert support.wait_until(lambda: "in the end" in capfd.readouterr().err)


def test_closing_at_every_moment():
    before = objects()
    for i in range(300):
        generator = count.remote(20)
        for _ in range(i % 7):
            next(generator)
        if i % 3:
            generator.close()
        del generator
    assert settled(before + 5)


# ---- back-pressure ----


@ray.remote
def counted(n, folder):
    for i in range(n):
        support.touch(f"{folder}/{i}")
        yield i


def test_backpressure(folder):
    generator = counted.options(_generator_backpressure_num_objects=3).remote(10, folder)
    assert support.wait_until(lambda: len(os.listdir(folder)) == 3)
    time.sleep(0.1)
    assert len(os.listdir(folder)) == 3
    for i in range(4):
        assert ray.get(next(generator)) == i
    assert support.wait_until(lambda: len(os.listdir(folder)) == 7)
    assert read(generator) == [4, 5, 6, 7, 8, 9]


def test_backpressure_in_actors(folder):
    @ray.remote
    class Made:
        @ray.method(_generator_backpressure_num_objects=2)
        def count(self, n, folder):
            for i in range(n):
                support.touch(f"{folder}/{i}")
                yield i

    @ray.remote
    class AsyncMade:
        @ray.method(_generator_backpressure_num_objects=2)
        async def count(self, n, folder):
            for i in range(n):
                support.touch(f"{folder}/{i}")
                yield i

        async def ping(self):
            return 1

    for k, made in enumerate((Made.remote(), AsyncMade.remote())):
        own = f"{folder}/{k}"
        os.mkdir(own)
        generator = made.count.remote(6, own)
        assert support.wait_until(lambda own=own: len(os.listdir(own)) == 2)
        if k == 1:  # its loop goes on
            assert ray.get(made.ping.remote(), timeout=40) == 1
        assert read(generator) == list(range(6))


def test_a_task_that_waits_for_its_reader_lends_its_cpu(folder):
    all_cpus = counted.options(_generator_backpressure_num_objects=1, num_cpus=4)
    generator = all_cpus.remote(5, folder)
    found = []
    for ref in generator:
        found.append(ray.get(support.echo.options(num_cpus=4).remote(ref), timeout=40))
    assert found == list(range(5))


def test_closing_one_that_waits_for_its_reader(folder):
    generator = counted.options(_generator_backpressure_num_objects=1).remote(5, folder)
    assert support.wait_until(lambda: len(os.listdir(folder)) == 1)
    done = generator.completed()
    generator.close()
    assert ray.get(done, timeout=40) is None


# ---- actors ----


def test_methods():
    maker = Maker.remote()
    assert read(maker.count.remote(5)) == list(range(5))
    assert ray.get(maker.total.remote()) == 5
    assert read(maker.count.options(num_returns="streaming").remote(2)) == [0, 1]


def test_methods_in_order():
    maker = Maker.remote()
    first, second = maker.count.remote(100), maker.count.remote(3)
    total = maker.total.remote()
    assert ray.get(total) == 3
    assert read(second) == [0, 1, 2] and read(first) == list(range(100))


def test_async_actors():
    maker = AsyncMaker.remote()
    generators = [maker.count.remote(10, 0.001) for _ in range(20)]
    for generator in generators:
        assert read(generator) == list(range(10))
    assert read(maker.plain.remote(5)) == list(range(5))
    assert ray.get(maker.state.remote()) == (10, 20)


def test_closing_the_generator_of_an_async_actor():
    maker = AsyncMaker.remote()
    generator = maker.count.remote(1_000_000, 0.001)
    next(generator)
    del generator
    assert support.wait_until(lambda: ray.get(maker.state.remote())[1] == 1)


def test_threaded_actors():
    maker = Maker.options(max_concurrency=4).remote()
    generators = [maker.count.remote(200) for _ in range(8)]
    for generator in generators:
        assert read(generator) == list(range(200))


def test_max_pending_calls():
    maker = Maker.options(max_pending_calls=2).remote()
    generators = [maker.count.remote(3), maker.count.remote(3)]
    for generator in generators:
        assert read(generator) == [0, 1, 2]
        ray.get(generator.completed())
    assert read(maker.count.remote(3)) == [0, 1, 2]


# ---- asyncio ----


def test_async_iteration():
    async def main():
        found = []
        async for ref in count.remote(1000):
            found.append(await ref)
        assert found == list(range(1000))
        generator = count.remote(2, 1)
        assert await (await generator.__anext__()) == 0
        with pytest.raises(ValueError):
            await (await generator.__anext__())
        with pytest.raises(StopAsyncIteration):
            await generator.__anext__()

    asyncio.run(main())


def test_async_iteration_of_several():
    async def total(n):
        return sum([await ref async for ref in count.remote(n)])

    async def main():
        return await asyncio.gather(*[total(n) for n in range(50)])

    assert asyncio.run(main()) == [sum(range(n)) for n in range(50)]


def test_next_async_with_a_time_limit(folder):
    @ray.remote
    def wait():
        support.wait_for_file(f"{folder}/go")
        yield 1

    async def main():
        generator = wait.remote()
        assert (await generator._next_async(timeout_s=0.05)).is_nil()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(generator.__anext__(), 0.05)
        support.touch(f"{folder}/go")
        assert await (await generator._next_async(timeout_s=40)) == 1
        with pytest.raises(StopAsyncIteration):
            await generator._next_async()

    asyncio.run(main())


def test_reading_in_an_async_actor():
    @ray.remote
    class Reader:
        async def read(self, n):
            return [await ref async for ref in count.remote(n)]

        async def relay(self, n):
            async for ref in count.remote(n):
                yield await ref

    reader = Reader.remote()
    assert ray.get(reader.read.remote(20), timeout=40) == list(range(20))
    assert read(reader.relay.remote(20)) == list(range(20))


# ---- dynamic ----


def test_dynamic():
    ref = count.options(num_returns="dynamic").remote(4)
    made = ray.get(ref)
    assert isinstance(made, ray.DynamicObjectRefGenerator) and len(made) == 4
    assert [ray.get(item) for item in made] == [0, 1, 2, 3]
    assert len(made) == 0

    @ray.remote
    def read_inside(made):
        return [ray.get(item) for item in made]

    assert ray.get(read_inside.remote(ref)) == [0, 1, 2, 3]
    maker = Maker.remote()
    made = ray.get(maker.count.options(num_returns="dynamic").remote(3))
    assert ray.get(list(made)) == [0, 1, 2]


def test_dynamic_with_an_error():
    refs = list(ray.get(count.options(num_returns="dynamic").remote(4, 2)))
    assert len(refs) == 3 and ray.get(refs[:2]) == [0, 1]
    with pytest.raises(ValueError, match="at 2"):
        ray.get(refs[2])
    with pytest.raises(ValueError, match="must return a generator"):
        ray.get(support.echo.options(num_returns="dynamic").remote(1))


def test_a_number_of_results():
    """What was yielded before an error stays; the error takes the place of the others."""
    assert ray.get(count.options(num_returns=3).remote(3)) == [0, 1, 2]
    refs = count.options(num_returns=4).remote(4, 2)
    assert ray.get(refs[:2]) == [0, 1]
    for ref in refs[2:]:
        with pytest.raises(ValueError, match="at 2"):
            ray.get(ref)
    refs = count.options(num_returns=3).remote(2)
    assert ray.get(refs[:2]) == [0, 1]
    with pytest.raises(ValueError, match="yielded 2 values"):
        ray.get(refs[2])
    with pytest.raises(ValueError, match="yielded more than 2 values"):
        ray.get(count.options(num_returns=2).remote(5)[0])


def test_replay():
    generator = count.remote(3, 2)
    ray.get(generator.completed())
    with pytest.raises(ValueError, match="at 2"):
        ray.util.replay(generator.task_id())


# ---- retries and cancelling ----


@ray.remote
def dies(n, at, folder):
    """Dies once at each of these items, before and after it is given out."""
    for i in range(n):
        yield i
        if i in at and not os.path.exists(f"{folder}/{i}"):
            support.touch(f"{folder}/{i}")
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_retry_repeats_nothing(folder):
    assert read(dies.remote(10, (0, 4, 9), folder)) == list(range(10))


def test_a_retry_while_it_is_read_slowly(folder):
    generator = dies.remote(10, (3, 7), folder)
    found = []
    for ref in generator:
        found.append(ray.get(ref))
        time.sleep(0.05)
    assert found == list(range(10))


def test_without_retries_the_last_item_tells(folder, capfd):
    generator = dies.options(max_retries=0).remote(10, (4,), folder)
    assert read(generator) == [0, 1, 2, 3, 4, WorkerCrashedError]
    assert generator.is_finished()
    with pytest.raises(WorkerCrashedError):
        ray.get(generator.completed(), timeout=40)
    del generator
    gc.collect()
    ray.get(support.echo.remote(1))
    time.sleep(0.1)
    assert "Unhandled" not in capfd.readouterr().err


def test_retry_exceptions(folder):
    @ray.remote(retry_exceptions=[KeyError], max_retries=2)
    def flaky():
        for i in range(6):
            if i == 3 and not os.path.exists(f"{folder}/once"):
                support.touch(f"{folder}/once")
                raise KeyError
            yield i
        raise ValueError

    assert read(flaky.remote()) == [0, 1, 2, 3, 4, 5, ValueError]


def test_an_actor_that_is_restarted(folder):
    @ray.remote(max_restarts=2, max_task_retries=2)
    class Dies:
        def count(self, n):
            for i in range(n):
                yield i
                if i == n // 2 and not os.path.exists(f"{folder}/died"):
                    support.touch(f"{folder}/died")
                    os.kill(os.getpid(), signal.SIGKILL)

    actor = Dies.remote()
    first, second = actor.count.remote(8), actor.count.remote(3)
    assert read(first) == list(range(8))
    assert read(second) == [0, 1, 2]


def test_an_actor_that_dies():
    maker = Maker.remote()
    generator = maker.count.remote(10_000_000)
    assert ray.get(next(generator)) == 0
    ray.kill(maker)
    last = None
    for ref in generator:
        last = ref
    with pytest.raises(ActorDiedError):
        ray.get(last)
    assert read(maker.count.remote(1)) == [ActorDiedError]


def test_cancel():
    @ray.remote
    def slow():
        yield 1
        time.sleep(60)
        yield 2

    generator = slow.remote()
    assert ray.get(next(generator)) == 1
    ray.cancel(generator)
    assert read(generator) == [TaskCancelledError]
    assert list(generator) == []
    generator = slow.remote()
    next(generator)
    ray.cancel(generator, force=True)
    assert read(generator) in ([TaskCancelledError], [WorkerCrashedError])


def test_cancel_one_that_has_not_begun(folder):
    @ray.remote(num_cpus=4)
    def busy():
        support.wait_for_file(f"{folder}/go")

    blocks = busy.remote()
    generator = count.options(num_cpus=4).remote(3)
    ray.cancel(generator)
    assert read(generator) == [TaskCancelledError]
    support.touch(f"{folder}/go")
    ray.get(blocks)


def test_cancel_in_an_async_actor():
    maker = AsyncMaker.remote()
    generator = maker.count.remote(100, 0.5)
    next(generator)
    ray.cancel(generator)
    assert read(generator)[-1] is TaskCancelledError
    assert ray.get(maker.state.remote(), timeout=40)[1] == 1


def test_cancel_in_an_async_actor_that_waits_for_its_reader():
    maker = AsyncMaker.remote()
    limited = maker.count.options(_generator_backpressure_num_objects=2)
    for _ in range(5):
        generator = limited.remote(100)
        assert ray.get(next(generator), timeout=40) == 0
        ray.cancel(generator)
        with pytest.raises(TaskCancelledError):  # nothing else ends it: nobody reads
            ray.get(generator.completed(), timeout=40)
        *items, last = read(generator)
        assert last is TaskCancelledError and items == [1, 2][: len(items)]
    assert read(limited.remote(10)) == list(range(10))
    assert ray.get(maker.state.remote(), timeout=40)[1] == 6


# ---- readers that die ----


def test_a_reader_that_dies(folder):
    """What a task was reading is freed, and what makes it ends, wherever the reader is killed."""
    before = objects()

    @ray.remote
    def endless(name):
        try:
            while True:
                yield np.ones(200)
                yield [ray.put(1)]
        finally:
            support.touch(f"{folder}/{name}")

    @ray.remote(max_retries=0)
    def reader(name, n):
        kept = []
        for i, ref in enumerate(endless.remote(name)):
            kept.append(ref)
            if i == n:
                os.kill(os.getpid(), signal.SIGKILL)

    for n in (0, 1, 5, 500):
        with pytest.raises(WorkerCrashedError):
            ray.get(reader.remote(n, n), timeout=40)
        support.wait_for_file(f"{folder}/{n}")
    assert settled(before + 4)


def test_a_reader_that_dies_after_its_task():
    before = objects()

    @ray.remote(max_retries=0)
    def reader():
        generator = count.remote(1000)
        ray.get(generator.completed())
        next(generator)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerCrashedError):
        ray.get(reader.remote(), timeout=40)
    assert settled(before + 2)


def test_items_of_a_reader_that_dies_and_of_others(folder):
    @ray.remote(max_retries=0)
    def reader():
        refs = list(count.remote(10))
        yield refs[4]
        yield refs[5:7]
        support.wait_for_file(f"{folder}/go")
        os.kill(os.getpid(), signal.SIGKILL)

    generator = reader.remote()
    one, two = ray.get(next(generator)), ray.get(next(generator))
    support.touch(f"{folder}/go")
    assert read(generator) == [WorkerCrashedError]
    assert ray.get(one) == 4 and ray.get(two) == [5, 6]


# ---- at random ----


@ray.remote(max_retries=-1)
def wild(seed, length, folder):
    """Yields, pauses and dies at random, and ends by returning or by an error; what it yields
    depends on the seed alone.
    """
    chance = random.Random(seed)
    for i in range(length):
        size = chance.choice([1, 20, 33, 40, 100, 5000, 100_000])
        value = chance.choice([i, str(i) * size, np.full(size, i), [i] * 3])
        yield value
        dies = chance.random() < 0.03
        if dies and not os.path.exists(f"{folder}/{seed}-{i}"):
            support.touch(f"{folder}/{seed}-{i}")
            os.kill(os.getpid(), signal.SIGKILL)
    if seed % 3 == 0:
        raise ValueError(seed)


def expected(seed, length):
    chance = random.Random(seed)
    for i in range(length):
        size = chance.choice([1, 20, 33, 40, 100, 5000, 100_000])
        value = chance.choice([i, str(i) * size, np.full(size, i), [i] * 3])
        chance.random()
        yield value


def test_at_random(folder):
    before = objects()
    chance = random.Random(7)
    for turn in range(12):
        rows = []
        for k in range(4):
            seed, length = turn * 4 + k, chance.randrange(40)
            limit = chance.choice([None, None, 1, 5])
            generator = wild.options(_generator_backpressure_num_objects=limit).remote(
                seed, length, folder
            )
            rows.append((seed, length, generator, chance.randrange(60)))
        for seed, length, generator, stop in rows:
            want = expected(seed, length)
            for i, ref in enumerate(generator):
                if i == stop:
                    break
                if i == length:
                    assert seed % 3 == 0
                    with pytest.raises(ValueError):
                        ray.get(ref, timeout=60)
                    continue
                got, value = ray.get(ref, timeout=60), next(want)
                assert np.array_equal(got, value) if hasattr(value, "size") else got == value
            else:
                assert next(want, None) is None
        del rows, generator, ref, got, value
    assert settled(before + 6)


def test_get_timeout_still_works():
    @ray.remote
    def slow():
        time.sleep(0.3)
        yield 1

    generator = slow.remote()
    with pytest.raises(GetTimeoutError):
        ray.get(generator.completed(), timeout=0.01)
    assert read(generator) == [1]
