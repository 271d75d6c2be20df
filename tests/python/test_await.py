"""`await ref`, `ref.future()` and asyncio in the driver."""

import asyncio
import concurrent.futures
import os
import signal
import threading

import numpy as np
import pytest
import support

import ray
from ray.util.state import list_objects

pytestmark = pytest.mark.usefixtures("session")


@ray.remote
def echo(x):
    return x


@ray.remote
def bad():
    raise KeyError("gone")


@ray.remote
def gate(path, x=None):
    assert support.wait_until(lambda: os.path.exists(path))
    return x


async def value(ref):
    return await ref


def test_await():
    async def main():
        assert await echo.remote(1) == 1
        assert await ray.put([2]) == [2]
        assert await asyncio.gather(*[echo.remote(i) for i in range(2000)]) == list(range(2000))
        ref = echo.remote(3)
        assert [await ref, await ref] == [3, 3]
        with pytest.raises(KeyError, match="gone"):
            await bad.remote()

    asyncio.run(main())
    asyncio.run(main())  # another loop


def test_the_loop_goes_on_meanwhile(folder):
    async def main():
        ref = gate.remote(f"{folder}/gate", 5)
        waiting = asyncio.ensure_future(value(ref))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not waiting.done()
        support.touch(f"{folder}/gate")
        assert await waiting == 5

    asyncio.run(main())


def test_as_they_are_completed(folder):
    async def main():
        refs = [gate.remote(f"{folder}/{i}", i) for i in range(2)]
        tasks = [asyncio.ensure_future(value(ref)) for ref in refs]
        support.touch(f"{folder}/1")
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert [await task for task in done] == [1]
        support.touch(f"{folder}/0")
        assert await tasks[0] == 0

    asyncio.run(main())


def test_timeouts_and_cancelling(folder):
    async def main():
        ref = gate.remote(f"{folder}/gate", 5)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(value(ref), 0.05)
        waiting = asyncio.ensure_future(value(ref))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        support.touch(f"{folder}/gate")
        assert await ref == 5  # the task went on

    asyncio.run(main())


@pytest.mark.init(num_cpus=1, object_store_memory=100 << 20)
def test_a_cancelled_await_lets_the_object_go(folder):
    before = support.store_free_settled()

    @ray.remote
    def big(path):
        assert support.wait_until(lambda: os.path.exists(path))
        return bytes(10 << 20)

    async def main():
        waiting = asyncio.ensure_future(value(big.remote(f"{folder}/gate")))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        del waiting
        support.touch(f"{folder}/gate")
        await asyncio.sleep(0)

    asyncio.run(main())
    ray.get(echo.remote(1))
    assert support.wait_until(lambda: support.store_free() >= before - (1 << 20))


def test_cancelled_after_its_result_was_found(folder):
    """What one await has left behind must not be taken for another's."""

    async def main():
        first, second = gate.remote(f"{folder}/1", 1), gate.remote(f"{folder}/2", 2)
        a = asyncio.ensure_future(value(first))
        await asyncio.sleep(0.05)

        async def other():
            support.touch(f"{folder}/1")
            found = a._fut_waiter
            while not found.done():
                await asyncio.sleep(0)
            a.cancel()  # it has not run since
            return await second

        b = asyncio.ensure_future(other())
        await asyncio.sleep(0.1)
        support.touch(f"{folder}/2")
        assert await asyncio.wait_for(b, 30) == 2

    asyncio.run(main())


def test_interrupts_do_not_stop_the_loop():
    """A signal handler that raises, at any point of a look."""
    inside = False

    def interrupt():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def handler(number, frame):
        if inside:
            raise KeyboardInterrupt  # asyncio lets this one through
        threading.Timer(0.002, interrupt).start()  # it came before the loop ran

    async def work():
        while True:
            await echo.remote(1)

    loop = asyncio.new_event_loop()
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for i in range(40):
            task = loop.create_task(work())
            threading.Timer(0.002 + i * 0.0003, interrupt).start()
            try:
                try:
                    inside = True
                    loop.run_until_complete(task)
                finally:
                    inside = False
            except KeyboardInterrupt:
                pass
            task.cancel()
            # An interrupt may hit asyncio itself, which then never wakes that task again.
            loop.run_until_complete(asyncio.wait([task], timeout=0.2))
            assert loop.run_until_complete(asyncio.wait_for(value(echo.remote(i)), 20)) == i
    finally:
        signal.signal(signal.SIGUSR1, before)
        loop.close()


def test_a_ref_of_an_ended_session_starts_nothing():
    ref = echo.remote(1)
    ray.get(ref)
    ray.shutdown()
    with pytest.raises(Exception, match="shutdown"):
        ref.future()
    with pytest.raises(Exception, match="shutdown"):
        asyncio.run(value(ref))
    assert not ray.is_initialized()


@pytest.mark.init(num_cpus=1)
def test_a_task_that_awaits_lends_its_cpu():
    @ray.remote
    def via_await():
        return asyncio.run(value(echo.remote(4)))

    @ray.remote
    def via_future():
        return echo.remote(5).future().result()

    assert ray.get([via_await.remote(), via_future.remote()], timeout=40) == [4, 5]


def test_loops_in_several_threads():
    failures = []

    def run(k):
        async def main():
            for i in range(30):
                assert await asyncio.gather(*[echo.remote((k, i, j)) for j in range(10)]) == [
                    (k, i, j) for j in range(10)
                ]

        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        assert ray.get(echo.remote(i)) == i
    for thread in threads:
        thread.join()
    assert failures == []


def test_futures(folder):
    future = echo.remote(1).future()
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(timeout=30) == 1
    with pytest.raises(KeyError, match="gone"):
        bad.remote().future().result(timeout=30)
    later = gate.remote(f"{folder}/gate", 7).future()
    called = []
    later.add_done_callback(lambda f: called.append(f.result()))
    assert not later.done()
    support.touch(f"{folder}/gate")
    assert later.result(timeout=30) == 7
    assert support.wait_until(lambda: called == [7])
    done, rest = concurrent.futures.wait([echo.remote(i).future() for i in range(100)], timeout=30)
    assert not rest and sorted(f.result() for f in done) == list(range(100))


def test_await_in_a_task_and_in_a_plain_actor():
    @ray.remote
    def task():
        return asyncio.run(value(echo.remote(4)))

    @ray.remote
    class Plain:
        def run(self):
            return asyncio.run(value(echo.remote(5)))

    assert ray.get(task.remote()) == 4
    assert ray.get(Plain.remote().run.remote()) == 5


@pytest.mark.init(num_cpus=1)
def test_shutdown_while_something_is_awaited(folder):

    async def main():
        waiting = asyncio.ensure_future(value(gate.remote(f"{folder}/never")))
        await asyncio.sleep(0.05)
        ray.shutdown()
        with pytest.raises(Exception, match="shutdown|ended|gone|running"):
            await asyncio.wait_for(waiting, 20)

    asyncio.run(main())
    ray.init(num_cpus=1)
    assert asyncio.run(value(echo.remote(2))) == 2


def test_the_same_loop_in_several_sessions():
    async def main():
        for i in range(3):
            ray.shutdown()
            ray.init(num_cpus=1)
            assert await asyncio.gather(*[echo.remote((i, j)) for j in range(20)]) == [
                (i, j) for j in range(20)
            ]

    asyncio.run(main())


@pytest.mark.init(num_cpus=1)
def test_the_daemon_dies_while_something_is_awaited(folder):

    async def main():
        waiting = asyncio.ensure_future(value(gate.remote(f"{folder}/never")))
        await asyncio.sleep(0.1)
        os.kill(support.daemon_pid(), 9)
        with pytest.raises(Exception, match="daemon|gone"):
            await asyncio.wait_for(waiting, 20)

    asyncio.run(main())
    ray.shutdown()


def test_an_idle_loop_sleeps():
    def look():
        return sum(support.switches([os.getpid()]).values())

    async def main():
        assert await echo.remote(1) == 1
        found = []
        while len(found) < 20 and min(found, default=8) > 7:
            before = look()
            await asyncio.sleep(1)
            found.append(look() - before)
        return found

    # of the sleep itself, and of the test runner, which has threads too
    found = asyncio.run(main())
    assert found[-1] <= 7, found


@pytest.mark.init(num_cpus=2)
def test_results_beside_thousands_that_wait(folder):
    """Looking through all of them takes long, so looks are left out; no result may be."""

    async def main():
        never = [gate.remote(f"{folder}/gate", i) for i in range(3000)]
        waiting = [asyncio.ensure_future(value(ref)) for ref in never for _ in range(3)]
        await asyncio.sleep(0)
        other = echo.options(num_cpus=0)
        for i in range(100):
            assert await other.remote(i) == i
        support.touch(f"{folder}/gate")
        assert await asyncio.gather(*waiting) == [i for i in range(3000) for _ in range(3)]

    asyncio.run(main())


def _one_on_disk():
    """Puts more than the store holds; an array of it that is on disk, and the others, which keep it
    there.
    """
    refs = [ray.put(np.full(5 << 20, i, dtype=np.uint8)) for i in range(20)]
    spilled = {state.object_id for state in list_objects(filters=[("state", "=", "SPILLED")])}
    return next(i for i, ref in enumerate(refs) if ref.hex() in spilled), refs


@pytest.mark.init(num_cpus=2, object_store_memory=60 << 20)
def test_the_loop_goes_on_while_an_object_comes_back_from_disk():
    number, refs = _one_on_disk()
    daemon = support.daemon_pid()
    went_on = threading.Event()

    def give_up():  # else a loop that stands still would be the end of this test
        if not went_on.wait(20):
            os.kill(daemon, signal.SIGCONT)

    async def main():
        os.kill(daemon, signal.SIGSTOP)  # so that nothing comes back
        watchdog = threading.Thread(target=give_up)
        watchdog.start()
        waiting = asyncio.ensure_future(value(refs[number]))
        await asyncio.sleep(0.1)
        stood_still = not watchdog.is_alive()
        went_on.set()
        assert not stood_still and not waiting.done()
        os.kill(daemon, signal.SIGCONT)
        array = await waiting
        assert array.nbytes == 5 << 20 and (array == number).all()

    asyncio.run(main())


@pytest.mark.init(num_cpus=2, object_store_memory=60 << 20)
def test_an_async_actor_awaits_objects_on_disk():
    @ray.remote
    class Reader:
        async def total(self, refs):
            return sum(int(array.sum()) for array in await asyncio.gather(*refs))

    _, refs = _one_on_disk()
    sums = [i * (5 << 20) for i in range(20)]
    reader = Reader.remote()
    # one after the other: what is read stays in memory until all four are there
    for i in range(0, 20, 4):
        assert ray.get(reader.total.remote(refs[i : i + 4])) == sum(sums[i : i + 4])


@pytest.mark.init(num_cpus=2, object_store_memory=60 << 20)
def test_an_await_of_an_object_on_disk_can_be_cancelled():
    number, refs = _one_on_disk()

    async def main():
        waiting = asyncio.ensure_future(value(refs[number]))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await refs[number] == number).all()

    asyncio.run(main())
