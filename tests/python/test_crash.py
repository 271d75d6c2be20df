"""Workers that die: retries, and an error with the reason when there are none left."""

import os
import signal
import time

import pytest
import support
from support import end

import ray
from ray.exceptions import ActorDiedError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(x):
    return x


WAYS = {
    "exit": "17",
    "exit 0": "0",
    "segfault": "SIGSEGV|11",
    "abort": "SIGABRT|6",
    "kill": "SIGKILL|9",
}


@pytest.mark.parametrize("how", WAYS)
def test_the_error_has_the_reason(how):
    @ray.remote(max_retries=0)
    def crash():
        end(how)

    with pytest.raises(WorkerCrashedError, match=WAYS[how]) as info:
        ray.get(crash.remote(), timeout=40)
    assert "crash" in str(info.value)
    assert ray.get(echo.remote(1), timeout=40) == 1


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_as_many_retries_as_asked_for(folder, retries):
    @ray.remote(max_retries=retries)
    def crash():
        support.touch(f"{folder}/{time.monotonic_ns()}")
        end("exit")

    with pytest.raises(WorkerCrashedError):
        ray.get(crash.remote(), timeout=40)
    assert len(os.listdir(folder)) == retries + 1


def test_three_retries_by_default(folder):
    @ray.remote
    def crash():
        support.touch(f"{folder}/{time.monotonic_ns()}")
        end("kill")

    with pytest.raises(WorkerCrashedError):
        ray.get(crash.remote(), timeout=40)
    assert len(os.listdir(folder)) == 4


def test_retries_without_end(folder):
    @ray.remote(max_retries=-1)
    def tenth_time():
        tries = len(os.listdir(folder))
        support.touch(f"{folder}/{tries}")
        if tries < 9:
            end("kill")
        return tries

    assert ray.get(tenth_time.remote(), timeout=50) == 9


def test_a_retry_gets_the_same_arguments(folder):
    @ray.remote(num_returns=2)
    def second_time(data, refs, *, key):
        if not os.path.exists(f"{folder}/tried"):
            support.touch(f"{folder}/tried")
            end("segfault")
        return len(data) + len(ray.get(refs[0])), key

    results = second_time.remote(
        ray.put(b"x" * 1_000_000), [ray.put(b"y" * 2_000_000)], key=b"k" * 10
    )
    assert ray.get(results, timeout=40) == [3_000_000, b"k" * 10]


def test_all_results_of_a_crashed_task_fail():
    @ray.remote(num_returns=3, max_retries=0)
    def crash():
        end("exit")

    for ref in crash.remote():
        with pytest.raises(WorkerCrashedError):
            ray.get(ref, timeout=40)


def test_a_task_that_takes_a_crashed_result_fails_with_that_cause():
    @ray.remote(max_retries=0)
    def crash():
        end("exit")

    with pytest.raises(WorkerCrashedError):
        ray.get(echo.remote(echo.remote(crash.remote())), timeout=40)


def test_a_nested_crash():
    @ray.remote(max_retries=0)
    def crash():
        end("exit")

    @ray.remote
    def outer():
        try:
            ray.get(crash.remote(), timeout=30)
        except WorkerCrashedError:
            return "noticed"

    assert ray.get(outer.remote(), timeout=40) == "noticed"


def test_the_others_go_on():
    @ray.remote(max_retries=0)
    def maybe(i):
        if i % 5 == 0:
            end("kill")
        return i

    refs = [maybe.remote(i) for i in range(50)]
    for i, ref in enumerate(refs):
        if i % 5 == 0:
            with pytest.raises(WorkerCrashedError):
                ray.get(ref, timeout=40)
        else:
            assert ray.get(ref, timeout=40) == i


def test_killed_from_outside(folder):
    @ray.remote
    def patient():
        support.touch(f"{folder}/{os.getpid()}")
        if len(os.listdir(folder)) == 1:
            time.sleep(1000)
        return "second try"

    ref = patient.remote()
    assert support.wait_until(lambda: os.listdir(folder))
    os.kill(int(os.listdir(folder)[0]), signal.SIGKILL)
    assert ray.get(ref, timeout=40) == "second try"


def test_an_idle_worker_killed_from_outside():
    @ray.remote
    def pid():
        return os.getpid()

    for _ in range(5):
        os.kill(ray.get(pid.remote()), signal.SIGKILL)
        assert ray.get(echo.remote(1), timeout=40) == 1


def test_a_blocked_worker_killed_from_outside(folder):
    @ray.remote
    def gate():
        support.wait_for_file(f"{folder}/go")
        return 5

    @ray.remote
    def blocked(ref):
        support.touch(f"{folder}/pid-{os.getpid()}")
        return ray.get(ref[0])

    ref = blocked.remote([gate.remote()])
    assert support.wait_until(lambda: os.listdir(folder))
    time.sleep(0.1)
    os.kill(int(os.listdir(folder)[0].split("-")[1]), signal.SIGKILL)
    assert support.wait_until(lambda: len(os.listdir(folder)) == 2)
    support.touch(f"{folder}/go")
    assert ray.get(ref, timeout=40) == 5
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 4)


def test_a_stopped_worker_is_no_reason_to_hang_others(folder):
    @ray.remote
    def stopped():
        support.touch(f"{folder}/{os.getpid()}")
        os.kill(os.getpid(), signal.SIGSTOP)
        return 1

    ref = stopped.remote()
    assert support.wait_until(lambda: os.listdir(folder))
    assert ray.get([echo.remote(i) for i in range(10)], timeout=40) == list(range(10))
    os.kill(int(os.listdir(folder)[0]), signal.SIGCONT)
    assert ray.get(ref, timeout=40) == 1


def test_an_actors_death_has_the_reason():
    @ray.remote
    class Fragile:
        def crash(self, how):
            end(how)

    for how, reason in WAYS.items():
        with pytest.raises(ActorDiedError, match=reason):
            ray.get(Fragile.remote().crash.remote(how), timeout=40)


def test_a_constructor_that_crashes():
    @ray.remote
    class Stillborn:
        def __init__(self):
            end("kill")

        def hello(self):
            return 1

    with pytest.raises(ActorDiedError):
        ray.get(Stillborn.remote().hello.remote(), timeout=40)


def test_children_of_a_crashed_worker_end_with_it(folder):
    @ray.remote(max_retries=0)
    def parent():
        import subprocess

        child = subprocess.Popen(["sleep", "1000"])
        support.touch(f"{folder}/{child.pid}")
        end("kill")

    with pytest.raises(WorkerCrashedError):
        ray.get(parent.remote(), timeout=40)
    (pid,) = map(int, os.listdir(folder))
    assert support.wait_until(lambda: not support.alive(pid))


def test_many_crashes_leave_nothing_behind():
    @ray.remote(max_retries=0)
    def crash():
        end("kill")

    def descriptors():
        return len(os.listdir(f"/proc/{support.daemon_pid()}/fd"))

    def crash_some():
        for ref in [crash.remote() for _ in range(20)]:
            with pytest.raises(WorkerCrashedError):
                ray.get(ref, timeout=40)

    crash_some()
    ray.get([echo.remote(i) for i in range(8)])
    before = descriptors()
    crash_some()
    crash_some()
    ray.get([echo.remote(i) for i in range(8)])
    assert support.wait_until(lambda: descriptors() <= before + 12), (before, descriptors())


def test_an_uncaught_signal_of_python_in_a_worker():
    @ray.remote(max_retries=0)
    def terminate():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(100)

    with pytest.raises(WorkerCrashedError, match="SIGTERM|15"):
        ray.get(terminate.remote(), timeout=40)


def test_random_kills_lose_nothing(folder):
    """Workers are killed all the time, anywhere; every task ends with the right result, and nothing
    leaks.
    """
    import random
    import threading

    @ray.remote(max_retries=-1)
    def work(i, refs):
        support.touch(f"{folder}/{os.getpid()}")
        return i, sum(ray.get(refs)), [ray.put(b"x" * size) for size in (10, 1000, 100_000)]

    @ray.remote(max_retries=-1)
    def nested(i):
        support.touch(f"{folder}/{os.getpid()}")
        return ray.get(work.remote(i, [ray.put(1), ray.put(2)]))

    generator, killed, finished, ending = random.Random(3), [], [], threading.Event()

    def kill():
        # Not for ever, and no faster than tasks are finished: on a machine that is busy enough none
        # would ever be.
        end = time.monotonic() + 15
        while not ending.wait(0.005) and time.monotonic() < end:
            if len(killed) > 2 * len(finished) + 10:
                continue
            for name in os.listdir(folder)[: generator.randrange(2)]:
                os.unlink(f"{folder}/{name}")
                try:
                    os.kill(int(name), signal.SIGKILL)
                    killed.append(name)
                except ProcessLookupError:
                    pass

    before = support.store_free()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for _ in range(4):
            for i, ref in enumerate([nested.remote(i) for i in range(40)]):
                found, total, refs = ray.get(ref, timeout=40)
                assert (found, total) == (i, 3)
                assert [len(data) for data in ray.get(refs, timeout=40)] == [10, 1000, 100_000]
                finished.append(i)
    finally:
        ending.set()
        killer.join()
    del ref, refs
    assert len(killed) > 3
    assert support.wait_until(lambda: support.store_free() >= before - 4_000_000)
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 4)
