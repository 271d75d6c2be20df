"""A first-in, first-out queue that every process of a job can use: `ray.util.queue.Queue`.

The items are with an actor. A call that finds an item, or room, is answered at once. One that has
to wait is answered later: the actor keeps the call, not a thread, and goes on with the next one.
So any number of processes may wait, and each call costs what an actor's call costs.

Whoever gives up waiting (a timeout, Ctrl-C, a task that is cancelled) says so, and gets what came
meanwhile, or gives it back. A process that is killed can't: an item that it was handed is lost with
it. One that it still waited for is not, if it was on the queue's node: the actor looks whether it
is there.
"""

import asyncio
import itertools
import os
import queue
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

import ray
from ray._private import presence
from ray.exceptions import GetTimeoutError

__all__ = ["Empty", "Full", "Queue"]

_WAITING_MOST = 1_000_000  # calls that may wait at a queue
_GIVEN_UP = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)


class Empty(queue.Empty):
    """There was no item to get. It is the standard library's queue.Empty too.

    try:
        item = queue.get(timeout=1)
    except Empty:
        item = None
    """


class Full(queue.Full):
    """There was no room to put an item. It is the standard library's queue.Full too.

    try:
        queue.put_nowait(item)
    except Full:
        drop(item)
    """


class Queue:
    """A queue of Python objects that can be passed to tasks and actors.

        from ray.util.queue import Queue

        @ray.remote
        def consume(queue):
            return [queue.get() for _ in range(3)]

        queue = Queue(maxsize=100)
        consumed = consume.remote(queue)
        for item in range(3):
            queue.put(item)
        print(ray.get(consumed))  # [0, 1, 2]

    Items come out in the order in which they went in. A reference (ObjectRef) that is put as an
    item comes out as its value; inside of a list, it stays a reference.
    """

    def __init__(self, maxsize: int = 0, actor_options: "dict | None" = None):
        """
        Args:
            maxsize: how many items it can have; 0 or less: any number.
            actor_options: options of the actor that has the items, as Class.options takes them
                (num_cpus, resources, name, lifetime, ...).
        """
        if isinstance(maxsize, bool) or not isinstance(maxsize, int):
            raise TypeError(f"maxsize must be an int, not {type(maxsize).__name__}")
        self.maxsize = maxsize
        options = {"max_concurrency": _WAITING_MOST, **(actor_options or {})}
        self.actor = ray.remote(_Items).options(**options).remote(maxsize)
        self._start()

    def _start(self):
        # By its token a call is known that waits. No other process has the same.
        self._tokens = itertools.count(int.from_bytes(os.urandom(7), "big"))
        self._where = presence.here()

    def __getstate__(self):
        return {"maxsize": self.maxsize, "actor": self.actor}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._start()

    def __len__(self) -> int:
        return self.size()

    def __repr__(self) -> str:
        return f"Queue(maxsize={self.maxsize}, {self.actor!r})"

    def size(self) -> int:
        """How many items it has now."""
        return ray.get(self.actor.qsize.remote())

    def qsize(self) -> int:
        """How many items it has now."""
        return self.size()

    def empty(self) -> bool:
        """Whether it has no item now."""
        return self.size() == 0

    def full(self) -> bool:
        """Whether it has no room now."""
        return 0 < self.maxsize <= self.size()

    def put(self, item: Any, block: bool = True, timeout: "float | None" = None) -> None:
        """Adds an item.

            queue.put("a", timeout=2)

        With block=False it raises Full if there is no room; else it waits for room, for `timeout`
        seconds at most (None: for as long as it takes), and raises Full then.
        """
        _check_timeout(timeout)
        if not block or self.maxsize <= 0:
            return self.put_nowait(item)
        token = next(self._tokens)
        ref = self.actor.put.remote(item, token)
        try:
            return ray.get(ref, timeout=timeout)
        except GetTimeoutError:
            if self._withdrawn(token):
                raise Full(_NO_ROOM.format(timeout)) from None
        except _GIVEN_UP:
            self.actor.withdraw.remote(token)
            raise

    async def put_async(
        self, item: Any, block: bool = True, timeout: "float | None" = None
    ) -> None:
        """`put` for an event loop: `await queue.put_async("a")`."""
        _check_timeout(timeout)
        if not block or self.maxsize <= 0:
            if not await self.actor.put_nowait.remote(item):
                raise Full(_FULL.format(self.maxsize))
            return
        token = next(self._tokens)
        ref = self.actor.put.remote(item, token)
        try:
            await asyncio.wait_for(ref, timeout)
        except asyncio.TimeoutError:
            if await self.actor.withdraw.remote(token):
                raise Full(_NO_ROOM.format(timeout)) from None
        except _GIVEN_UP:
            self.actor.withdraw.remote(token)
            raise

    def get(self, block: bool = True, timeout: "float | None" = None) -> Any:
        """Takes the next item out.

            item = queue.get(timeout=2)

        With block=False it raises Empty if there is none; else it waits for one, for `timeout`
        seconds at most (None: for as long as it takes), and raises Empty then.
        """
        if not block:
            return self.get_nowait()
        _check_timeout(timeout)
        token = next(self._tokens)
        ref = self.actor.get.remote(token, self._where)
        try:
            return ray.get(ref, timeout=timeout)
        except GetTimeoutError:
            if self._withdrawn(token):
                raise Empty(_NO_ITEM.format(timeout)) from None
            return ray.get(ref)
        except _GIVEN_UP:
            self._give_back(token, ref)
            raise

    async def get_async(self, block: bool = True, timeout: "float | None" = None) -> Any:
        """`get` for an event loop: `item = await queue.get_async()`."""
        if not block:
            return _one(await self.actor.get_batch.remote(1))
        _check_timeout(timeout)
        token = next(self._tokens)
        ref = self.actor.get.remote(token, self._where)
        try:
            return await asyncio.wait_for(ref, timeout)
        except asyncio.TimeoutError:
            if await self.actor.withdraw.remote(token):
                raise Empty(_NO_ITEM.format(timeout)) from None
            return await ref
        except _GIVEN_UP:
            self._give_back(token, ref)
            raise

    def put_nowait(self, item: Any) -> None:
        """Adds an item if there is room, and raises Full if there is none."""
        if not ray.get(self.actor.put_nowait.remote(item)):
            raise Full(_FULL.format(self.maxsize))

    def put_nowait_batch(self, items: Iterable) -> None:
        """Adds all of these items in one call; if there is no room for all, none, and raises Full.

        queue.put_nowait_batch([1, 2, 3])
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"items must be iterable, and {type(items).__name__} is not")
        items = list(items)
        size = ray.get(self.actor.put_batch.remote(items))
        if size is not None:
            raise Full(
                f"{len(items)} items can't be added to a queue that has {size} of its "
                f"{self.maxsize} at most"
            )

    def get_nowait(self) -> Any:
        """Takes the next item out, and raises Empty if there is none."""
        return _one(ray.get(self.actor.get_batch.remote(1)))

    def get_nowait_batch(self, num_items: int) -> list:
        """Takes so many items out in one call; if there are not so many, none, and raises Empty.

        first, second = queue.get_nowait_batch(2)
        """
        if isinstance(num_items, bool) or not isinstance(num_items, int):
            raise TypeError(f"num_items must be an int, not {type(num_items).__name__}")
        if num_items < 0:
            raise ValueError(f"num_items must be 0 or more, not {num_items}")
        found = ray.get(self.actor.get_batch.remote(num_items))
        if isinstance(found, int):
            raise Empty(f"{num_items} items can't be taken out of a queue that has {found}")
        return found

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """Ends the queue's actor; whoever waits, or uses it later, gets an ActorDiedError.

        Calls that came before are still answered, for `grace_period_s` seconds at most; with
        force=True it ends at once.
        """
        if self.actor is not None:
            if not force:
                end = self.actor.__ray_terminate__.remote()
                force = not ray.wait([end], timeout=grace_period_s)[0]
            if force:
                ray.kill(self.actor, no_restart=True)
        self.actor = None

    def _withdrawn(self, token):
        return ray.get(self.actor.withdraw.remote(token))

    def _give_back(self, token, ref):
        """Nobody will read what comes of this call. The actor gets either item or token back: its
        calls run in this order.
        """
        self.actor.withdraw.remote(token)
        self.actor.give_back.remote(ref)


_FULL = "the queue has {} items, as many as it can"
_NO_ROOM = "the queue had no room for {} s"
_NO_ITEM = "the queue had no item for {} s"
_ALONE = "in local mode nobody else could put or get an item while this call waits"


def _check_timeout(timeout):
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")


def _one(found):
    if isinstance(found, int):
        raise Empty("the queue has no item")
    return found[0]


class _Withdrawn:
    """What a call comes to whose caller has given up."""


_LATER = object()  # a method returns it instead of an answer: self.run was kept, to be answered


class _Items:
    """The actor. Its methods run one after the other, in one thread.

    No call waits for an item while there are items, and none for room while there is room.
    """

    def __init__(self, maxsize):
        self.room = maxsize if maxsize > 0 else float("inf")
        self.items = deque()
        self.getters = OrderedDict()  # token to (run, whose), longest waiting first
        self.node = presence.here().split()[0]
        self.putters = OrderedDict()  # token to (run, item)
        self.run = None  # the one whose method is being called; local mode has none

    def __ray_serve__(self, next_run):
        while (run := next_run()) is not None:
            self.run = run
            try:
                answer = run.call()
            except BaseException as error:
                run.failed([error])  # raises SystemExit, if it is that
                continue
            if answer is not _LATER:
                run.done(answer)

    def qsize(self):
        return len(self.items)

    def put_nowait(self, item):
        while self.getters:
            _, (run, whose) = self.getters.popitem(last=False)
            # A task that was cancelled may not come to withdraw its call: that is cancelled too.
            if not run.is_cancelled() and not presence.is_gone(whose, self.node):
                run.done(item)
                return True
            run.done(_Withdrawn())
        if len(self.items) < self.room:
            self.items.append(item)
            return True
        return False

    def put(self, item, token):
        if self.put_nowait(item):
            return None
        if self.run is None:
            raise Full(_ALONE)
        self.putters[token] = self.run, item
        return _LATER

    def put_batch(self, items):
        if len(self.items) + len(items) > self.room + len(self.getters):
            return len(self.items)
        for item in items:
            if not self.put_nowait(item):  # fewer wait for an item than it seemed
                self.items.append(item)
        return None

    def get(self, token, whose):
        if self.items:
            return self._take()
        if self.run is None:
            raise Empty(_ALONE)
        self.getters[token] = self.run, whose
        return _LATER

    def get_batch(self, count):
        if len(self.items) < count:
            return len(self.items)
        return [self._take() for _ in range(count)]

    def _take(self):
        item = self.items.popleft()
        while self.putters and len(self.items) < self.room:
            _, (run, waiting) = self.putters.popitem(last=False)
            if run.is_cancelled():
                run.done(_Withdrawn())
                continue
            self.items.append(waiting)
            run.done(None)
        return item

    def withdraw(self, token):
        """Whether the call still waited."""
        run, _ = self.getters.pop(token, None) or self.putters.pop(token, (None, None))
        if run is None:
            return False
        run.done(_Withdrawn())
        return True

    def give_back(self, item):
        if isinstance(item, _Withdrawn):
            return
        if self.getters:
            self.put_nowait(item)
        else:
            self.items.appendleft(item)
