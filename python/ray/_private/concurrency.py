"""Actors that run several calls at once: in threads, or, if a method is `async def`, in one event
loop.

A class of ours that answers some of its calls later has a `__ray_serve__(self, next_run)`, which
takes the runs itself, in the main thread, until there are no more (see ray.util.queue).

In both the core hands out calls in the order of each caller, and no more of them than
max_concurrency at a time.
"""

import _thread
from types import CoroutineType

from ray import _core
from ray._private import definition, futures, worker_main


def serve(creation):
    """Serves an actor from its creation, which is a run that has not been begun, until this worker
    is to end.
    """
    own = None
    try:
        target = creation.function()
        is_async = definition.is_async(target)
        own = getattr(target, "__ray_serve__", None)
    except BaseException as error:  # it can't be loaded, and that is what its calls are to say
        creation.failed([error])
        is_async = None
    if is_async:
        _serve_in_loop(creation)
        return
    if is_async is False:
        creation.whole()
        if own is not None and (actor := _core.actor()) is not None:
            own(actor, _core.next_run)
            return
    _serve_in_threads()


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
            status = _run_whole(run)
            del run
            if status is not None:  # in a thread that need not be the main one
                worker_main.end(status)

    def _add(self):
        try:
            _thread.start_new_thread(self.serve, ())
        except RuntimeError:  # no more threads here: those that there are go on
            pass


def _run_whole(run):
    """None; or the status to end with, if a method ended its actor.

    The exception, which holds what the method had, is gone then.
    """
    try:
        run.whole()
    except SystemExit as error:
        return worker_main.exit_status(error)


def _serve_in_threads():
    _Threads().serve()


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
    loop.run_forever()
