"""The standard library's multiprocessing.Pool, whose processes are actors.

A piece of work is a chunk of a map, or one call of apply. A function goes to the store once a map,
or once a pool if it is a plain function, and to each actor once. feeders.py has those who hand out
the work, results.py what the user waits for.
"""

import itertools
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from multiprocessing import TimeoutError
from types import FunctionType
from typing import Any

import ray
from ray.util.multiprocessing.feeders import KNOWN_MOST, Crew, PoolActor, PoolTaskError, Work
from ray.util.multiprocessing.results import (
    AsyncResult,
    IMapIterator,
    OrderedIMapIterator,
    UnorderedIMapIterator,
    count_of,
)

__all__ = [
    "AsyncResult",
    "IMapIterator",
    "OrderedIMapIterator",
    "Pool",
    "PoolTaskError",
    "TimeoutError",
    "UnorderedIMapIterator",
]

_numbers = itertools.count()
_CHUNK_S = 1e-3


class _Exported:
    """A function in the store."""

    __slots__ = ("number", "pace", "ref")

    def __init__(self, function):
        self.number = next(_numbers)
        self.ref = ray.put(function)
        self.pace = None  # seconds that the last map took, an item

    def pacing(self, items):
        """To be called when a map of these items, which begins now, is done."""
        begun = time.perf_counter()

        def done():
            self.pace = (time.perf_counter() - begun) / max(1, len(items))

        return done


class Pool:
    """A pool of processes with the methods of multiprocessing.Pool.

        from ray.util.multiprocessing import Pool

        def square(x):
            return x * x

        with Pool(4) as pool:
            print(pool.map(square, range(5)))  # [0, 1, 4, 9, 16]

    Functions may be lambdas and closures. A plain function is pickled once a pool.
    """

    def __init__(
        self,
        processes: "int | None" = None,
        initializer: "Callable | None" = None,
        initargs: "Iterable | None" = None,
        maxtasksperchild: "int | None" = None,
        context: Any = None,
        ray_address: "str | None" = None,
        ray_remote_args: "dict | None" = None,
    ):
        """
        Args:
            processes: how many; by default as many as there are CPUs.
            initializer, initargs: what each process calls when it starts.
            maxtasksperchild: after so many pieces of work a process is replaced by a new one.
            context: there is none to choose.
            ray_address: which node to join, if ray.init was not called; as its address.
            ray_remote_args: options of the actors, as Class.options takes them (num_cpus, ...).
        """
        if context is not None:
            warnings.warn("ray.util.multiprocessing.Pool has no use for a context", stacklevel=2)
        processes = count_of("processes", processes)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if not ray.is_initialized():
            ray.init(address=ray_address)
        if processes is None:
            processes = max(1, int(ray.cluster_resources().get("CPU", 1)))
        actor_class = ray.remote(PoolActor).options(**(ray_remote_args or {}))
        initargs = tuple(initargs or ())
        self._crew = Crew(
            lambda: actor_class.remote(initializer, initargs),
            processes,
            count_of("maxtasksperchild", maxtasksperchild),
        )
        self._functions = {}  # plain functions to what stands for them
        self._finish = weakref.finalize(self, self._crew.terminate)
        self._finish.atexit = False  # the session's end ends the actors
        try:
            ray.get([feeder.actor.ping.remote() for feeder in self._crew.feeders])
        except BaseException:
            self._crew.terminate()
            raise

    def apply(self, func: Callable, args: "tuple | None" = None, kwargs: "dict | None" = None):
        """func(*args, **kwargs), in one of the processes.

        pool.apply(pow, (2, 5))  # 32
        """
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable,
        args: "tuple | None" = None,
        kwargs: "dict | None" = None,
        callback: "Callable | None" = None,
        error_callback: "Callable | None" = None,
    ) -> "AsyncResult":
        """`apply`, which does not wait: its `get()` does.

        When it is done, `callback` is called with what it came to, or `error_callback` with the
        exception, in a thread of the pool.

            result = pool.apply_async(pow, (2, 5))
            print(result.get(timeout=10))
        """
        return self._submit("apply", func, (args or (), kwargs or {}), callback, error_callback)

    def map(self, func: Callable, iterable: Iterable, chunksize: "int | None" = None) -> list:
        """[func(item) for item in iterable], in chunks of so many items that the processes take.

        pool.map(abs, [-1, 2])  # [1, 2]
        """
        return self.map_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable,
        iterable: Iterable,
        chunksize: "int | None" = None,
        callback: "Callable | None" = None,
        error_callback: "Callable | None" = None,
    ) -> "AsyncResult":
        """`map`, which does not wait: its `get()` does. Callbacks as for apply_async."""
        return self._map("map", func, iterable, chunksize, callback, error_callback)

    def starmap(self, func: Callable, iterable: Iterable, chunksize: "int | None" = None) -> list:
        """[func(*item) for item in iterable].

        pool.starmap(pow, [(2, 3), (3, 2)])  # [8, 9]
        """
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(
        self,
        func: Callable,
        iterable: Iterable,
        chunksize: "int | None" = None,
        callback: "Callable | None" = None,
        error_callback: "Callable | None" = None,
    ) -> "AsyncResult":
        """`starmap`, which does not wait: its `get()` does. Callbacks as for apply_async."""
        return self._map("star", func, iterable, chunksize, callback, error_callback)

    def imap(
        self, func: Callable, iterable: Iterable, chunksize: "int | None" = 1
    ) -> "OrderedIMapIterator":
        """An iterator over func(item) for each item, in order; the iterable is read as results are
        taken.

            for result in pool.imap(abs, [-1, 2]):
                print(result)

        An exception of one item is raised where its result would come; the next ones can still be
        fetched.
        """
        return OrderedIMapIterator(self, func, iterable, chunksize)

    def imap_unordered(
        self, func: Callable, iterable: Iterable, chunksize: "int | None" = 1
    ) -> "UnorderedIMapIterator":
        """The same, in the order in which the results come."""
        return UnorderedIMapIterator(self, func, iterable, chunksize)

    def close(self) -> None:
        """No more work is taken; what there is will be done. Then the processes end."""
        self._crew.close()

    def terminate(self) -> None:
        """Ends the processes at once; what is not done fails with PoolTaskError."""
        self._finish()

    def join(self) -> None:
        """Waits for the processes to end, after close() or terminate()."""
        if self._crew.running:
            raise ValueError("Pool is still running")
        self._crew.join()

    def __enter__(self) -> "Pool":
        self._check_running()
        return self

    def __exit__(self, *exception) -> None:
        self.terminate()

    def __reduce__(self):
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")

    # ---- inside ----

    def _check_running(self):
        if not self._crew.running:
            raise ValueError("Pool not running")

    def _submit(self, how, func, payload, callback, error_callback):
        """Has a process do one piece of work."""
        self._check_running()
        result = AsyncResult(self, 1, callback, error_callback)
        self._crew.submit(Work(result._take, 0, how, self._export(func), payload))
        return result

    def _map(self, how, func, iterable, chunksize, callback, error_callback):
        self._check_running()
        items = iterable if isinstance(iterable, (list, range)) else list(iterable)
        function = self._export(func)
        size = count_of("chunksize", chunksize) or self._default_chunk(function, len(items))
        starts = range(0, len(items), size)
        result = AsyncResult(self, len(starts), callback, error_callback, function.pacing(items))
        for index, start in enumerate(starts):
            # a part of a range is a range, which is a few bytes
            work = Work(result._take, index, how, function, items[start : start + size])
            self._crew.submit(work)
        return result

    def _default_chunk(self, function, count):
        """Four chunks a process; fewer, if what is known of the function says that so many would
        take less than _CHUNK_S each. Handing over a chunk takes a tenth of that.
        """
        processes = len(self._crew.feeders)
        chunks = 4 * processes
        if function.pace is not None:
            chunks = min(chunks, max(processes, int(function.pace * count * processes / _CHUNK_S)))
        return max(1, -(-count // chunks))

    def _export(self, func):
        """What stands for a function in the store."""
        # A closure may have changed since it was pickled.
        plain = isinstance(func, FunctionType) and func.__closure__ is None
        known = self._functions.get(func) if plain else None
        if known is None:
            if not callable(func):
                raise TypeError(f"{type(func).__name__} is not callable")
            known = _Exported(func)
            if plain:
                if len(self._functions) >= KNOWN_MOST:
                    self._functions.clear()
                self._functions[func] = known
        return known
