"""An idle system is idle: none of its processes wakes up, not even once."""

import os
import time

import support

import ray


def switches():
    """Voluntary context switches of every thread of every process of the session."""
    found = {}
    for pid, _ in support.processes():
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/status") as file:
                for line in file:
                    if line.startswith("voluntary_ctxt_switches"):
                        found[pid, thread] = int(line.split()[1])
    return found


def quiet_for(seconds):
    before = switches()
    time.sleep(seconds)
    after = switches()
    return len(before) >= 3 and before == after, before, after


def test_nothing_wakes_up_while_nothing_is_asked(start):
    start(num_cpus=2)

    @ray.remote
    def work(x):
        print(x)
        print("a line without an end", end="")
        return x

    @ray.remote
    class Actor:
        def hello(self):
            return ray.get(work.remote(1))

    actor = Actor.remote()
    assert ray.get([work.remote(i) for i in range(20)]) == list(range(20))
    assert ray.get(actor.hello.remote()) == 1
    kept = ray.put(b"x" * 1_000_000)
    time.sleep(3)  # whatever is still in hand: preloading, surplus workers that end
    still, before, after = quiet_for(3)
    assert still, (before, after)
    del kept


def test_the_drivers_own_thread_sleeps_too(start):
    others = set(os.listdir("/proc/self/task"))  # the test runner's
    start(num_cpus=1)
    ray.get(ray.remote(abs).remote(-1))
    time.sleep(1)

    def own():
        found = {}
        for thread in set(os.listdir("/proc/self/task")) - others:
            with open(f"/proc/self/task/{thread}/status") as file:
                found[thread] = [line for line in file if "voluntary" in line][0]
        return found

    before = own()
    assert before
    time.sleep(1.5)
    assert own() == before


def test_a_blocked_get_hardly_wakes_up(start, folder):
    start(num_cpus=1)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")

    def own():
        with open(f"/proc/self/task/{os.getpid()}/status") as file:
            return int([line for line in file if line.startswith("voluntary")][0].split()[1])

    ref = late.remote()
    ray.wait([ref], timeout=0.2)
    before = own()
    ray.wait([ref], timeout=2)
    assert own() - before <= 20
    support.touch(f"{folder}/go")
    ray.get(ref)
