"""Small tasks that ask for other numbers of CPUs than one: they have queues of their own, beside
those of one CPU.
"""

import os
import random
import signal
import threading
import time

import pytest
import support

import ray
from ray.exceptions import WorkerCrashedError

INIT = {"num_cpus": 2}
SHAPES = [0.5, 1, 2]

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(x):
    return x


@ray.remote
def span(seconds):
    start = time.monotonic()
    time.sleep(seconds)
    return start, time.monotonic()


@pytest.mark.parametrize("cpus", [0.25, 0.5, 1, 2])
def test_thousands_of_one_shape(cpus):
    task = echo.options(num_cpus=cpus)
    assert ray.get([task.remote(i) for i in range(5000)], timeout=40) == list(range(5000))
    for i in range(100):
        assert ray.get(task.remote(i), timeout=40) == i


def test_shapes_in_turns():
    tasks = [echo.options(num_cpus=cpus) for cpus in SHAPES]
    for _ in range(5):
        refs = [
            tasks[i % 3].remote(i) for i in range(900)
        ]  # each waits for the one before, through the daemon
        assert ray.get(refs, timeout=40) == list(range(900))


def test_more_shapes_than_have_queues():
    tasks = [echo.options(num_cpus=cpus / 20) for cpus in range(1, 21)]
    refs = [tasks[i % 20].remote(i) for i in range(2000)]
    assert ray.get(refs, timeout=40) == list(range(2000))


def test_no_more_cpus_than_there_are():
    """By the tasks' own clocks."""
    generator = random.Random(5)
    demands = [generator.choice([0.25, 0.5, 1, 2]) for _ in range(300)]
    tasks = {cpus: span.options(num_cpus=cpus) for cpus in set(demands)}
    spans = ray.get(
        [tasks[cpus].remote(generator.random() * 0.004) for cpus in demands], timeout=50
    )
    marks = sorted(
        [(start, cpus) for (start, _), cpus in zip(spans, demands)]
        + [(end, -cpus) for (_, end), cpus in zip(spans, demands)]
    )
    used = 0
    for _, cpus in marks:
        used += cpus
        assert used <= 2


@pytest.mark.skipif(
    os.environ.get("MOBULA_FAST_PATH") == "0",
    reason="one queue for all is served in the order of submission",
)
@pytest.mark.parametrize("busy, waits", [(1, 2), (1, 0.5), (0.5, 1), (2, 1), (0.5, 2), (2, 0.5)])
def test_none_waits_for_the_others_backlog(busy, waits):
    many, one = span.options(num_cpus=busy), echo.options(num_cpus=waits)
    ray.get([many.remote(0), one.remote(0)])
    count = int(700 / busy)
    backlog = [many.remote(0.004) for _ in range(count)]
    assert ray.get(one.remote(1), timeout=40) == 1
    assert len(ray.wait(backlog, num_returns=count, timeout=0)[1]) > 0
    ray.get(backlog, timeout=50)


def test_nested_gets_lend_all_of_it():
    @ray.remote(num_cpus=2)
    def outer(i):
        return ray.get([echo.options(num_cpus=cpus).remote(i) for cpus in SHAPES])

    assert ray.get([outer.remote(i) for i in range(200)], timeout=50) == [
        [i] * 3 for i in range(200)
    ]
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_killed_workers_lose_nothing_and_repeat_nothing(folder):
    """With max_retries=0 a task has run at most once, by its own record, and without a crash
    exactly once.
    """

    @ray.remote(max_retries=0)
    def note(i):
        support.touch(f"{folder}/pid.{os.getpid()}")
        file = os.open(f"{folder}/ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, b"%7d\n" % i)  # 8 bytes, which a kill can't cut in two: they lie in one page
        os.close(file)
        return i

    ending, killed = threading.Event(), []

    def kill():
        while not ending.wait(0.02) and len(killed) < 50:
            for name in os.listdir(folder):
                if name.startswith("pid."):
                    os.unlink(f"{folder}/{name}")
                    try:
                        os.kill(int(name[4:]), signal.SIGKILL)
                        killed.append(name)
                    except ProcessLookupError:
                        pass
                    break

    tasks = [note.options(num_cpus=cpus) for cpus in SHAPES]
    killer = threading.Thread(target=kill)
    killer.start()
    crashed = set()
    try:
        refs = [tasks[i % 3].remote(i) for i in range(3_000)]
        for i, ref in enumerate(refs):
            try:
                assert ray.get(ref, timeout=50) == i
            except WorkerCrashedError:
                crashed.add(i)
    finally:
        ending.set()
        killer.join()
    with open(f"{folder}/ran") as file:
        ran = [int(line) for line in file]
    assert len(ran) == len(set(ran))
    assert len(killed) > 0
    assert set(range(3_000)) - crashed <= set(ran)
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_a_submitter_that_dies():
    @ray.remote(max_retries=0, num_cpus=0)
    def submitter():
        for cpus in SHAPES * 100:
            span.options(num_cpus=cpus).remote(0.01)
        os._exit(3)

    with pytest.raises(WorkerCrashedError):
        ray.get(submitter.remote(), timeout=40)
    assert ray.get([echo.options(num_cpus=cpus).remote(1) for cpus in SHAPES], timeout=40) == [
        1,
        1,
        1,
    ]
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)
