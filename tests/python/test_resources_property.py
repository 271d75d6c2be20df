"""Over random mixes of tasks, resources are never exceeded: checked from the workers' own time
stamps.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import support

import ray

CPUS, DISKS, GPUS = 4, 2, 2

STOP_AND_GO = """
import os, signal, sys, time
while True:
    os.kill(int(sys.argv[1]), signal.SIGSTOP)
    time.sleep(0.04)
    os.kill(int(sys.argv[1]), signal.SIGCONT)
    time.sleep(0.02)
"""


@ray.remote
def span(seconds):
    """When this task began and ended, by the clock that all processes share."""
    begin = time.monotonic_ns()
    time.sleep(seconds)
    return begin, time.monotonic_ns(), ray.get_gpu_ids()


@ray.remote
class Spanning:
    def __init__(self):
        self.begin = time.monotonic_ns()

    def span(self, seconds):
        time.sleep(seconds)
        return self.begin, time.monotonic_ns(), ray.get_gpu_ids()


def most_at_once(uses):
    """The highest sum of amounts at any time, from (begin, end, amount); ends come before begins of
    the same time.
    """
    events = sorted(
        [(end, -amount) for _, end, amount in uses] + [(begin, amount) for begin, _, amount in uses]
    )
    level = most = 0
    for _, change in events:
        level += change
        most = max(most, level)
    return most


def random_demand(generator):
    return {
        "num_cpus": generator.choice([0, 0.25, 0.5, 1, 1, 1, 2, 3, 4]),
        "resources": {"disk": generator.choice([0, 0, 0, 0.5, 1, 2])},
        "num_gpus": generator.choice([0, 0, 0, 0, 0.5, 1, 2]),
    }


@pytest.mark.parametrize("seed", range(3))
def test_random_mixes(start, seed):
    generator = random.Random(seed)
    start(num_cpus=CPUS, num_gpus=GPUS, resources={"disk": DISKS})
    demands = [random_demand(generator) for _ in range(150)]
    refs = [
        span.options(max_calls=0, **demand).remote(generator.random() * 0.01) for demand in demands
    ]
    runs = [(*found, demand) for found, demand in zip(ray.get(refs, timeout=50), demands)]
    for limit, amount in (
        (CPUS, lambda demand: demand["num_cpus"]),
        (DISKS, lambda demand: demand["resources"]["disk"]),
        (GPUS, lambda demand: demand["num_gpus"]),
    ):
        assert (
            most_at_once([(begin, end, amount(demand)) for begin, end, _, demand in runs]) <= limit
        )
    for gpu in range(GPUS):
        mine = [
            (begin, end, min(demand["num_gpus"], 1))
            for begin, end, ids, demand in runs
            if gpu in ids
        ]
        assert most_at_once(mine) <= 1
    for _, _, ids, demand in runs:
        assert len(ids) == (1 if 0 < demand["num_gpus"] < 1 else demand["num_gpus"])


def test_everything_is_used(start, folder):
    """The opposite fault: tasks that fit are not left waiting."""
    start(num_cpus=CPUS)
    meet = ray.remote(support.meet)
    for wave in range(6):  # with some that wait behind those that meet
        ray.get([meet.remote(folder, wave, CPUS) for _ in range(2 * CPUS)], timeout=50)


def test_mixes_with_actors_and_crashes(start):
    generator = random.Random(7)
    start(num_cpus=CPUS, resources={"disk": DISKS})

    @ray.remote(max_retries=2)
    def crash():
        import os

        os._exit(1)

    uses, pending, actors = [], [], []
    for i in range(60):
        kind = generator.random()
        if kind < 0.15:
            actor = Spanning.options(num_cpus=1, resources={"disk": 0.5}).remote()
            pending.append((actor.span.remote(0.02), 1, 0.5))
            actors.append(actor)
            if len(actors) > 2:
                ray.kill(actors.pop(0))
        elif kind < 0.3:
            crash.options(num_cpus=generator.choice([1, 2])).remote()
        else:
            cpus, disk = generator.choice([0.5, 1, 2]), generator.choice([0, 0, 1])
            pending.append(
                (span.options(num_cpus=cpus, resources={"disk": disk}).remote(0.005), cpus, disk)
            )
        if i % 10 == 9:
            actors.clear()
    for ref, cpus, disk in pending:
        try:
            begin, end, _ = ray.get(ref, timeout=50)
        except ray.exceptions.RayActorError:  # killed before its call ran
            continue
        uses.append((begin, end, cpus, disk))
    assert len(uses) > 30
    assert most_at_once([(begin, end, cpus) for begin, end, cpus, _ in uses]) <= CPUS
    assert most_at_once([(begin, end, disk) for begin, end, _, disk in uses]) <= DISKS


def test_blocked_tasks_lend_no_more_than_they_have(start):
    """While a task waits in get, its CPUs serve others."""
    start(num_cpus=2)

    @ray.remote
    def outer():
        inner = ray.get(span.remote(0.01))
        time.sleep(0.02)
        return inner

    found = ray.get([outer.remote() for _ in range(12)], timeout=50)
    assert most_at_once([(begin, end, 1) for begin, end, _ in found]) <= 2


def test_what_waited_and_goes_on_is_paid_back(start, tmp_path):
    """Who waited takes its CPU back at once, so more are used than there are until a task ends,
    whatever follows it.
    """
    start(num_cpus=2)

    @ray.remote(num_cpus=1)
    class Waiting:
        def go_on(self, refs):
            ray.get(refs)
            for _ in range(3):
                ray.available_resources()  # so the daemon knows
            begin = time.monotonic_ns()
            time.sleep(0.6)
            return begin, time.monotonic_ns(), 1

    @ray.remote
    def exists(path):
        while not os.path.exists(path):
            time.sleep(0.01)

    went_on = Waiting.remote().go_on.remote([exists.remote(str(tmp_path / "go"))])
    tasks = [span.remote(0.03) for _ in range(20)]
    ray.wait(tasks, num_returns=4, timeout=50)  # both CPUs have tasks, and the actor's was lent
    (tmp_path / "go").touch()
    while not ray.wait([went_on], timeout=0.03)[0]:  # there are always more, until it is over
        tasks += [span.remote(0.03) for _ in range(3)]
    actor = ray.get(went_on)
    begun = [
        (begin, end, 1)
        for begin, end, _ in ray.get(tasks, timeout=50)
        if actor[0] < begin < actor[1]
    ]
    assert len(begun) > 2
    assert most_at_once([actor, *begun]) <= 2


def test_a_daemon_that_is_late_lends_nothing_twice(start):
    """Workers take tasks without the daemon; one whose CPU was lent may not before the daemon knows
    that it goes on.
    """
    start(num_cpus=2)
    daemon = support.daemon_pid()

    @ray.remote
    def outer():
        begin, end, _ = ray.get(span.remote(0.01))
        time.sleep(0.02)
        return begin, end, 1

    stopper = subprocess.Popen([sys.executable, "-c", STOP_AND_GO, str(daemon)])
    try:
        for _ in range(20):
            assert most_at_once(ray.get([outer.remote() for _ in range(12)], timeout=50)) <= 2
    finally:
        stopper.kill()
        stopper.wait()
        os.kill(daemon, signal.SIGCONT)
