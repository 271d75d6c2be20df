"""The rows, written against the API that Mobula and Ray share: the same file is run by either one's
Python.

`python workload.py CPUS`, then commands on standard input (see serve.py).
"""

from __future__ import annotations

import asyncio
import sys
import time

import workload_carry
import workload_node
import workload_util
from serve import filled, median_us, rate, serve

import ray

MANY = 1000
CPUS = int(sys.argv[1]) if len(sys.argv) > 1 else 2


@ray.remote
def nothing():
    return None


@ray.remote
def swallow(value):
    return None


@ray.remote
def echo(value):
    return value


@ray.remote
def plus_one(number):
    return number + 1


@ray.remote
def submit(count):
    ray.get([nothing.remote() for _ in range(count)])


@ray.remote
def sleep():
    time.sleep(1000)


@ray.remote
def box(count):
    return [ray.put(1) for _ in range(count)]


@ray.remote
def count(number):
    # Ray can't run a `yield from` of what has no send().
    for i in range(number):  # noqa: UP028
        yield i


class Plain:
    def nothing(self):
        return None

    def count(self, number):
        for i in range(number):  # noqa: UP028
            yield i


class Async:
    async def nothing(self):
        return None

    async def count(self, number):
        for i in range(number):
            yield i


class Grouped:
    @ray.method(concurrency_group="io")
    def nothing(self):
        return None


class System:
    """Starts and stops whichever system this Python has under the name of ray."""

    version = ray.__version__

    def init(self):
        ray.init(num_cpus=CPUS, include_dashboard=False, log_to_driver=False)

    def first(self):
        ray.get(nothing.remote())

    def put(self, array):
        ray.put(array)

    def stop(self):
        ray.shutdown()


def tasks_one():
    def body():
        for _ in range(100):
            ray.get(nothing.remote())
        return 100

    yield rate(body)


def tasks_apart():
    ray.get([nothing.remote() for _ in range(100)])
    yield median_us(lambda: ray.get(nothing.remote()), 300e-6)


def tasks_many():
    def body():
        ray.get([nothing.remote() for _ in range(MANY)])
        return MANY

    yield rate(body)


def tasks_kilobyte():
    argument = bytes(range(256)) * 4

    def body():
        ray.get([swallow.remote(argument) for _ in range(MANY)])
        return MANY

    yield rate(body)


def tasks_megabyte():
    array = filled(125_000)

    def body():
        ray.get([echo.remote(array) for _ in range(50)])
        return 50

    yield rate(body)


def tasks_chain():
    def body():
        number = 0
        for _ in range(100):
            number = plus_one.remote(number)
        if ray.get(number) != 100:
            raise RuntimeError("the chain lost a link")
        return 100

    yield rate(body)


def tasks_nested():
    def body():
        ray.get([submit.remote(100) for _ in range(CPUS)])
        return 100 * CPUS

    yield rate(body)


def drain(count):
    """Seconds from the first submission to the last result; its length is its own, whatever the
    window's.
    """

    def row():
        def measure(_seconds):
            start = time.perf_counter()
            ray.get([nothing.remote() for _ in range(count)])
            return time.perf_counter() - start

        yield measure

    return row


def cancel(count):
    """Seconds to cancel so many tasks that wait for an argument, one by one, until all have ended."""

    def row():
        def measure(_seconds):
            argument = sleep.remote()
            waiting = [swallow.remote(argument) for _ in range(count)]
            start = time.perf_counter()
            for ref in waiting:
                ray.cancel(ref)
            ready, _ = ray.wait(waiting, num_returns=count)
            took = time.perf_counter() - start
            ray.cancel(argument, force=True)
            if len(ready) != count:
                raise RuntimeError("some were not cancelled")
            return took

        yield measure

    return row


def actor_one(cls):
    def row():
        actor = ray.remote(cls).remote()

        def body():
            for _ in range(100):
                ray.get(actor.nothing.remote())
            return 100

        yield rate(body)
        ray.kill(actor)

    return row


def actor_many(cls):
    def row():
        actor = ray.remote(cls).remote()

        def body():
            ray.get([actor.nothing.remote() for _ in range(MANY)])
            return MANY

        yield rate(body)
        ray.kill(actor)

    return row


def items(make):
    def row():
        generate = make()

        def body():
            taken = 0
            for ref in generate(10 * MANY):
                taken += ray.get(ref) == taken
            if taken != 10 * MANY:
                raise RuntimeError("items were lost")
            return taken

        yield rate(body)

    return row


def items_of_task():
    return count.remote


def items_of_actor():
    return ray.remote(Plain).remote().count.remote


def items_async():
    actor = ray.remote(Async).remote()

    async def read():
        taken = 0
        async for ref in actor.count.remote(10 * MANY):
            taken += await ref == taken
        return taken

    def body():
        if asyncio.run(read()) != 10 * MANY:
            raise RuntimeError("items were lost")
        return 10 * MANY

    yield rate(body)
    ray.kill(actor)


def groups():
    actor = ray.remote(concurrency_groups={"io": 2})(Grouped).remote()

    def body():
        ray.get([actor.nothing.remote() for _ in range(MANY)])
        return MANY

    yield rate(body)
    ray.kill(actor)


def placement(count, awaited):
    """Groups of one bundle, `count` between two looks at the clock."""

    def row():
        def body():
            for _ in range(count):
                group = ray.util.placement_group([{"CPU": 1}])
                if awaited:
                    ray.get(group.ready())
                ray.util.remove_placement_group(group)
            ray.available_resources()  # the node has heard of the last removal
            return count

        yield rate(body)

    return row


def bundle_many():
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"CPU": CPUS}])
    ray.get(group.ready())
    task = nothing.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0))

    def body():
        ray.get([task.remote() for _ in range(MANY)])
        return MANY

    yield rate(body)
    ray.util.remove_placement_group(group)


def environments():
    """Variables of its own each: workers of one can't serve the other."""
    made = 0

    def body():
        nonlocal made
        made += 1
        ray.get(nothing.options(runtime_env={"env_vars": {"BENCH": str(made)}}).remote())
        return 1

    yield rate(body)


def environment():
    task = nothing.options(runtime_env={"env_vars": {"BENCH": "again"}})
    ray.get(task.remote())

    def body():
        ray.get(task.remote())
        return 1

    yield rate(body)


def actors_created():
    remote = ray.remote(Plain)

    def measure(seconds):
        made, took, limit = 0, 0.0, time.perf_counter() + 3 * seconds
        # The pauses between batches count towards the limit only.
        while made == 0 or (took < seconds and time.perf_counter() < limit):
            start = time.perf_counter()
            actors = [remote.remote() for _ in range(10)]
            ray.get([actor.nothing.remote() for actor in actors])
            took += time.perf_counter() - start
            made += len(actors)
            for actor in actors:
                ray.kill(actor)
            # The next batch must not pay for this one's funeral.
            time.sleep(0.2)
        return made / took

    yield measure


def put_small():
    def body():
        for _ in range(1000):
            ray.put(1)
        return 1000

    yield rate(body)


def get_small():
    ref = ray.put(1)

    def body():
        for _ in range(1000):
            ray.get(ref)
        return 1000

    yield rate(body)


def put_large():
    array = filled((200 << 20) // 8)

    def body():
        ray.put(array)
        return array.nbytes

    per_second = rate(body)
    yield lambda seconds: per_second(seconds) / 1e9


def get_large():
    array = filled((200 << 20) // 8)
    ref = ray.put(array)

    def body():
        for _ in range(1000):
            ray.get(ref)
        return 1000

    yield rate(body)


def wait_each():
    def body():
        waiting = [nothing.remote() for _ in range(MANY)]
        while waiting:
            _, waiting = ray.wait(waiting)
        return 1

    yield rate(body)


def get_refs():
    ref = box.remote(10_000)

    def body():
        if len(ray.get(ref)) != 10_000:
            raise RuntimeError("refs were lost")
        return 1

    yield rate(body)


ROWS = {
    "tasks_one": tasks_one,
    "tasks_apart": tasks_apart,
    "tasks_many": tasks_many,
    "tasks_kilobyte": tasks_kilobyte,
    "tasks_megabyte": tasks_megabyte,
    "tasks_chain": tasks_chain,
    "tasks_nested": tasks_nested,
    "drain": drain(100_000),
    "drain_tenth": drain(10_000),
    "cancel": cancel(10_000),
    "actor_one": actor_one(Plain),
    "actor_many": actor_many(Plain),
    "async_one": actor_one(Async),
    "async_many": actor_many(Async),
    "items": items(items_of_task),
    "items_actor": items(items_of_actor),
    "items_async": items_async,
    "groups": groups,
    "actors_created": actors_created,
    "placement": placement(100, False),
    "placement_ready": placement(100, True),
    "bundle_many": bundle_many,
    "environments": environments,
    "environment": environment,
    "put_small": put_small,
    "get_small": get_small,
    "put_large": put_large,
    "get_large": get_large,
    "wait_each": wait_each,
    "get_refs": get_refs,
    **workload_carry.rows(),
    **workload_util.rows(CPUS),
    **workload_node.rows(CPUS),
}

if __name__ == "__main__":
    serve(System(), ROWS)
