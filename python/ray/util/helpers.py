"""Results as they come: `as_completed` and `map_unordered`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ray

__all__ = ["as_completed", "map_unordered"]


def as_completed(
    refs: "Sequence[ray.ObjectRef]", *, chunk_size: int = 10, yield_obj_refs: bool = False
) -> Iterator[Any]:
    """The results of these references, in the order in which they come.

        for result in ray.util.as_completed([f.remote(x) for x in range(10)]):
            print(result)

    Args:
        chunk_size: how many of those that are there are taken from the system at once.
        yield_obj_refs: the references themselves instead of their values.
    """
    _check("chunk_size", chunk_size)
    return _completed(list(refs), chunk_size, yield_obj_refs)


def _completed(waiting, chunk_size, yield_obj_refs):
    while waiting:
        ready, waiting = _ready(waiting, chunk_size)
        yield from ready if yield_obj_refs else map(ray.get, ready)


def _ready(waiting, most):
    """(those that are there, up to so many; the others); waits for one."""
    ready, others = ray.wait(waiting, num_returns=min(most, len(waiting)), timeout=0)
    if not ready:
        ready, others = ray.wait(waiting, num_returns=1)
    return ready, others


def map_unordered(
    fn: Any,
    items: Iterable,
    *,
    backpressure_size: "int | None" = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
) -> Iterator[Any]:
    """fn.remote(item) for each item; the results in the order in which they come.

        for result in ray.util.map_unordered(f, range(1000)):
            print(result)

    Args:
        fn: a remote function, or a method of an actor.
        items: read as results are taken.
        backpressure_size: how many may be under way at once; None: all of them.
        chunk_size, yield_obj_refs: as for as_completed.
    """
    _check("chunk_size", chunk_size)
    if backpressure_size is None:
        return as_completed(
            [fn.remote(item) for item in items],
            chunk_size=chunk_size,
            yield_obj_refs=yield_obj_refs,
        )
    _check("backpressure_size", backpressure_size)
    if backpressure_size < chunk_size:
        raise ValueError(
            f"backpressure_size ({backpressure_size}) must not be below chunk_size ({chunk_size})"
        )
    return _mapped(fn, iter(items), backpressure_size, chunk_size, yield_obj_refs)


def _mapped(fn, items, most, chunk_size, yield_obj_refs):
    import itertools

    waiting = []
    while True:
        waiting += [fn.remote(item) for item in itertools.islice(items, most - len(waiting))]
        if not waiting:
            return
        ready, waiting = _ready(waiting, chunk_size)
        yield from ready if yield_obj_refs else map(ray.get, ready)


def _check(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive int, not {value!r}")
