"""A worker's life in Python, from the fork to its end; the core runs the tasks in between."""

import _thread
import os
import sys

from ray import _core
from ray._private import session, streams, worker

_ending = _thread.allocate_lock()


def prepare():
    """What is the same in every worker, done once in the process that they are forked from."""
    worker.note_visible_gpus()
    worker.set_hooks()


def main(setup: "bytes | None"):
    """Takes part as a worker until told to end; `setup` is what the driver hands to every worker."""
    status = 1
    try:
        _apply(setup)
        creation = _core.serve()
        if creation is not None:
            from ray._private import concurrency

            concurrency.serve(creation)
        status = 0
    except SystemExit as error:
        status = exit_status(error)
    except Exception:  # not a task's, which the core takes: a fault of ours, and its only trace
        import traceback

        traceback.print_exc()
    finally:
        end(status)


def exit_status(error: SystemExit) -> int:
    """The status that Python ends with after this exception, its message told."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _apply(setup):
    namespace = ""
    if setup:
        from _pickle import loads

        given = loads(setup)
        sys.path[:] = given["sys_path"]
        namespace = given["namespace"]
    sys.argv[:] = ["ray::worker"]
    _reseed()
    streams.redirect()
    worker.take_part(worker.WORKER_MODE, namespace)


def _reseed():
    # All workers are forked from one process: without this, they would draw the same numbers.
    # Python's own generator seeds itself anew after a fork.
    module = sys.modules.get("numpy.random")
    if module is not None:
        module.seed()


def end(status: int):
    """What Python does at its end, without tearing down the interpreter: threads of libraries may
    still run.

    An actor's `__ray_shutdown__` comes first. (Where its process is killed, by ray.kill say, it
    does not come at all.)
    """
    import atexit

    # one thread does it: others of an actor that end it too wait here until the process is gone
    _ending.acquire()
    try:
        _tell(_core.actor())
        atexit._run_exitfuncs()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _tell(actor):
    hook = getattr(type(actor), "__ray_shutdown__", None)
    # a child that one of its methods forked is not the actor
    if hook is None or session.pid != os.getpid():
        return
    try:
        result = hook(actor)
        if type(result).__name__ == "coroutine":
            import asyncio

            asyncio.new_event_loop().run_until_complete(result)
    except SystemExit:
        pass
    except BaseException:  # the exit functions come all the same
        import traceback

        traceback.print_exc()
