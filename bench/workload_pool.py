"""The rows that multiprocessing.Pool has an answer to. It has no objects, no actors, and no tasks
that wait for tasks.

Tasks are submitted one by one (apply, apply_async): map sends many calls in one message, which is
another thing, and a row of its own.
"""

from __future__ import annotations

import platform
import sys
import time
from multiprocessing import get_context

from serve import filled, median_us, rate, serve

MANY = 1000
CPUS = int(sys.argv[1]) if len(sys.argv) > 1 else 2


def nothing():
    return None


def swallow(value):
    return None


def echo(value):
    return value


def square(x):
    return x * x


class System:
    version = platform.python_version()

    def __init__(self):
        self.pool = None

    def init(self):
        self.pool = get_context("fork").Pool(CPUS)

    def first(self):
        self.pool.apply(nothing)

    def put(self, array):
        raise NotImplementedError("a pool keeps no objects")

    def stop(self):
        self.pool.terminate()
        self.pool.join()


SYSTEM = System()


def all_at_once(count, function, *arguments):
    for answer in [SYSTEM.pool.apply_async(function, arguments) for _ in range(count)]:
        answer.get()
    return count


def tasks_one():
    def body():
        for _ in range(100):
            SYSTEM.pool.apply(nothing)
        return 100

    yield rate(body)


def tasks_apart():
    all_at_once(100, nothing)
    yield median_us(lambda: SYSTEM.pool.apply(nothing), 300e-6)


def tasks_many():
    yield rate(lambda: all_at_once(MANY, nothing))


def tasks_kilobyte():
    argument = bytes(range(256)) * 4
    yield rate(lambda: all_at_once(MANY, swallow, argument))


def tasks_megabyte():
    array = filled(125_000)
    yield rate(lambda: all_at_once(50, echo, array))


def drain(count):
    def row():
        def measure(_seconds):
            start = time.perf_counter()
            all_at_once(count, nothing)
            return time.perf_counter() - start

        yield measure

    return row


def pool_map():
    def body():
        SYSTEM.pool.map(square, range(10_000))
        return 10_000

    yield rate(body)


ROWS = {
    "tasks_one": tasks_one,
    "tasks_apart": tasks_apart,
    "tasks_many": tasks_many,
    "tasks_kilobyte": tasks_kilobyte,
    "tasks_megabyte": tasks_megabyte,
    "drain": drain(100_000),
    "drain_tenth": drain(10_000),
    "pool_map": pool_map,
}

if __name__ == "__main__":
    serve(SYSTEM, ROWS)
