"""ray.util.queue.Queue."""

import asyncio
import os
import queue as standard
import signal
import threading

import numpy as np
import pytest
import support

import ray
from ray.util.queue import Empty, Full, Queue

pytestmark = pytest.mark.usefixtures("cluster")


HERE = "a-node 1"


@ray.remote
def take(queue, count):
    return [queue.get() for _ in range(count)]


@ray.remote
def fill(queue, items):
    for item in items:
        queue.put(item)
    return "put"


def test_first_in_first_out():
    q = Queue()
    items = [1, "two", {"three": 3}, None, 4.5]
    for item in items:
        q.put(item)
    assert len(q) == q.size() == q.qsize() == 5 and not q.empty() and not q.full()
    assert [q.get() for _ in items] == items
    assert q.empty()


def test_arrays():
    q = Queue()
    q.put(np.arange(100_000))
    assert q.get().sum() == 99_999 * 100_000 // 2


def test_empty_and_full():
    q = Queue(maxsize=2)
    with pytest.raises(Empty):
        q.get_nowait()
    with pytest.raises(standard.Empty):
        q.get(block=False)
    with pytest.raises(Empty):
        q.get(timeout=0.01)
    q.put(1)
    q.put_nowait(2)
    assert q.full()
    with pytest.raises(Full):
        q.put_nowait(3)
    with pytest.raises(standard.Full):
        q.put(3, block=False)
    with pytest.raises(Full):
        q.put(3, timeout=0.01)
    assert [q.get(), q.get()] == [1, 2]
    with pytest.raises(Empty):
        q.get_nowait()


def test_a_get_that_gave_up_takes_nothing():
    q = Queue()
    for _ in range(3):
        with pytest.raises(Empty):
            q.get(timeout=0)
    q.put(1)
    assert q.qsize() == 1 and q.get() == 1


def test_batches():
    q = Queue(maxsize=4)
    q.put_nowait_batch(iter([1, 2, 3]))
    with pytest.raises(Full, match="2 items"):
        q.put_nowait_batch([4, 5])
    assert q.qsize() == 3
    with pytest.raises(Empty, match="4 items"):
        q.get_nowait_batch(4)
    assert q.get_nowait_batch(2) == [1, 2]
    assert q.get_nowait_batch(0) == []
    assert q.get_nowait_batch(1) == [3]


def test_bad_input():
    q = Queue()
    with pytest.raises(TypeError):
        q.put_nowait_batch(1)
    with pytest.raises(TypeError):
        q.get_nowait_batch("1")
    with pytest.raises(ValueError):
        q.get_nowait_batch(-1)
    with pytest.raises(ValueError, match="non-negative"):
        q.put(1, timeout=-1)
    with pytest.raises(ValueError, match="non-negative"):
        q.get(timeout=-1)
    with pytest.raises(TypeError):
        Queue(maxsize="2")
    with pytest.raises(TypeError, match="pickle"):
        q.put(threading.Lock())


def test_getters_wait_in_their_order():
    q = Queue()
    waiting = [q.actor.get.remote(token, HERE) for token in range(3)]
    q.put_nowait_batch([10, 11])
    q.put(12)
    assert ray.get(waiting) == [10, 11, 12] and q.empty()


def test_more_waiters_than_threads_could_be():
    q = Queue()
    waiting = [q.actor.get.remote(token, HERE) for token in range(5000)]
    q.put_nowait_batch(range(5000))
    assert ray.get(waiting) == list(range(5000))


def test_putters_wait_for_room():
    q = Queue(maxsize=1)
    q.put(0)
    done = fill.remote(q, range(1, 20))
    assert [q.get() for _ in range(20)] == list(range(20))
    assert ray.get(done) == "put" and q.empty()


def test_tasks_share_it():
    q = Queue(maxsize=10)
    taken = [take.remote(q, 100) for _ in range(2)]
    put = [fill.remote(q, range(start, start + 100)) for start in (0, 100)]
    assert sorted(sum(ray.get(taken), [])) == list(range(200))
    assert ray.get(put) == ["put", "put"]


def test_async():
    q = Queue(maxsize=1)

    async def both():
        async def produce():
            for i in range(50):
                await q.put_async(i)

        async def consume():
            return [await q.get_async() for _ in range(50)]

        _, got = await asyncio.gather(produce(), consume())
        assert got == list(range(50))
        with pytest.raises(Empty):
            await q.get_async(block=False)
        with pytest.raises(Empty):
            await q.get_async(timeout=0.01)
        await q.put_async(1)
        with pytest.raises(Full):
            await q.put_async(2, block=False)
        with pytest.raises(Full):
            await q.put_async(2, timeout=0.01)
        return await q.get_async(timeout=60)

    assert asyncio.run(both()) == 1 and q.empty()


def test_a_cancelled_get_loses_no_item():
    q = Queue()

    async def give_up():
        getting = asyncio.ensure_future(q.get_async())
        await asyncio.sleep(0.01)
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting

    asyncio.run(give_up())
    q.put(1)
    assert q.get(timeout=60) == 1

    waiting = take.remote(q, 1)
    support.wait_until(lambda: ray.get(q.actor.__ray_call__.remote(lambda a: len(a.getters))) == 1)
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting)
    q.put(2)
    assert q.get(timeout=60) == 2


def test_actor_options_and_names():
    q = Queue(actor_options={"name": "a queue", "num_cpus": 1})
    q.put(1)
    assert ray.get(ray.get_actor("a queue").qsize.remote()) == 1


@pytest.mark.parametrize("force", [False, True])
def test_shutdown(force):
    q = Queue()
    actor = q.actor
    waiting = actor.get.remote(1, HERE)
    q.shutdown(force=force)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(waiting)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.qsize.remote())
    q.shutdown()


def test_it_ends_with_its_last_handle():
    q = Queue()
    pid = ray.get(q.actor.__ray_call__.remote(lambda _: __import__("os").getpid()))
    del q
    assert support.wait_until(lambda: not support.alive(pid))


def test_a_consumer_that_is_killed_leaves_the_rest():
    q = Queue()

    @ray.remote(max_retries=0)
    def die(q):
        q.get()
        import os

        os._exit(1)

    q.put_nowait_batch([1, 2])
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(die.remote(q))
    assert q.get(timeout=60) == 2


def test_a_consumer_that_is_killed_while_it_waits_takes_nothing_with_it():
    q = Queue()

    @ray.remote(max_retries=0)
    def wait(q, pids):
        pids.put(os.getpid())
        return q.get()

    pids = Queue()
    waiting = wait.remote(q, pids)
    pid = pids.get()
    getters = q.actor.__ray_call__
    assert support.wait_until(lambda: ray.get(getters.remote(lambda a: len(a.getters))) == 1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(waiting)
    assert support.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    q.put("kept")
    assert q.get(timeout=60) == "kept"
