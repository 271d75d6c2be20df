"""`await ref` and `ref.future()`.

Every event loop that awaits a reference has a `Link`: the core's Waker, whose file descriptor the
loop reads. A link looks for results at every turn of its loop for as long as some are likely to
come soon, and then waits to be told.
"""

import _thread
import contextvars
import os
import weakref

from ray import _core
from ray._private import session

_links = weakref.WeakKeyDictionary()  # loop to (epoch, Link)


class Link:
    """Connects the core to one event loop.

    In the loop of an actor `begin` is called with each Run, `cancel` with each that was cancelled,
    and `end` when there will be no more.
    """

    def __init__(self, loop, begin=None, end=None, cancel=None):
        self.waker = _core.Waker(begin, cancel)
        self._end = end
        self._loop = weakref.ref(loop)
        self._turn = 0  # counts looks that were scheduled
        # Looks are scheduled from anywhere, and what they begin must not inherit that one's
        # variables.
        self._context = contextvars.copy_context()
        loop.add_reader(self.waker.fileno(), self._look, None)

    def soon(self):
        """Something may be there: looks at the loop's next turn.

        Each call schedules a look of its own, though only the last one looks: a signal handler that
        raises (Ctrl-C) may hit the loop itself, which then forgets what it was about to call, and
        nobody would know.
        """
        self._turn += 1
        self._loop().call_soon(self._look, self._turn, context=self._context)

    def _look(self, turn):
        if turn is not None and turn != self._turn:
            return
        again = True  # also if it is interrupted
        try:
            again = self.waker.look()
        finally:
            if again:
                self.soon()
        if self.waker.ended:
            self._end()

    def close(self):
        """Its session is over: what it still watched is lost, and is told so."""
        self._loop().remove_reader(self.waker.fileno())
        self._look(None)


def link_of(loop) -> Link:
    """The link of this loop, made when it is needed first in a session."""
    found = _links.get(loop)
    if found is None or found[0] != session.epoch:
        if found is not None:
            found[1].close()
        found = (session.epoch, Link(loop))
        _links[loop] = found
    return found[1]


def adopt(loop, link: Link):
    """Makes this one the link of the loop."""
    _links[loop] = (session.epoch, link)


def await_ref(ref):
    """The generator behind `await ref`."""
    there = _core.is_there(ref)
    if not there:
        import asyncio

        loop = asyncio.get_running_loop()
    while there is False:
        link = link_of(loop)
        future = loop.create_future()
        watch = link.waker.watch(ref, future)
        link.soon()
        try:
            yield from future
        except BaseException:  # cancelled
            watch.forget()
            raise
        there = _core.is_there(ref)
        if there is False:  # told for another reason: the daemon is stopped
            try:
                return _core.get(ref, timeout=0)
            except TimeoutError:  # and goes on
                pass
    if there is None:  # on disk: others of the loop go on while it comes back
        return (yield from loop.run_in_executor(None, _core.get, ref))
    return _core.get(ref)


async def _value(ref):
    return await ref


_background = None  # (process, the loop of the thread that futures are resolved in)
_starting = _thread.allocate_lock()


def _background_loop():
    global _background
    with _starting:
        if _background is None or _background[0] != os.getpid():
            import asyncio
            import threading

            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="ray futures", daemon=True).start()
            _background = (os.getpid(), loop)
    return _background[1]


def future_of(ref):
    """A concurrent.futures.Future of the value of `ref`; its callbacks run in a thread that all
    such futures share.
    """
    return in_background(_value(ref))


def in_background(coroutine):
    """The concurrent.futures.Future of a coroutine that runs in that thread. It counts as nobody's
    waiting: a worker that has nothing but such coroutines waiting lends no CPUs.
    """
    import asyncio

    return contextvars.Context().run(
        asyncio.run_coroutine_threadsafe, coroutine, _background_loop()
    )
