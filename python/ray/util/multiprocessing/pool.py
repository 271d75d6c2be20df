"""The standard library's multiprocessing.Pool, whose processes are actors.

Each process of a pool has a thread here, its feeder. A feeder takes the next piece of work from
the pool's queue, calls its actor with it, waits, and hands over what came. So work goes to whoever
is free, and nothing is assigned ahead. A feeder whose actor has died, or has done as much as
maxtasksperchild says, makes another one.

A piece of work is a chunk of a map, or one call of apply. A function goes to the store once a map,
or once a pool if it is a plain function, and to each actor once.
"""

import itertools
import os
import threading
import time
import warnings
import weakref
from _queue import Empty, SimpleQueue
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import TimeoutError
from types import FunctionType
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

__all__ = ["AsyncResult", "IMapIterator", "OrderedIMapIterator", "Pool", "PoolTaskError"]
__all__ += ["TimeoutError", "UnorderedIMapIterator"]

_KNOWN_MOST = 100  # functions that an actor keeps
_AHEAD = 32  # chunks of an imap whose results nobody has asked for yet, or 4 a process
_numbers = itertools.count()


class PoolTaskError(Exception):
    """A piece of work could not be done because the pool was terminated."""


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
        processes = _count("processes", processes)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if not ray.is_initialized():
            ray.init(address=ray_address)
        if processes is None:
            processes = max(1, int(ray.cluster_resources().get("CPU", 1)))
        actor_class = ray.remote(PoolActor).options(**(ray_remote_args or {}))
        initargs = tuple(initargs or ())
        self._shared = _Shared(
            lambda: actor_class.remote(initializer, initargs),
            processes,
            _count("maxtasksperchild", maxtasksperchild),
        )
        self._functions = {}  # plain functions to what stands for them
        self._finish = weakref.finalize(self, self._shared.terminate)
        self._finish.atexit = False  # the session's end ends the actors
        try:
            ray.get([feeder.actor.ping.remote() for feeder in self._shared.feeders])
        except BaseException:
            self._shared.terminate()
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
        self._check_running()
        result = AsyncResult(self, 1, callback, error_callback, single=True)
        work = _Work(result._take, 0, "apply", self._export(func), (args or (), kwargs or {}))
        self._shared.submit(work)
        return result

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
        self._shared.close()

    def terminate(self) -> None:
        """Ends the processes at once; what is not done fails with PoolTaskError."""
        self._finish()

    def join(self) -> None:
        """Waits for the processes to end, after close() or terminate()."""
        if self._shared.running:
            raise ValueError("Pool is still running")
        self._shared.join()

    def __enter__(self) -> "Pool":
        self._check_running()
        return self

    def __exit__(self, *exception) -> None:
        self.terminate()

    def __reduce__(self):
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")

    # ---- inside ----

    def _check_running(self):
        if not self._shared.running:
            raise ValueError("Pool not running")

    def _map(self, how, func, iterable, chunksize, callback, error_callback):
        self._check_running()
        items = iterable if isinstance(iterable, (list, range)) else list(iterable)
        size = _count("chunksize", chunksize) or self._default_chunk(len(items))
        starts = range(0, len(items), size)
        result = AsyncResult(self, len(starts), callback, error_callback)
        function = self._export(func) if items else None
        for index, start in enumerate(starts):
            chunk = list(items[start : start + size])
            self._shared.submit(_Work(result._take, index, how, function, chunk))
        return result

    def _default_chunk(self, count):
        return max(1, -(-count // (4 * len(self._shared.feeders))))

    def _export(self, func):
        """(number, reference) of a function in the store."""
        # A closure may have changed since it was pickled.
        plain = isinstance(func, FunctionType) and func.__closure__ is None
        known = self._functions.get(func) if plain else None
        if known is None:
            if not callable(func):
                raise TypeError(f"{type(func).__name__} is not callable")
            known = next(_numbers), ray.put(func)
            if plain:
                if len(self._functions) >= _KNOWN_MOST:
                    self._functions.clear()
                self._functions[func] = known
        return known


def _count(name, value):
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int or None, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be 1 or more, not {value}")
    return value


class _Work:
    """A piece of work: `take(index, value, error)` gets what comes of it."""

    __slots__ = ("function", "how", "index", "payload", "take")

    def __init__(self, take, index, how, function, payload):
        self.take = take
        self.index = index
        self.how = how
        self.function = function
        self.payload = payload


class _Shared:
    """What a pool and its feeders share; it does not hold the pool, so that one that nobody uses
    any more ends.
    """

    def __init__(self, make_actor, processes, limit):
        self.make_actor = make_actor
        self.limit = limit
        self.work = SimpleQueue()  # of _Work; None: one feeder is to end
        self.running = True  # more work is taken
        self.killed = False
        self.lock = threading.Lock()
        self.unread = weakref.WeakSet()  # imaps whose iterables have more
        self.feeders = [_Feeder(self) for _ in range(processes)]
        self.fed = False

    def submit(self, work):
        if not self.fed:
            with self.lock:
                if not self.fed:
                    for feeder in self.feeders:
                        feeder.start()
                    self.fed = True
        self.work.put(work)
        if self.killed:
            self._fail_all()

    def close(self):
        with self.lock:
            if self.running:
                self.running = False
                self._end_if_read()

    def read_out(self, iterator):
        """The iterable of an imap has no more, or nobody wants the rest."""
        with self.lock:
            self.unread.discard(iterator)
            if not self.running and not self.killed:
                self._end_if_read()

    def _end_if_read(self):
        if not self.unread:
            for _ in self.feeders:
                self.work.put(None)

    def terminate(self):
        with self.lock:
            self.running = False
            self.killed = True
        self._fail_all()
        for feeder in self.feeders:
            self.work.put(None)
            feeder.kill()

    def _fail_all(self):
        while True:
            try:
                work = self.work.get_nowait()
            except Empty:
                return
            if work is not None:
                work.take(work.index, None, PoolTaskError("the pool was terminated"))

    def join(self):
        for iterator in list(self.unread):
            iterator._read_all()
        for feeder in self.feeders:
            if feeder.is_alive():
                feeder.join()
            elif not self.fed:
                feeder.kill()


class _Feeder(threading.Thread):
    """Feeds one process of a pool."""

    def __init__(self, shared):
        super().__init__(name="ray pool", daemon=True)
        self._shared = shared
        self.actor = shared.make_actor()
        self._known = set()  # functions that the actor has
        self._done = 0  # pieces of work of this actor

    def run(self):
        take = self._shared.work.get
        while (work := take()) is not None:
            value = error = None
            try:
                value = self._do(work)
            except BaseException as caught:
                error = caught
            work.take(work.index, value, _plain(error))
            del work, value, error
        self._end_actor()

    def _do(self, work):
        if self._shared.killed:
            raise PoolTaskError("the pool was terminated")
        actor = self.actor
        if actor is None:
            actor = self.actor = self._shared.make_actor()
        number, function = work.function
        method = getattr(actor, work.how)
        known = number in self._known
        try:
            answer = ray.get(method.remote(number, None if known else function, work.payload))
            if answer is None:  # it has forgotten it
                answer = ray.get(method.remote(number, function, work.payload))
        except RayActorError:
            self._forget_actor()
            if self._shared.killed:
                raise PoolTaskError("the pool was terminated") from None
            raise
        if not known:
            self._known.add(number)
        self._done += 1
        if self._done == self._shared.limit:
            self._end_actor()
        return answer[0]

    def _forget_actor(self):
        self.actor = None
        self._known.clear()
        self._done = 0

    def _end_actor(self):
        """Lets it end as a program does; the next piece of work makes another one."""
        if self.actor is not None and not self._shared.killed:
            self.actor.__ray_terminate__.remote()
        self._forget_actor()

    def kill(self):
        actor = self.actor
        if actor is not None and ray.is_initialized():
            ray.kill(actor)


class _RemoteTraceback(Exception):
    """The cause that Python shows of an exception which a worker raised."""

    def __str__(self):
        return f"\n{self.args[0]}"


def _plain(error):
    """What the user's function raised, with the worker's traceback as its cause."""
    if not isinstance(error, RayTaskError):
        return error
    told = error._ray_plain()
    if told.cause is None:
        return error
    told.cause.__cause__ = _RemoteTraceback(told.traceback_str)
    return told.cause


class PoolActor:
    """A process of a pool. Each method answers with a tuple of one, or None: it does not know the
    function.
    """

    def __init__(self, initializer=None, initargs=()):
        self._functions = {}
        if initializer is not None:
            initializer(*initargs)

    def ping(self):
        """Answers once the process is ready."""

    def _find(self, number, function):
        if function is None:
            return self._functions.get(number)
        if len(self._functions) >= _KNOWN_MOST:
            self._functions.clear()
        self._functions[number] = function
        return function

    def apply(self, number, function, payload):
        """One call, of (args, kwargs)."""
        function = self._find(number, function)
        return None if function is None else (function(*payload[0], **payload[1]),)

    def map(self, number, function, payload):
        """A call for each item."""
        function = self._find(number, function)
        return None if function is None else ([function(item) for item in payload],)

    def star(self, number, function, payload):
        """A call for each item, which is a tuple of arguments."""
        function = self._find(number, function)
        return None if function is None else ([function(*item) for item in payload],)

    def each(self, number, function, payload):
        """A call for each item; an exception is the result of that item alone."""
        function = self._find(number, function)
        return None if function is None else ([_result_of(function, item) for item in payload],)


class _Raised:
    """An exception in the place of a result."""

    def __init__(self, text, carried):
        self.told = text, carried

    def error(self):
        from ray._private.errors import load_error

        return _plain(load_error("task", self.told))


def _result_of(function, item):
    try:
        return function(item)
    except Exception as error:
        from ray._private.errors import make_error

        name = getattr(function, "__name__", type(function).__name__)
        return _Raised(*make_error(error, name, os.getpid(), None))


class AsyncResult:
    """What apply_async, map_async and starmap_async return.

    result = pool.map_async(abs, [-1, 2])
    result.wait(10)
    if result.ready() and result.successful():
        print(result.get())
    """

    def __init__(self, pool, chunks, callback=None, error_callback=None, single=False):
        self._pool = pool  # which goes on for as long as somebody waits
        self._callbacks = callback, error_callback
        self._single = single
        self._values = [None] * chunks
        self._error = None
        self._left = chunks
        self._lock = threading.Lock()
        self._there = threading.Event()
        if chunks == 0:
            self._finish()

    def _take(self, index, value, error):
        with self._lock:
            self._values[index] = value
            if error is not None and self._error is None:
                self._error = error
            self._left -= 1
            last = self._left == 0
        if last:
            self._finish()

    def _finish(self):
        if self._error is None and not self._single:
            self._values = list(itertools.chain.from_iterable(self._values))
        callback, error_callback = self._callbacks
        self._callbacks = self._pool = None
        try:
            if self._error is not None:
                if error_callback is not None:
                    error_callback(self._error)
            elif callback is not None:
                callback(self._value())
        except Exception:  # of the user's: told, and the pool goes on
            import traceback

            traceback.print_exc()
        finally:
            self._there.set()

    def _value(self):
        return self._values[0] if self._single else self._values

    def wait(self, timeout: "float | None" = None) -> None:
        """Waits until it is done, or for so many seconds."""
        self._there.wait(timeout)

    def get(self, timeout: "float | None" = None) -> Any:
        """The result, or the exception raised; TimeoutError after so many seconds."""
        if not self._there.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value()

    def ready(self) -> bool:
        """Whether it is done."""
        return self._there.is_set()

    def successful(self) -> bool:
        """Whether it was done without an exception; ValueError if it is not done."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._error is None


class IMapIterator:
    """What imap and imap_unordered return: an iterator with `next(timeout=seconds)`."""

    def __init__(self, pool, func, iterable, chunksize=1):
        pool._check_running()
        self._shared = pool._shared
        self._pool = pool  # until all is read and done
        self._function = pool._export(func)
        self._items = iter(iterable)
        self._size = _count("chunksize", chunksize) or 1
        self._ahead = max(_AHEAD, 4 * len(self._shared.feeders))
        self._sent = 0  # chunks
        self._taken = 0  # chunks whose results were begun to be read
        self._came = SimpleQueue()  # of (index, values, error)
        self._buffer = iter(())
        self._shared.unread.add(self)
        self._read()

    def _read(self):
        """Keeps so many chunks ahead of the reader."""
        while self._items is not None and self._sent - self._taken < self._ahead:
            chunk = list(itertools.islice(self._items, self._size))
            if not chunk:
                self._end_reading()
                return
            work = _Work(self._came_back(), self._sent, "each", self._function, chunk)
            self._shared.submit(work)
            self._sent += 1

    def _came_back(self):
        # It must not hold the iterator: nobody may want the rest.
        put = self._came.put
        return lambda index, values, error: put((index, values, error))

    def _read_all(self):
        self._ahead = float("inf")
        self._read()

    def _end_reading(self):
        if self._items is not None:
            self._items = None
            self._shared.read_out(self)

    def __del__(self):
        if getattr(self, "_items", None) is not None:
            self._end_reading()

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: "float | None" = None) -> Any:
        """The next result; TimeoutError if it does not come within so many seconds."""
        for value in self._buffer:
            if type(value) is _Raised:
                raise value.error()
            return value
        if self._items is None and self._taken == self._sent:
            self._pool = None
            raise StopIteration
        values, error = self._next_chunk(timeout)
        self._taken += 1
        self._read()
        if error is not None:
            raise error
        self._buffer = iter(values)
        return self.next(timeout)

    def _come(self, timeout):
        try:
            return self._came.get(timeout=timeout)
        except Empty:
            raise TimeoutError from None


class OrderedIMapIterator(IMapIterator):
    """What Pool.imap returns: results in the order of the items."""

    def __init__(self, *args):
        self._early = {}  # chunks that came before their turn
        super().__init__(*args)

    def _next_chunk(self, timeout):
        end = None if timeout is None else time.monotonic() + timeout
        while self._taken not in self._early:
            left = None if end is None else max(0, end - time.monotonic())
            index, values, error = self._come(left)
            self._early[index] = values, error
        return self._early.pop(self._taken)


class UnorderedIMapIterator(IMapIterator):
    """What Pool.imap_unordered returns: results as they come."""

    def _next_chunk(self, timeout):
        _, values, error = self._come(timeout)
        return values, error
