"""ObjectRefGenerator and methods that yield in event loops.

ObjectRefGenerator itself is the core's (src/python/flow.c), as is the way of an item from a task
that yields to whoever reads it.
"""

import asyncio
from types import CoroutineType

from ray import _core
from ray._private import futures

_TURN = 64  # items that an async generator gives out before others of its loop have their turn

# ---- reading ----


async def next_item(generator):
    """`await generator.__anext__()`"""
    while True:
        found = generator._try_next()
        if found is not None:
            return found
        loop = asyncio.get_running_loop()
        link = futures.link_of(loop)
        future = loop.create_future()
        watch = link.waker.watch(generator._head(), future)
        link.soon()
        try:
            await future
        except BaseException:  # cancelled
            watch.forget()
            raise


async def next_item_within(generator, timeout_s: "float | None" = None):
    """`await generator._next_async(timeout_s)`: ObjectRef.nil() if no item comes in time."""
    if timeout_s is None:
        return await next_item(generator)
    try:
        return await asyncio.wait_for(next_item(generator), timeout_s)
    except asyncio.TimeoutError:
        return _core.ObjectRef.nil()


# ---- making ----


async def give_items(run, values):
    """In the event loop of an actor: gives out what a method yields."""
    if type(values) is CoroutineType:
        values = await values
    if hasattr(values, "__aiter__"):
        await _give_async(run, values)
    elif hasattr(values, "__next__"):
        await _give_sync(run, values)
    else:
        raise ValueError(
            'a method with num_returns="streaming" must return a generator, and this one returned '
            + type(values).__name__
        )


async def _give_async(run, values):
    given = 0
    try:
        async for item in values:
            if not await _give(run, item):
                break
            given += 1
            if given % _TURN == 0:
                await asyncio.sleep(0)
    finally:
        close = getattr(values, "aclose", None)
        if close is not None:
            await close()


async def _give_sync(run, values):
    for item in values:
        if not await _give(run, item):
            break
        await asyncio.sleep(0)
    close = getattr(values, "close", None)
    if close is not None:
        close()


async def _give(run, item) -> bool:
    goes_on = run.item(item)
    while not run.has_room():
        waits = asyncio.get_running_loop().run_in_executor(None, run.wait_room)
        try:
            await asyncio.shield(waits)
        except asyncio.CancelledError:
            # The run ends next, and that thread must not look at it any more.
            while not waits.done():
                try:
                    await asyncio.wait([waits])
                except asyncio.CancelledError:
                    pass
            raise
    return goes_on
