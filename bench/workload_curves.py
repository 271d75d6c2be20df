"""The rows of scaling.py: one for each curve and size, named `curve_size`. Each measure gives a
figure for every line.

`python workload_curves.py CPUS`, then commands on standard input (see serve.py).
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time

import procs
from curves import ARGUMENTS, CURVES, QUEUED, SUBMITTERS, WORKERS
from serve import filled, rate, serve
from workload import CPUS, MANY, System, nothing, swallow

import ray

BUSY_NS = 100_000
# Below this, memory comes in blocks that are larger than the tasks.
LEAST_FOR_MEMORY = 1000


@ray.remote
def busy():
    """CPU time, not time: with more workers than cores, a loop of 100 us on the clock would do less
    and less work.
    """
    end = time.thread_time_ns() + BUSY_NS
    while time.thread_time_ns() < end:
        pass


@ray.remote
def nap(_value):
    time.sleep(0.1)


def wake_all(value=None):
    """As many tasks at once as there may be workers: all of them are there, and have met the value,
    when it is over.
    """
    ray.get([nap.remote(value) for _ in range(CPUS)])


@ray.remote
def hold(path):
    """Keeps its worker until the driver lets go of its lock on the file; a byte in the file says
    that it has begun.
    """
    with open(path, "ab", buffering=0) as file:
        file.write(b"x")
        fcntl.flock(file, fcntl.LOCK_SH)


@ray.remote(num_cpus=0)
class Submitter:
    """Has no CPU of its own, so all of them are left to the tasks that it submits."""

    def run(self, end):
        done, start = 0, time.monotonic()
        while time.monotonic() < end:
            ray.get([nothing.remote() for _ in range(MANY)])
            done += MANY
        return done, start, time.monotonic()


def many(function):
    def body():
        ray.get([function.remote() for _ in range(MANY)])
        return MANY

    return rate(body)


def workers(_count):
    """The number of CPUs, which is the number of workers, was given when the process was started."""
    wake_all()
    empty, full = many(nothing), many(busy)
    yield lambda seconds: {"empty": empty(seconds), "busy": full(seconds)}


def submitters(count):
    actors = [Submitter.remote() for _ in range(count)]

    def measure(seconds):
        end = time.monotonic() + seconds
        runs = ray.get([actor.run.remote(end) for actor in actors])
        done, starts, ends = zip(*runs)
        return {"nested": sum(done) / (max(ends) - min(starts))}

    # The first window must not pay for the start of the processes.
    measure(0.1)
    yield measure


def memory():
    """Bytes of all processes, this one with its references too."""
    driver = os.getpid()
    return procs.memory(driver, [*procs.family(driver, os.environ[procs.MARK]), (driver, "")])


class Round:
    """So many tasks are submitted while no worker can take them, then all workers are let go and
    all results got.
    """

    def __init__(self, count):
        self.count = count
        self.bytes = 0

    def run(self, weigh=False):
        """Seconds of each part. With `weigh`, the memory of the queued tasks is measured on the
        way.
        """
        with tempfile.NamedTemporaryFile() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            holds = [hold.remote(file.name) for _ in range(CPUS)]
            while os.stat(file.name).st_size < CPUS:
                time.sleep(0.0005)
            before = memory() if weigh else 0
            start = time.perf_counter()
            refs = [nothing.remote() for _ in range(self.count)]
            submitted = time.perf_counter()
            if weigh:
                self.bytes = memory() - before
            released = time.perf_counter()
            fcntl.flock(file, fcntl.LOCK_UN)
            ray.get(refs)
            drained = time.perf_counter()
            del refs
            dropped = time.perf_counter()
            ray.get(holds)
        return {"submit": submitted - start, "drain": drained - released, "drop": dropped - drained}

    def mean_us(self, seconds):
        """Microseconds a task, the mean of as many rounds as fit into the window, at least one."""
        end = time.perf_counter() + seconds
        rounds = [self.run()]
        while time.perf_counter() < end:
            rounds.append(self.run())
        return {
            key: sum(took[key] for took in rounds) / len(rounds) / self.count * 1e6
            for key in rounds[0]
        }


def queued(count):
    one = Round(count)
    # Only the first round meets memory that nobody has used: afterwards the system keeps it.
    once = {"first": one.run(weigh=count >= LEAST_FOR_MEMORY)["submit"] / count * 1e6}
    if one.bytes:
        once["memory"] = one.bytes / count

    def measure(seconds):
        found = {**once, **one.mean_us(seconds)}
        once.clear()
        return found

    yield measure


def arguments(size):
    array = filled(size // 8)
    ref = ray.put(array)
    # A worker that has not met an array yet imports numpy first.
    wake_all(ref)

    def call_us(argument):
        def body():
            ray.get(swallow.remote(argument))
            return 1

        per_second = rate(body)
        return lambda seconds: 1e6 / per_second(seconds)

    calls = {"bytes": call_us(array.tobytes()), "value": call_us(array), "ref": call_us(ref)}
    yield lambda seconds: {key: call(seconds) for key, call in calls.items()}


KINDS = {WORKERS: workers, SUBMITTERS: submitters, QUEUED: queued, ARGUMENTS: arguments}
ROWS = {
    f"{curve.key}_{size}": lambda kind=KINDS[curve], size=size: kind(size)
    for curve in CURVES
    for size in curve.sizes
}

if __name__ == "__main__":
    serve(System(), ROWS)
