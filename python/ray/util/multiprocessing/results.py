"""What the user of a pool waits for."""

import itertools
import threading
import time
from _queue import Empty, SimpleQueue
from collections.abc import Iterator
from multiprocessing import TimeoutError
from typing import Any

from ray.util.multiprocessing.feeders import Raised, Work

_AHEAD = 32  # chunks of an imap whose results nobody has asked for yet, or 4 a process


class AsyncResult:
    """What apply_async, map_async and starmap_async return.

    result = pool.map_async(abs, [-1, 2])
    result.wait(10)
    if result.ready() and result.successful():
        print(result.get())
    """

    def __init__(self, pool, chunks, callback=None, error_callback=None, done=None):
        self._pool = pool  # which goes on for as long as somebody waits
        self._callbacks = callback, error_callback
        self._done = done  # called when all chunks of a map are done
        self._single = done is None  # one call, not a map
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
        if not self._single:
            self._done()
            if self._error is None:
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
        self._crew = pool._crew
        self._pool = pool  # until all is read and done
        self._function = pool._export(func)
        self._items = iter(iterable)
        self._size = count_of("chunksize", chunksize) or 1
        self._ahead = max(_AHEAD, 4 * len(self._crew.feeders))
        self._sent = 0  # chunks
        self._taken = 0  # chunks whose results were begun to be read
        self._came = SimpleQueue()  # of (index, values, error)
        self._buffer = iter(())
        self._crew.unread.add(self)
        self._read()

    def _read(self):
        """Keeps so many chunks ahead of the reader."""
        while self._items is not None and self._sent - self._taken < self._ahead:
            chunk = list(itertools.islice(self._items, self._size))
            if not chunk:
                self._end_reading()
                return
            work = Work(self._came_back(), self._sent, "each", self._function, chunk)
            self._crew.submit(work)
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
            self._crew.read_out(self)

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
            if type(value) is Raised:
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


def count_of(name: str, value: "int | None") -> "int | None":
    """The value of an argument that is a number of things, checked."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int or None, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be 1 or more, not {value}")
    return value
