"""A generator that another process has called and passed on: what comes out of its pickle.

It asks the relay (ray._private.relay) for one item at a time. A call that somebody gave up waiting
for (a time limit, Ctrl-C, a coroutine that was cancelled) stays open, and is the first that the
next reader of this object waits for. So no item is lost.
"""

import itertools
import os

from ray import _core
from ray._private import presence
from ray.exceptions import ActorDiedError, GetTimeoutError, OwnerDiedError

END = "end"  # what a take is answered: the generator has no more items,
LOST = "lost"  # or the process that called it is dead


class PassedGenerator:
    """An ObjectRefGenerator that was passed on. Each item goes to one of those who have it."""

    def __init__(self, relay, done, task_id):
        self._relay = relay
        self._done = done
        self._task_id = task_id
        self._open = []  # (token, reference) of the calls that were not read
        # By its token a call is known that waits. No other process has the same.
        self._tokens = itertools.count(int.from_bytes(os.urandom(7), "big"))
        self._where = presence.here()

    def __reduce__(self):
        self._give_up()
        return PassedGenerator, (self._relay, self._done, self._task_id)

    def __repr__(self):
        return f"ObjectRefGenerator({self._task_id}, passed on)"

    def __del__(self):
        try:
            self._give_up()
        except Exception:  # the session is over, or the interpreter ends
            pass

    # ---- reading ----

    def __iter__(self):
        return self

    def __next__(self):
        return self._next_sync()

    def _next_sync(self, timeout_s=None):
        """As next(), but ObjectRef.nil() if no item comes in time."""
        call = self._call()
        try:
            answer = _core.get(call[1], timeout=timeout_s)
        except GetTimeoutError:
            self._open.insert(0, call)
            return _core.ObjectRef.nil()
        except ActorDiedError as error:
            raise self._lost() from error
        except BaseException:
            self._open.insert(0, call)
            raise
        return self._item(answer, StopIteration)

    def __aiter__(self):
        return self

    async def __anext__(self):
        call = self._call(StopAsyncIteration)
        try:
            answer = await call[1]
        except ActorDiedError as error:
            raise self._lost() from error
        except BaseException:  # cancelled
            self._open.insert(0, call)
            raise
        return self._item(answer, StopAsyncIteration)

    async def _next_async(self, timeout_s=None):
        """The same as _next_sync, to be awaited."""
        import asyncio

        try:
            return await asyncio.wait_for(self.__anext__(), timeout_s)
        except asyncio.TimeoutError:
            return _core.ObjectRef.nil()

    def _call(self, stop=StopIteration):
        """(token, reference) of a take: the oldest that is open, or a new one."""
        try:
            return self._open.pop(0)
        except IndexError:
            pass
        if self._relay is None:
            raise stop
        token = next(self._tokens)
        return token, self._relay.take.remote(token, self._where)

    def _item(self, answer, stop):
        if answer == END:
            self.close()
            raise stop
        if answer == LOST:
            raise self._lost()
        return answer[0]

    def _lost(self):
        return OwnerDiedError(
            f"the generator of the task {self._task_id} was passed on, and the process that had "
            "called it is dead, or its relay: there are no more items. Call the generator in a "
            "process that lives as long as it is read"
        )

    # ---- asking ----

    def next_ready(self):
        """Whether next() gives a reference at once, whose value is there."""
        answer = self._look()
        return answer is not None and answer != END

    def is_finished(self):
        """Whether the task is over and all its items were taken."""
        return self._look() == END

    def _look(self):
        """What next() would be answered; None: it would wait."""
        try:
            call = self._call()
        except StopIteration:
            return END
        self._open.insert(0, call)
        try:
            return _core.get(call[1], timeout=0)
        except GetTimeoutError:
            return None
        except ActorDiedError:
            return LOST

    def completed(self):
        """A reference that is there when the task is over."""
        return self._done

    def task_id(self):
        """The id of the task that makes the items."""
        from ray._private.ids import TaskID

        return TaskID.from_hex(self._task_id)

    # ---- ending ----

    def close(self):
        """Reads no more of it. When all who have it are gone, the task ends at its next item."""
        self._give_up()
        self._relay = None

    def _give_up(self):
        """Others may have the items that the open calls come to."""
        while self._open:
            token, answer = self._open.pop()
            self._relay.withdraw.remote(token)
            self._relay.give_back.remote(answer)
