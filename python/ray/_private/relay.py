"""Passing a generator on.

The process that called a generator stays its reader: the items come to it (src/store/flow.h). When
the generator is pickled, that process starts a relay, an actor without a CPU, and a pump: a
coroutine in the thread that all futures share. The pump takes references from the generator and
gives them to the relay. Whoever unpickles the generator gets a PassedGenerator, which takes them
from there. Each item goes to one of those.

    task --flow--> reader's process, pump --give--> relay --take--> PassedGenerator

- Room: the relay has as many items as the generator's own limit says, else ROOM. When it is full,
  the pump takes no more, and so the task waits, if it has a limit. Once the task is over nothing is
  left to hold up, and the pump gives the relay all the rest: then the reader's process may go.
- The end: the pump tells the relay. An error of the task is its last item, as ever.
- No receiver is left: only receivers, and values that contain one, hold the relay. The pump lets
  its handle go whenever it has waited for a second, for an item or for room, and takes a new one by
  the actor's id. If the relay is gone by then, the pump closes the generator, and the task ends at
  its next item.
- The reader dies: the relay runs on its node and watches its process (pidfd). It gives out what it
  has, and then says that there is no more to come.
- A receiver dies that waits in a take: the relay looks whether it is there before it answers. An
  item that was answered goes with it.
- A receiver that is let go, or passed on, while it waits withdraws its call, and gives back what
  came of it.
"""

import _thread
import asyncio
import os
from collections import deque

import ray
from ray import _core
from ray._private import futures, presence
from ray._private.passed import END, LOST, PassedGenerator

ROOM = 64  # items that a relay has of a generator without a limit
_PATIENCE_S = 1.0  # after which the pump looks whether the relay is still wanted
_PAUSE_S = 0.05  # for which it does without a handle then
_CALLS_MOST = 1_000_000  # that may wait at a relay

# ---- in the reader's process ----

_lock = _thread.allocate_lock()


def reduce(generator):
    """How an ObjectRefGenerator is pickled: it is passed on."""
    with _lock:
        passed = generator._passed()
        if passed is None:
            passed, handle = _pass_on(generator)
        else:
            handle = passed.relay.handle()
    return PassedGenerator, (handle, passed.completed(), generator.task_id().hex())


class Passed:
    """What is left of a generator in the process that has passed it on."""

    def __init__(self, relay, done):
        self.relay = relay
        self._done = done

    def completed(self):
        """The reference that is there when the task is over."""
        return self._done


class _Weak:
    """An actor's id: it does not keep the actor."""

    def __init__(self, handle):
        self._id = handle._ray_actor_ref.binary()
        self._parts = handle._ray_definition, handle._ray_class_name

    def handle(self):
        """OwnerDiedError if the actor is gone."""
        from ray.actor import ActorHandle

        return ActorHandle(_core._restore(self._id), *self._parts)


def _pass_on(generator):
    if generator.completed().is_nil():
        raise TypeError(f"{generator!r} was closed: there is nothing of it to pass on")
    handle = _start(_room(generator))
    passed = Passed(_Weak(handle), generator.completed())
    moved = generator._pass_on(passed)
    futures.in_background(_pump(moved, passed))
    return passed, handle


def _room(generator):
    return generator._limit or ROOM


def _start(room):
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = presence.here()
    options = {
        "num_cpus": 0,
        "max_concurrency": _CALLS_MOST,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(here.split()[0], soft=False),
    }
    return ray.remote(GeneratorRelay).options(**options).remote(room, here)


async def _pump(generator, passed):
    """Takes all items of the generator to its relay; gives up when that is gone, or the session."""
    try:
        await _take_along(generator, passed.relay, passed.completed())
    except ray.exceptions.RayError:
        pass
    finally:
        generator.close()


async def _take_along(generator, relay, done):
    room = _room(generator)
    handle = relay.handle()
    while True:
        is_over = _core.is_there(done) is not False
        items = await _items(generator, max(room, ROOM) if is_over else room)
        if items is None:
            await handle.end.remote()
            return
        if items or room == 0:
            room = await handle.give.remote(items, not is_over)
        if not items or room == 0:
            handle = None
            await asyncio.sleep(_PAUSE_S)
            handle = relay.handle()


async def _items(generator, most):
    """So many items at most, without a wait after the first; None: the end. None came: []."""
    items = []
    try:
        if most > 0 and not (first := await generator._next_async(_PATIENCE_S)).is_nil():
            items.append(first)
        while 0 < len(items) < most and (item := generator._try_next()) is not None:
            items.append(item)
    except StopAsyncIteration:
        return items or None
    return items


# ---- the relay ----


class GeneratorRelay:
    """The actor. All of its methods run in its event loop."""

    def __init__(self, room, reader):
        self._room = room
        self._items = deque()
        self._over = None  # END or LOST: what a take is told when there are no items
        self._waiting = set()  # tokens of takes that wait
        self._waiters = []  # futures of whoever waits for a change
        self._node, pid = reader.split()
        self._watch(int(pid))

    def _watch(self, pid):
        try:
            self._reader = os.pidfd_open(pid)
        except ProcessLookupError:
            self._over = LOST
            return
        asyncio.get_running_loop().add_reader(self._reader, self._finish, LOST)

    def _finish(self, how):
        if self._over is None:
            asyncio.get_running_loop().remove_reader(self._reader)
            os.close(self._reader)
            self._over = how
        self._tell()

    def _tell(self):
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _change(self):
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def give(self, items, waits):
        """Adds the items. If there is no room then, and it `waits`: waits for some, for a while.
        How much there is.
        """
        self._items.extend(items)
        self._tell()
        try:
            if waits:
                await asyncio.wait_for(self._has_room(), _PATIENCE_S)
        except asyncio.TimeoutError:
            pass
        return max(self._room - len(self._items), 0)

    async def _has_room(self):
        while len(self._items) >= self._room:
            await self._change()

    async def end(self):
        """There are no more."""
        self._finish(END)

    async def take(self, token, whose):
        """[the next item], END or LOST. None: nobody waits for it any more."""
        self._waiting.add(token)
        try:
            while token in self._waiting and not self._items and self._over is None:
                await self._change()
            if token not in self._waiting or presence.is_gone(whose, self._node):
                return None
        finally:
            self._waiting.discard(token)
        if not self._items:
            return self._over
        item = self._items.popleft()
        self._tell()
        return [item]

    async def withdraw(self, token):
        """The take of this token is to wait no longer."""
        self._waiting.discard(token)
        self._tell()

    async def give_back(self, answer):
        """Takes back what came of a take that nobody waited for."""
        if isinstance(answer, list):
            self._items.extendleft(answer)
            self._tell()
