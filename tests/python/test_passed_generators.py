"""Generators that are passed on: arguments, results and puts of ObjectRefGenerators."""

import asyncio
import gc
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
import support

import ray
from ray.exceptions import OwnerDiedError, RayTaskError, TaskCancelledError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def count(n, error_at=None):
    for i in range(n):
        if i == error_at:
            raise ValueError(f"at {i}")
        yield i


@ray.remote
def gated(folder, n):
    """One item, and the others once a file is there."""
    yield 0
    support.wait_for_file(f"{folder}/go")
    yield from range(1, n)


@ray.remote
def endless(folder):
    try:
        i = 0
        while True:
            yield i
            i += 1
    finally:
        support.touch(f"{folder}/ended")


@ray.remote
def read(generator, most=10**9):
    return values(generator, most)


@ray.remote
class Reader:
    """Calls generators and reads others'."""

    def call(self, function, *args):
        return function.remote(*args)

    def keep(self, generator):
        self.kept = generator

    def next(self):
        return ray.get(next(self.kept))

    def read(self, generator, most=10**9):
        return values(generator, most)

    def pid(self):
        return os.getpid()


@ray.remote
class AsyncReader:
    async def read(self, generator):
        return [await ref async for ref in generator]


def values(generator, most=10**9):
    found = []
    while len(found) < most and (ref := next(generator, None)) is not None:
        found.append(ray.get(ref))
    return found


def objects() -> int:
    from ray.util.state import list_objects

    return len({found.object_id for found in list_objects(limit=100_000)})


# ---- the ways ----


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_to_a_task(n):
    assert ray.get(read.remote(count.remote(n))) == list(range(n))


def test_inside_of_a_value():
    @ray.remote
    def read_inside(box):
        return values(box["here"][0])

    assert ray.get(read_inside.remote({"here": [count.remote(3)]})) == [0, 1, 2]


def test_to_actors():
    assert ray.get(Reader.remote().read.remote(count.remote(100))) == list(range(100))
    assert ray.get(AsyncReader.remote().read.remote(count.remote(100))) == list(range(100))


def test_as_a_result():
    @ray.remote
    def call(n):
        return count.remote(n)

    assert values(ray.get(call.remote(100))) == list(range(100))
    reader = Reader.remote()
    assert values(ray.get(reader.call.remote(count, 100))) == list(range(100))
    assert ray.get(read.remote(reader.call.remote(count, 100))) == list(range(100))


def test_by_a_put():
    ref = ray.put([count.remote(3)])
    assert values(ray.get(ref)[0]) == [0, 1, 2]


def test_of_an_actors_method():
    @ray.remote
    class Maker:
        def count(self, n):
            yield from range(n)

    maker = Maker.remote()
    assert ray.get(read.remote(maker.count.remote(10))) == list(range(10))


def test_large_items():
    @ray.remote
    def arrays(n):
        for i in range(n):
            yield np.full(100_000, i)

    @ray.remote
    def sums(generator):
        return [int(ray.get(ref).sum()) for ref in generator]

    assert ray.get(sums.remote(arrays.remote(10))) == [100_000 * i for i in range(10)]


def test_from_hand_to_hand():
    @ray.remote
    def first(generator):
        mine = values(generator, 2)
        return mine, read.remote(generator)

    mine, rest = ray.get(first.remote(count.remote(6)))
    assert (mine, ray.get(rest)) == ([0, 1], [2, 3, 4, 5])


def test_each_item_goes_to_one_reader():
    generator = count.remote(500)
    found = ray.get([read.remote(generator) for _ in range(3)])
    assert sorted(sum(found, [])) == list(range(500))
    assert all(one == sorted(one) for one in found)


def test_threads_that_read_one():
    generator = ray.get(ray.put([count.remote(300)]))[0]
    found = []
    threads = [threading.Thread(target=lambda: found.extend(values(generator))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(300))


# ---- what it is then ----


def test_the_original_says_that_it_was_passed_on():
    generator = count.remote(3)
    task_id = generator.task_id()
    read_by_another = read.remote(generator)
    for use in (next, list, lambda g: g.next_ready(), lambda g: g.is_finished()):
        with pytest.raises(RuntimeError, match="was passed on"):
            use(generator)
    with pytest.raises(RuntimeError, match="was passed on"):
        ray.wait([generator])
    assert ray.get(generator.completed()) is None
    assert generator.task_id() == task_id
    generator.close()
    del generator
    assert ray.get(read_by_another) == [0, 1, 2]


def test_the_received_one_has_the_same_methods(folder):
    original = gated.remote(folder, 2)
    generator = ray.get(ray.put([original]))[0]
    assert generator.task_id() == original.task_id()
    assert repr(generator) == f"ObjectRefGenerator({original.task_id().hex()}, passed on)"
    assert support.wait_until(generator.next_ready)
    assert ray.get(generator._next_sync()) == 0
    assert not generator.next_ready() and not generator.is_finished()
    assert generator._next_sync(timeout_s=0.05).is_nil()
    assert not ray.wait([generator.completed()], timeout=0)[0]
    support.touch(f"{folder}/go")
    assert ray.get(generator._next_sync(timeout_s=40)) == 1
    assert support.wait_until(generator.is_finished) and not generator.next_ready()
    assert ray.get(generator.completed()) is None
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(generator)


def test_in_an_event_loop(folder):
    async def main():
        generator = ray.get(ray.put([gated.remote(folder, 3)]))[0]
        assert await (await generator.__anext__()) == 0
        assert (await generator._next_async(0.05)).is_nil()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(generator.__anext__(), 0.05)
        support.touch(f"{folder}/go")
        assert [await ref async for ref in generator] == [1, 2]
        with pytest.raises(StopAsyncIteration):
            await generator._next_async()

    asyncio.run(main())


def test_an_error_is_the_last_item():
    @ray.remote
    def read_all(generator):
        found = []
        for ref in generator:
            try:
                found.append(ray.get(ref))
            except RayTaskError as error:
                found.append(str(error.cause))
        return found

    assert ray.get(read_all.remote(count.remote(5, 2))) == [0, 1, "at 2"]


@pytest.mark.parametrize("which", ["original", "received"])
def test_cancelling(folder, which):
    original = gated.remote(folder, 2)
    received = ray.get(ray.put([original]))[0]
    assert ray.get(next(received)) == 0
    ray.cancel(original if which == "original" else received)
    with pytest.raises(TaskCancelledError):
        ray.get(next(received))
    with pytest.raises(StopIteration):
        next(received)


def test_one_that_was_read_in_part():
    generator = count.remote(5)
    assert values(generator, 2) == [0, 1]
    assert ray.get(read.remote(generator)) == [2, 3, 4]


def test_one_that_was_closed():
    generator = count.remote(5)
    generator.close()
    with pytest.raises(TypeError, match="was closed"):
        ray.put([generator])


def test_one_that_the_program_pickles():
    generator = pickle.loads(pickle.dumps(count.remote(3)))
    assert values(generator) == [0, 1, 2]


# ---- room ----


@pytest.mark.parametrize("limit", [1, 5])
def test_a_limit_holds(folder, limit):
    """As many items in the relay, and as many on the way to it."""

    @ray.remote(_generator_backpressure_num_objects=limit)
    def noted(n):
        for i in range(n):
            with open(f"{folder}/made", "a") as file:
                file.write("x")
            yield i

    def made():
        return os.path.getsize(f"{folder}/made") if os.path.exists(f"{folder}/made") else 0

    received = ray.get(ray.put([noted.remote(100)]))[0]
    assert support.wait_until(lambda: made() >= 2 * limit)
    assert support.is_quiet(made, 0.5) and made() <= 2 * limit
    assert values(received, 3) == [0, 1, 2]
    assert support.wait_until(lambda: made() >= 2 * limit + 3)
    assert support.is_quiet(made, 0.5) and made() <= 2 * limit + 3
    assert values(received) == list(range(3, 100))


def test_the_rest_of_a_task_that_is_over_is_not_held_up():
    """So the process that called it may go."""
    caller = Reader.options(num_cpus=0).remote()
    received = ray.get(caller.call.remote(count, 1000))
    ray.get(received.completed())
    assert values(received, 1) == [0]
    over = received._relay.__ray_call__.remote
    assert support.wait_until(lambda: ray.get(over(lambda relay: relay._over)) is not None)
    pid = ray.get(caller.pid.remote())
    del caller
    gc.collect()
    assert support.wait_until(lambda: not support.alive(pid))
    assert values(received) == list(range(1, 1000))


# ---- ends ----


def test_nobody_is_left(folder):
    generator = endless.remote(folder)
    assert ray.get(read.remote(generator, 3)) == [0, 1, 2]
    assert support.wait_until(lambda: os.path.exists(f"{folder}/ended"))
    with pytest.raises(OwnerDiedError):
        ray.put([generator])


def test_nobody_is_left_of_a_task_that_is_slow(folder):
    generator = ray.get(ray.put([gated.remote(folder, 10**9)]))[0]
    done = generator.completed()
    assert ray.get(next(generator)) == 0
    assert generator._next_sync(timeout_s=0.1).is_nil()
    generator.close()
    with pytest.raises(StopIteration):
        next(generator)
    time.sleep(1.5)
    support.touch(f"{folder}/go")
    ray.get(done, timeout=40)


def test_nothing_is_left_of_it():
    ray.get(read.remote(count.remote(1)))
    before = objects()
    for _ in range(3):
        assert len(ray.get(read.remote(count.remote(200)))) == 200
    gc.collect()
    assert support.wait_until(lambda: objects() <= before)


def test_the_process_that_called_it_dies(folder):
    caller = Reader.remote()
    received = ray.get(caller.call.remote(endless, folder))
    other = read.remote(received)
    assert len(values(received, 10)) == 10
    os.kill(ray.get(caller.pid.remote()), signal.SIGKILL)
    with pytest.raises(OwnerDiedError, match="the process that had called it is dead"):
        values(received)
    with pytest.raises(OwnerDiedError):
        next(received)
    with pytest.raises(OwnerDiedError):
        ray.get(other)


def test_what_a_reader_gives_up_is_for_the_next(folder):
    received = ray.get(ray.put([gated.remote(folder, 4)]))[0]
    other = ray.get(ray.put([received]))[0]
    assert ray.get(next(received)) == 0
    for ends in (lambda: other.close(), lambda: ray.put([received]), lambda: None):
        assert received._next_sync(timeout_s=0.05).is_nil()
        ends()
    support.touch(f"{folder}/go")
    received = ray.get(ray.put([received]))[0]  # with an item, perhaps, that it has not read
    assert values(received) == [1, 2, 3]


def test_a_reader_that_waits_is_killed(folder):
    """The item that it waited for is the next one's."""
    received = ray.get(ray.put([gated.remote(folder, 4)]))[0]
    assert ray.get(next(received)) == 0
    reader = Reader.remote()
    ray.get(reader.keep.remote(received))
    waiting = reader.next.remote()
    time.sleep(0.3)
    ray.kill(reader)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(waiting)
    support.touch(f"{folder}/go")
    assert values(received) == [1, 2, 3]


def test_a_reader_that_is_run_again_goes_on(folder):
    @ray.remote(max_retries=1)
    def die_once(generator):
        if not os.path.exists(f"{folder}/died"):
            assert values(generator, 3) == [0, 1, 2]
            support.touch(f"{folder}/died")
            os.kill(os.getpid(), signal.SIGKILL)
        return values(generator)

    assert ray.get(die_once.remote(count.remote(6))) == [3, 4, 5]


def test_a_call_that_could_not_be_made_passes_it_on_too(folder):
    generator = endless.remote(folder)
    with pytest.raises(TypeError, match="lock"):
        read.remote([generator, threading.Lock()])
    gc.collect()  # the exception has had what was pickled
    with pytest.raises(RuntimeError, match="was passed on"):
        next(generator)
    assert support.wait_until(lambda: os.path.exists(f"{folder}/ended"))


def test_a_driver_that_ends_meanwhile(folder):
    code = """
import ray
ray.init(num_cpus=2, address="local")

@ray.remote
def endless():
    i = 0
    while True:
        yield i
        i += 1

received = ray.get(ray.put([endless.remote()]))[0]
print(ray.get(next(received)))
ray.shutdown()
ray.init(num_cpus=2, address="local")
again = ray.get(ray.put([endless.remote()]))[0]
print(ray.get(next(again)))
try:
    next(received)
except ray.exceptions.RayError as error:
    print(type(error).__name__)
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "0\n0\nActorHandleNotFoundError\n"
    assert "Traceback" not in result.stderr
