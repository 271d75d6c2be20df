"""A worker's life in Python, from the fork to its end; the core runs the tasks in between."""

import _thread
import gc
import io
import os
import signal
import sys

from ray import _core
from ray._private import debugging, gpus, session, streams, worker

# Seconds for threads that are not daemons: while the session goes on, and at its end, when all
# workers together have one.
_PATIENT, _HASTY = 5, 0.3

_ending = _thread.allocate_lock()
_inherited = {}  # modules that were there before any code of the user's
_finish_loop = None


def prepare():
    """What is the same in every worker, done once in the process that they are forked from."""
    gpus.note_visible()
    worker.set_hooks()
    debugging.prepare()
    signal.signal(_core.END_SIGNAL, on_end_signal)
    signal.signal(_core.CANCEL_SIGNAL, on_cancel_signal)


def main(setup: "bytes | None"):
    """Takes part as a worker until told to end; `setup` is what the driver hands to every worker."""
    status = 1
    try:
        _apply(setup)
        _begin()
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
        from ray._private import runtime_env, zygote

        words = zygote.worker_words(setup)
        namespace = words["namespace"]
        runtime_env.adopt(words.get("runtime_env", {}))
    sys.argv[:] = ["ray::worker"]
    _inherited.update(sys.modules)
    for name in ("sys", "builtins", "__main__"):
        _inherited.pop(name, None)
    _reseed()
    streams.redirect()
    worker.take_part(worker.WORKER_MODE, namespace)


def _begin():
    """Calls the hook that its runtime environment has for every worker."""
    from ray._private import runtime_env

    hook = runtime_env.current.get("worker_process_setup_hook")
    if hook is None:
        return
    try:
        runtime_env.load_hook(hook)()
    except BaseException:  # nothing can run without what it was to do
        import traceback

        _core.unfit(
            "Failed to set up runtime environment.\nworker_process_setup_hook raised\n"
            + traceback.format_exc()
        )
        raise SystemExit(1) from None


def _reseed():
    # All workers are forked from one process: without this, they would draw the same numbers.
    # Python's own generator seeds itself anew after a fork.
    module = sys.modules.get("numpy.random")
    if module is not None:
        module.seed()


def on_end_signal(number, frame):
    """The session ends, and the daemon has said so: what runs is broken off.

    As `sys.exit` would, so that its `finally` blocks and `with` statements are left in order. A
    worker that is at rest hears of it by itself.
    """
    if session.pid == os.getpid() and not _ending.locked() and _core.cut_off():
        raise SystemExit(0)


def on_cancel_signal(number, frame):
    """A task of this worker was cancelled, and is broken off if it runs here now."""
    if session.pid == os.getpid() and not _ending.locked() and _core.interrupt():
        raise KeyboardInterrupt


def end(status: int):
    """Ends this worker as a Python program ends. Does not return.

    An actor's `__ray_shutdown__` comes first; then its event loop is closed, threads are waited
    for, exit functions run, the actor and everything else is let go, and the interpreter ends (see
    src/python/leave.c). The daemon limits the time, and kills what takes longer. (Where a process
    is killed, by ray.kill say, none of this comes.)
    """
    import atexit

    # one thread does it: others of an actor that end it too wait here until the process is gone
    _ending.acquire()
    if session.pid != os.getpid():  # a child that a run forked: its parent's files are not its own
        _try(atexit._run_exitfuncs)
        os._exit(status)
    session_ends = _core.begin_end()
    if session_ends is None:
        os._exit(status)
    _try(_tell, _core.actor())
    if _finish_loop is not None:
        _try(_finish_loop)
    _try(_end_threads, _HASTY if session_ends else _PATIENT)
    _try(atexit._run_exitfuncs)
    _flush_files()
    _core.drop()
    gc.collect()
    _try(_core.leave, status, _inherited)
    os._exit(status)


def _flush_files():
    """Writes out what open files have buffered.

    Closing them would do, and it follows; but then nobody hears of what can't be written, the
    collector may close the raw file ahead of the text stream over it when both are in a cycle, and
    a daemon thread's file is never closed.
    """
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for file in gc.get_objects():
        if not issubclass(type(file), kinds):
            continue
        try:
            if not file.closed:
                file.flush()
        except Exception as error:
            print(f"{file!r} could not be written: {error}", file=sys.stderr)


def _try(step, *args):
    """Whatever happens in one step, the others come."""
    try:
        step(*args)
    except SystemExit:
        pass
    except BaseException:
        import traceback

        traceback.print_exc()


def finish_loop_with(finish):
    """`finish` ends what is left in the actor's event loop."""
    global _finish_loop
    _finish_loop = finish


def _end_threads(seconds):
    """What threading does at the end of a program, in so many seconds at most: threads that are not
    daemons are waited for. After that they are no better than daemons.
    """
    threading = sys.modules.get("threading")
    if threading is None:
        return
    main = threading.main_thread()
    others = [t for t in threading.enumerate() if t is not main and not t.daemon]
    if others or getattr(threading, "_threading_atexits", True):
        ended = _thread.allocate_lock()
        ended.acquire()

        def shut_down():
            try:
                threading._shutdown()
            finally:
                ended.release()

        _thread.start_new_thread(shut_down, ())
        ended.acquire(True, seconds)
    threading._shutdown = lambda: None  # the interpreter would wait for them once more, for ever


def _tell(actor):
    hook = getattr(type(actor), "__ray_shutdown__", None)
    if hook is None:
        return
    result = hook(actor)
    if type(result).__name__ == "coroutine":
        import asyncio

        asyncio.new_event_loop().run_until_complete(result)
