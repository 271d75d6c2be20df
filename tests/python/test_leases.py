"""A CPU goes back and forth between those who want it, and no task is forgotten on the way.

Each of these was a task that waited for ever, or too long, because the one who was to run it had
just lost its CPU.
"""

import os
import threading
import time

import pytest
import support

import ray


@ray.remote
def echo(x=1):
    return x


def test_a_task_that_waits_for_one_after_the_other_on_one_cpu(start):
    start(num_cpus=1)

    @ray.remote
    def parent(count):
        return sum(ray.get(echo.remote(i)) for i in range(count))

    for _ in range(20):
        assert ray.get(parent.remote(100), timeout=40) == 4950


def test_parents_and_children_on_two_cpus(start):
    start(num_cpus=2)

    @ray.remote
    def parent(count):
        return sum(ray.get([echo.remote(i), echo.remote(-i)])[0] for i in range(count))

    for _ in range(10):
        assert ray.get([parent.remote(30) for _ in range(4)], timeout=40) == [435] * 4


def test_a_question_takes_the_cpus_that_nobody_uses(start):
    start(num_cpus=2)
    for _ in range(500):
        assert ray.get(echo.remote(), timeout=40) == 1
        assert ray.available_resources()["CPU"] == 2
        assert ray.get(echo.remote(2), timeout=40) == 2


@pytest.mark.skipif(
    os.environ.get("MOBULA_FAST_PATH") == "0",
    reason="one queue for all is served in the order of submission",
)
def test_one_that_was_recalled_and_runs_for_long_is_not_waited_for(start, folder):
    """Whichever of four workers is recalled first, three of them would be waited for."""
    start(num_cpus=4, resources={"x": 1})
    opened = os.path.join(folder, "open")

    @ray.remote
    def hold(i):
        support.touch(os.path.join(folder, str(i)))
        while not os.path.exists(opened):
            time.sleep(0.01)

    @ray.remote
    def short():
        time.sleep(0.01)

    long = [hold.remote(i) for i in range(3)]
    for i in range(3):
        support.wait_for_file(os.path.join(folder, str(i)))
    backlog = [short.remote() for _ in range(3000)]  # half a minute's, for the fourth
    ray.get(backlog[0], timeout=40)
    assert ray.get(echo.options(resources={"x": 1}).remote(), timeout=20) == 1
    assert len(ray.wait(backlog, num_returns=3000, timeout=0)[1]) > 0
    support.touch(opened)
    ray.get(long, timeout=40)


def test_one_that_waits_for_something_else_is_in_nobodys_way(start, folder):
    start(num_cpus=1, num_gpus=1)
    opened = os.path.join(folder, "open")

    @ray.remote(num_cpus=0, num_gpus=1, max_retries=0)
    def holder():
        while not os.path.exists(opened):
            time.sleep(0.01)

    @ray.remote(num_cpus=1, num_gpus=1)
    def both():
        return 3

    held = holder.remote()
    ray.get(echo.remote())
    waits = both.remote()
    time.sleep(0.5)  # more than its patience
    for i in range(20):
        assert ray.get(echo.remote(i), timeout=20) == i  # the GPU is not free before these are done
    open(opened, "w").close()
    assert ray.get([held, waits], timeout=20) == [None, 3]


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_wide_and_narrow_tasks_in_turns(start, cpus):
    start(num_cpus=cpus)
    wide = echo.options(num_cpus=cpus)
    for _ in range(30):
        refs = (
            [echo.remote(i) for i in range(20)]
            + [wide.remote(20)]
            + [echo.remote(i) for i in range(21, 41)]
        )
        assert ray.get(refs, timeout=40) == list(range(41))


def test_a_chain_lets_others_in(start):
    start(num_cpus=1)

    @ray.remote
    def link(x):
        time.sleep(0.005)
        return x + 1

    end = link.remote(0)
    for _ in range(400):
        end = link.remote(end)
    assert ray.get(echo.remote(5), timeout=40) == 5
    assert ray.wait([end], timeout=0)[0] == []
    assert ray.get(end, timeout=40) == 401


def test_two_shapes_share_one_cpu(start):
    """The worker's lease changes hands all the time: nobody may rely on it to look where it does
    not look any more.
    """
    start(num_cpus=1)
    half = echo.options(num_cpus=0.5)
    ray.get([echo.remote(1), half.remote(1)])
    end, late = time.monotonic() + 3, []

    def call(task, pause):
        while time.monotonic() < end and not late:
            ref = task.remote(1)
            if not ray.wait([ref], timeout=20)[0]:
                late.append(task)
            time.sleep(pause)

    threads = [threading.Thread(target=call, args=args) for args in ((echo, 0), (half, 0.002))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert late == []


def test_nothing_waits_behind_a_long_task_while_a_cpu_is_free(start, folder):
    start(num_cpus=2)

    @ray.remote
    def root():
        time.sleep(0.1)
        return 0

    @ray.remote
    def hold(x, name):
        while not os.path.exists(os.path.join(folder, name)):
            time.sleep(0.01)

    for turn in range(4):
        ray.get([echo.remote() for _ in range(4)])
        x = root.remote()
        held = [hold.remote(x, f"{turn} long"), hold.remote(x, f"{turn} short")]
        ends = [echo.remote(echo.remote(x)) for _ in range(3)]
        open(os.path.join(folder, f"{turn} short"), "w").close()
        assert ray.get(ends, timeout=20) == [0, 0, 0]
        open(os.path.join(folder, f"{turn} long"), "w").close()
        ray.get(held, timeout=20)
