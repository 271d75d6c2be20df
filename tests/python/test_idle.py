"""An idle system is idle: none of its processes wakes up, not even once."""

import os

import support

import ray


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

    def look():
        found = support.switches(pid for pid, _ in support.processes())
        assert len(found) >= 3
        return found

    # whatever is still in hand comes before: preloading, surplus workers that end
    assert support.is_quiet(look, 3), look()
    del kept


def test_the_drivers_own_thread_sleeps_too(start):
    others = set(os.listdir("/proc/self/task"))  # the test runner's
    start(num_cpus=1)
    ray.get(ray.remote(abs).remote(-1))

    def look():
        found = support.switches([os.getpid()])
        return {key: found[key] for key in found if str(key[1]) not in others}

    assert look()
    assert support.is_quiet(look, 1.5), look()


def test_a_blocked_get_hardly_wakes_up(start, folder):
    start(num_cpus=1)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")

    def own():
        return support.switches([os.getpid()])[os.getpid(), os.getpid()]

    ref = late.remote()
    ray.wait([ref], timeout=0.2)
    before = own()
    ray.wait([ref], timeout=2)
    assert own() - before <= 20
    support.touch(f"{folder}/go")
    ray.get(ref)
