"""Typical programs, which checkers must understand without a complaint (test_types.py); it also
runs.
"""

import asyncio
from collections.abc import Iterator

from typing_extensions import assert_type

import ray
from ray import ObjectRef
from ray.actor import ActorClass, ActorHandle
from ray.util import ActorPool
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote
def square(x: int) -> int:
    return x * x


@ray.remote(num_cpus=1, max_retries=2, name="adds")
def add(x: int, y: int = 1, *, label: str = "") -> str:
    return f"{label}{x + y}"


@ray.remote(num_returns=2)
def both(x: int) -> tuple[int, str]:
    return x, str(x)


@ray.remote
def count(n: int) -> Iterator[int]:
    yield from range(n)


@ray.remote
def untyped(x):
    return x


@ray.remote
class Counter:
    def __init__(self, start: int = 0):
        self.n = start

    def add(self, k: int) -> int:
        self.n += k
        return self.n

    @ray.method(num_returns=2)
    def two(self) -> tuple[int, int]:
        return self.n, self.n

    @ray.method
    def shown(self) -> str:
        return str(self.n)


@ray.remote(num_cpus=0, max_concurrency=4)
class Asks:
    async def ask(self, ref: "list[ObjectRef[int]]") -> int:
        return await ref[0]


def tasks() -> None:
    ref = square.remote(2)
    assert_type(ref, ObjectRef[int])
    assert_type(ray.get(ref), int)
    assert_type(ray.get(ref, timeout=10), int)
    assert_type(ray.get([square.remote(i) for i in range(4)]), list[int])
    assert_type(ray.get(add.remote(1, 2, label="x")), str)
    assert_type(ray.get(add.remote(x=1)), str)
    assert_type(ray.get(square.remote(ref)), int)
    assert_type(ray.get(add.remote(ref, ref)), str)
    assert_type(ray.get(add.remote(1, ref)), str)
    assert_type(ray.get(square.options(num_cpus=1, name="other").remote(3)), int)
    first, second = both.remote(1)
    print(ray.get([first, second]))
    one, two = square.options(num_returns=1).remote(1), both.options(num_returns=1).remote(2)
    print(ray.get(one), ray.get(two), ray.get(untyped.remote("a")))


def objects() -> None:
    assert_type(ray.put(1.5), ObjectRef[float])
    assert_type(ray.get(ray.put("x")), str)
    ready, rest = ray.wait([square.remote(1), square.remote(2)], num_returns=1, timeout=5)
    assert_type(ready, list[ObjectRef[int]])
    assert_type(rest, list[ObjectRef[int]])
    assert_type(ray.put(1).hex(), str)
    assert_type(ray.put(1).future().result(), int)
    ray.cancel(square.remote(1), force=False)


def generators() -> None:
    for ref in count.remote(3):
        assert_type(ref, ObjectRef[int])
        assert_type(ray.get(ref), int)


async def awaited() -> int:
    value = await square.remote(4)
    assert_type(value, int)
    async for ref in count.remote(2):
        assert_type(await ref, int)
    return value


class Store:
    def get(self, key: str) -> str:
        return key


StoreActor = ray.remote(Store)  # then `Store` is still a class, for annotations


def look(store: ActorHandle[Store], key: str) -> str:
    found: str = ray.get(store.get.remote(key))
    return found


def actors() -> None:
    assert_type(StoreActor, ActorClass[Store])
    assert_type(StoreActor.options(num_cpus=0).remote(), ActorHandle[Store])
    print(look(StoreActor.remote(), "key"))
    counter = Counter.remote(1)
    print(ray.get(counter.add.remote(1)), ray.get(counter.two.options(num_returns=1).remote()))
    print(ray.get(Asks.remote().ask.remote([ray.put(1)])), ray.get(counter.shown.remote()))
    named = Counter.options(name="n", get_if_exists=True, max_restarts=-1).remote()
    print(ray.get(ray.get_actor("n").add.remote(2)))
    pool = ActorPool([named])
    print(list(pool.map(lambda actor, value: actor.add.remote(value), [1, 2])))
    ray.kill(named, no_restart=True)


def placed() -> None:
    group = placement_group([{"CPU": 1}], strategy="PACK")
    ray.get(group.ready())
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    print(ray.get(square.options(scheduling_strategy=strategy).remote(5)))
    remove_placement_group(group)


def main() -> None:
    ray.init(address="local", num_cpus=4, namespace="types")
    tasks()
    objects()
    generators()
    asyncio.run(awaited())
    actors()
    placed()
    try:
        ray.get(square.remote(1), timeout=5)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.RayTaskError):
        pass
    print(ray.cluster_resources()["CPU"], ray.get_runtime_context().get_job_id())
    ray.shutdown()


if __name__ == "__main__":
    main()
