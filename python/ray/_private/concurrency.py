"""Actors that run several calls at once: in threads, or, if a method is `async def`, in one event
loop.

A class of ours that answers some of its calls later has a `__ray_serve__(self, next_run)`, which
takes the runs itself, in the main thread, until there are no more (see ray.util.queue).

In both the core hands out calls in the order of each caller and concurrency group, and no more of
them than max_concurrency, or the number of their group, at a time.
"""

import _thread
from types import CoroutineType

from ray import _core
from ray._private import definition, futures, worker_main


def serve(creation):
    """Serves an actor from its creation, which is a run that has not been begun, until this worker
    is to end.
    """
    is_async = limits = own = None
    try:
        function = creation.function()
        is_async = definition.is_async(function)
        own = getattr(function, "__ray_serve__", None)
        limits = getattr(function, "limits", None)
        if limits:
            _core.actor_groups(limits)
    except BaseException as error:  # it can't be loaded, and that is what its calls are to say
        creation.failed([error])
    if is_async:
        _serve_in_loop(creation)
        return
    if is_async is False:
        creation.whole()
        if own is not None and (actor := _core.actor()) is not None:
            own(actor, _core.next_run)
            return
    if limits:
        _Pools(limits).serve()
    else:
        _Threads().serve()


class _Threads:
    """Threads that take runs in turn: one waits for the next run while the others are at theirs.

    A thread that got a run makes sure that somebody waits for the next one, so there are as many
    threads as there were calls at once. The core gives out no more runs than max_concurrency.
    """

    def __init__(self):
        self._turn = _thread.allocate_lock()
        self._idle = 0  # threads that wait for their turn

    def serve(self):
        while True:
            self._idle += 1
            with self._turn:
                self._idle -= 1
                run = _core.next_run()
                if run is not None and self._idle == 0:
                    self._add()
            if run is None:
                return
            _run_and_end(run)
            del run

    def _add(self):
        try:
            _thread.start_new_thread(self.serve, ())
        except RuntimeError:  # no more threads here: those that there are go on
            pass


def _run_and_end(run):
    """Runs it, and ends the actor if that is what the method did."""
    status = _run_whole(run)
    if status is not None:  # in a thread that need not be the main one
        del run
        worker_main.end(status)


def _run_whole(run):
    """None; or the status to end with, if a method ended its actor.

    The exception, which holds what the method had, is gone then.
    """
    try:
        run.whole()
    except SystemExit as error:
        return worker_main.exit_status(error)


class _Pool:
    """The threads of one concurrency group."""

    __slots__ = ("count", "idle", "late", "limit")

    def __init__(self, limit):
        self.limit = limit
        self.count = 0  # threads that were started
        self.idle = []  # seats of those that wait; the last to come is the first to go
        self.late = []  # runs for the next thread that is free


class _Seat:
    """Where a thread waits until it is given a run."""

    __slots__ = ("_lock", "_run")

    def __init__(self):
        self._run = None
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def give(self, run):
        self._run = run
        self._lock.release()

    def wait(self):
        self._lock.acquire()
        run, self._run = self._run, None
        return run


class _Pools:
    """Threads of an actor with concurrency groups. Each group has as many of its own as it runs
    calls at once, so that what a library keeps by thread stays within the group.

    Whoever has the turn leads: it takes the next run from the core. A run of the leader's own group
    it runs itself. Any other it gives, and the turn with it, to a thread of that run's group, so
    that the turn stays near the group that is called. A thread gives the turn up while it runs, and
    takes it back if nobody had it meanwhile: so one quick call after the other costs no switch of
    threads. The main thread waits for the turn when it does not lead, and runs no calls.

    `_lock` guards the pools; nothing waits while it is held.
    """

    def __init__(self, limits):
        self._pools = [_Pool(limit) for limit in limits]
        self._lock = _thread.allocate_lock()
        self._turn = _thread.allocate_lock()  # one thread may take it and another give it up
        self._over = False

    def serve(self):
        """In the main thread, until this worker is to end."""
        while True:
            self._turn.acquire()
            if self._over:
                return
            self._lead(None)

    def _lead(self, own):
        """Takes a run; this thread has the turn. Returns the run if it is of the pool `own`, this
        thread's. None: another thread has the turn.
        """
        run = None if self._over else _core.next_run()
        if run is None:
            self._over = True
            self._turn.release()
            return None
        pool = self._pools[run.group]
        if pool is own:
            return run
        run.give()
        self._hand(pool, run)
        return None

    def _hand(self, pool, run):
        """A thread of this pool runs it, and has the turn."""
        with self._lock:
            if pool.idle:
                pool.idle.pop().give(run)
                return
            if pool.count < pool.limit and self._start(pool, run):
                return
            if pool.count > 0:
                # The core gives out no more runs than the pool may have: one is about to be free.
                pool.late.append(run)
                return
        run.accept()
        _run_and_end(run)  # there is no thread for it
        self._turn.release()

    def _start(self, pool, run):
        try:
            _thread.start_new_thread(self._serve, (pool, run))
        except RuntimeError:  # no more threads here: those that there are go on
            return False
        pool.count += 1
        return True

    def _serve(self, pool, run):
        """A thread of the pool. It was given the run and the turn."""
        seat = _Seat()
        while True:
            run.accept()
            while run is not None:
                self._turn.release()
                _run_and_end(run)
                run = self._lead(pool) if self._turn.acquire(False) else None
            with self._lock:
                if pool.late:
                    run = pool.late.pop(0)
                else:
                    pool.idle.append(seat)
            if run is None:
                run = seat.wait()


def _serve_in_loop(creation):
    import asyncio

    from ray._private import async_generators

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    link = None
    over = False
    stopped = set()  # runs that were cancelled before they began

    async def drive(run):
        failure = None
        try:
            if run in stopped:
                stopped.discard(run)
                raise asyncio.CancelledError
            value = run.call()
            if run.flows:
                value = await async_generators.give_items(run, value)
            elif type(value) is CoroutineType:
                value = await value
        except BaseException as error:  # whatever it is, the caller waits for an answer
            if over:
                return  # the actor ended meanwhile, and that is what its callers are to hear
            failure = [error]
        # Outside of the `except`, which has the exception too: then the run alone has it, or the
        # actor keeps it.
        if failure is None:
            run.done(value)
        else:
            run.failed(failure)
        if link.waker.full:
            link.soon()

    def begin(run):
        # Plain methods are tasks too, so that calls begin in their order. Not by loop.create_task,
        # nor with a name of its own: that takes a tenth of a call.
        if not over:
            run.task = asyncio.Task(drive(run), loop=loop, name="call")

    def cancel(run):
        # A task that is cancelled before its first step never takes it, and nobody would answer.
        if run.called:
            run.task.cancel()
        else:
            stopped.add(run)

    def stop():
        if not over:
            loop.stop()

    def finish():
        """As asyncio.run does: what is left is cancelled, and has its say."""
        nonlocal over
        over = True
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    worker_main.finish_loop_with(finish)
    link = futures.Link(loop, begin, stop, cancel)
    futures.adopt(loop, link)
    begin(creation)
    link.soon()
    try:
        loop.run_forever()
    except SystemExit:
        _hush(loop)
        raise


def _hush(loop):
    """A method ended the actor, or the session's end broke the loop off, wherever that was. What
    asyncio says then of the task that it was at is no news.
    """
    others = loop.get_exception_handler()

    def tell(loop, context):
        if isinstance(context.get("exception"), SystemExit):
            return
        if others is None:
            loop.default_exception_handler(context)
        else:
            others(loop, context)

    loop.set_exception_handler(tell)
