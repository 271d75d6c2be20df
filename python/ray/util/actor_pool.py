"""Work for a fixed set of actors, one piece at a time each: `ray.util.ActorPool`."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray

__all__ = ["ActorPool"]


class ActorPool:
    """Hands work to whichever of its actors is free.

        @ray.remote
        class Doubler:
            def double(self, x):
                return 2 * x

        pool = ActorPool([Doubler.remote(), Doubler.remote()])
        print(list(pool.map(lambda actor, x: actor.double.remote(x), [1, 2, 3])))  # [2, 4, 6]

    A piece of work is `fn(actor, value)`, which calls the actor and returns the reference. An actor
    has one piece at a time; what is submitted beyond that waits. It is handed out whenever results
    are asked for, also while the next one in order is still being made.
    """

    def __init__(self, actors: list):
        self._idle = list(actors)
        self._waiting = deque()  # (number, fn, value) that no actor has yet
        self._running = {}  # what fn returned (a list as a tuple) to (number, its actor)
        self._work = {}  # number to what fn returned, of what was handed out and not fetched
        self._submitted = 0  # the next number
        self._fetched = 0  # no result of a lower number is fetched in order any more

    def map(self, fn: Callable[[Any, Any], Any], values: Iterable) -> Iterator:
        """Submits fn(actor, value) for each value, and returns an iterator over the results, in the
        order of the values. What was submitted before and not fetched is dropped.

            for result in pool.map(lambda actor, x: actor.double.remote(x), [1, 2, 3]):
                print(result)
        """
        return self._map(fn, values, self.get_next)

    def map_unordered(self, fn: Callable[[Any, Any], Any], values: Iterable) -> Iterator:
        """The same, in the order in which the results come.

        for result in pool.map_unordered(lambda actor, x: actor.double.remote(x), [1, 2, 3]):
            print(result)
        """
        return self._map(fn, values, self.get_next_unordered)

    def _map(self, fn, values, get_next):
        self._drop()
        for value in values:
            self.submit(fn, value)

        def results():
            while self.has_next():
                yield get_next()

        return results()

    def _drop(self):
        """Forgets what was submitted. The actors that are still at it stay busy."""
        self._waiting.clear()
        self._work.clear()
        self._fetched = self._submitted

    def submit(self, fn: Callable[[Any, Any], Any], value: Any) -> None:
        """Has a free actor do fn(actor, value), or the next one that gets free.

        pool.submit(lambda actor, x: actor.double.remote(x), 1)
        print(pool.get_next())  # 2
        """
        number = self._submitted
        self._submitted += 1
        if self._running and not self._idle:
            self._collect(0)
        if self._idle and not self._waiting:
            self._hand_out(self._idle.pop(), number, fn, value)
        else:
            self._waiting.append((number, fn, value))

    def has_next(self) -> bool:
        """Whether there is a result that was not fetched, or that is to come."""
        return bool(self._work or self._waiting)

    def get_next(self, timeout: "float | None" = None, ignore_if_timedout: bool = False) -> Any:
        """The next result, in the order of submission.

        Raises StopIteration if there is none to come, and TimeoutError after `timeout` seconds; the
        result can be fetched later then, or with ignore_if_timedout=True is left out.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        if self._fetched not in self._work and not self._is_waiting(self._fetched):
            raise ValueError("It is not allowed to call get_next() after get_next_unordered().")
        number = self._fetched
        if not self._wait(lambda: self._is_done(number), timeout):
            if not ignore_if_timedout:
                raise TimeoutError("Timed out waiting for result")
            self._leave_out(number)
            return None
        return self._fetch(number)

    def get_next_unordered(
        self, timeout: "float | None" = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Any result that is there, or the next one that comes.

        Raises StopIteration if there is none to come, and TimeoutError after `timeout` seconds, or
        with ignore_if_timedout=True returns None then.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        number = None

        def found():
            nonlocal number
            number = next((n for n in self._work if self._is_done(n)), None)
            return number is not None

        if self._wait(found, timeout):
            return self._fetch(number)
        if ignore_if_timedout:
            return None
        raise TimeoutError("Timed out waiting for result")

    def has_free(self) -> bool:
        """Whether an actor is free, and no work waits for one."""
        self._collect(0)
        return bool(self._idle) and not self._waiting

    def pop_idle(self) -> Any:
        """Takes a free actor out of the pool; None if there is none.

        actor = pool.pop_idle()
        """
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Adds an actor to the pool.

        pool.push(Doubler.remote())
        """
        if actor in self._idle or any(actor == busy for _, busy in self._running.values()):
            raise ValueError("Actor already belongs to current ActorPool")
        self._free(actor)

    # ---- inside ----

    def _hand_out(self, actor, number, fn, value):
        try:
            work = fn(actor, value)
        except BaseException:
            self._idle.append(actor)
            raise
        self._running[tuple(work) if isinstance(work, list) else work] = (number, actor)
        self._work[number] = work

    def _free(self, actor):
        """An actor has nothing to do: it gets what waits longest."""
        if self._waiting:
            number, fn, value = self._waiting.popleft()
            self._hand_out(actor, number, fn, value)
        else:
            self._idle.append(actor)

    def _collect(self, timeout):
        """Frees the actors that have done their work; waits for one, for so long."""
        last = {key[-1] if isinstance(key, tuple) else key: key for key in self._running}
        done = []
        if last:
            done, _ = ray.wait(list(last), num_returns=1, timeout=timeout, fetch_local=False)
        for ref in done:
            _, actor = self._running.pop(last[ref])
            self._free(actor)

    def _wait(self, is_there, timeout):
        """Hands out work until this is so; False after so many seconds."""
        if is_there():
            return True
        import time

        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._collect(None if end is None else max(0, end - time.monotonic()))
            if is_there():
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def _is_waiting(self, number):
        return bool(self._waiting) and number >= self._waiting[0][0]

    def _is_done(self, number):
        work = self._work.get(number)
        return work is not None and (
            (tuple(work) if isinstance(work, list) else work) not in self._running
        )

    def _fetch(self, number):
        self._fetched = max(self._fetched, number + 1)
        return ray.get(self._work.pop(number))

    def _leave_out(self, number):
        self._fetched = max(self._fetched, number + 1)
        self._work.pop(number, None)
        self._waiting = deque(item for item in self._waiting if item[0] != number)
