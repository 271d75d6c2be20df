"""Failures between processes: an exception becomes bytes in a worker, and an exception again at
`ray.get`.
"""

import os

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_CLASSES = {
    "actor_died": "ActorDiedError",
    "actor_unavailable": "ActorUnavailableError",
    "daemon_died": "LocalRayletDiedError",
    "get_timeout": "GetTimeoutError",
    "no_space": "OutOfDiskError",
    "object_freed": "ObjectFreedError",
    "object_lost": "ObjectLostError",
    "out_of_disk": "OutOfDiskError",
    "out_of_memory": "OutOfMemoryError",
    "owner_died": "OwnerDiedError",
    "store_full": "ObjectStoreFullError",
    "task_cancelled": "TaskCancelledError",
    "worker_crashed": "WorkerCrashedError",
}
_PYTHON = {"invalid": ValueError, "no_memory": MemoryError, "unpicklable": TypeError}


def make_error(error: BaseException, name: str, pid: int) -> bytes:
    """In a worker: what an exception raised by a task comes to. Never fails on account of the
    exception.
    """
    from _pickle import dumps

    from ray._private import serialization
    from ray.exceptions import RayTaskError

    if type(error).__name__ == "BdbQuit":
        from ray._private import debugging

        debugging.explain_quit(error)
    # A task that got a failed result and let it through: who asks wants the first cause, and the
    # text has it all.
    cause = error._ray_plain().cause if isinstance(error, RayTaskError) else error
    try:
        carried = None if cause is None else serialization.inband(Carried(cause))
    except Exception:
        carried = None
    return dumps((name, f"ray::{name}() (pid={pid})\n{_traceback(error)}", carried, pid), 5)


class Carried:
    """An exception on its way.

    By itself, it would be made again by its constructor from `args`, which fails for every class
    whose constructor takes something else than it hands on; so those are made again without it.
    """

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        error, kind = self.error, type(self.error)
        own_way = (
            kind.__reduce__ is not BaseException.__reduce__
            or kind.__reduce_ex__ is not object.__reduce_ex__
        )
        # whose name Python 3.11 and before leave behind
        named = isinstance(error, (AttributeError, NameError))
        if own_way or not (named or hasattr(kind.__init__, "__code__")):
            return _same, (error,)
        return _rebuild, (
            kind,
            BaseException.args.__get__(error),
            _slots(error, named),
            error.__dict__,
        )


def _slots(error, named):
    """What the classes of an exception keep in slots of their own."""
    found = {"name": error.name} if named else {}
    for base in type(error).__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(error, name):
                found[name] = getattr(error, name)
    return found


def _same(error):
    return error


def _rebuild(kind, args, slots, fields):
    error = kind.__new__(kind, *args)
    # Past what the class may do when it is asked to set something.
    BaseException.args.__set__(error, args)
    for name, value in slots.items():
        object.__setattr__(error, name, value)
    error.__dict__.update(fields)
    return error


def load_error(code: str, payload):
    """The exception for a failed result ("task") or a status of the core, with its text."""
    from ray import exceptions

    if code == "task":
        return _load_task_error(payload)
    if code in _PYTHON:
        return _PYTHON[code](payload)
    return getattr(exceptions, _CLASSES.get(code, "RaySystemError"))(payload)


def _load_task_error(payload):
    from _pickle import loads

    from ray.exceptions import RayTaskError

    if isinstance(payload, str):  # of a function in C, whose errors are words
        name = (
            payload.partition("(")[0].removeprefix("ray::") if payload.startswith("ray::") else ""
        )
        return RayTaskError(name, payload)
    name, text, carried, pid = loads(payload)
    cause = None
    if carried is not None:
        try:
            cause = loads(carried)
        # Its class may want other arguments than it kept, or live in a module that is not here.
        except Exception as error:
            text += f"\n(the exception itself could not be rebuilt here: {type(error).__name__}: {error})"
        if not isinstance(cause, BaseException):
            cause = None
    return RayTaskError(name, text, cause, pid).as_instanceof_cause()


def _traceback(error):
    import traceback

    try:
        found = traceback.TracebackException.from_exception(error)
        _drop_own_frames(found, set())
        return "".join(found.format()).rstrip("\n")
    except Exception:  # the exception's own __str__ raised, or the like
        return f"{type(error).__name__}: (its text could not be made)"


def _drop_own_frames(found, seen):
    if found is None or id(found) in seen:
        return
    seen.add(id(found))
    own = [frame for frame in found.stack if frame.filename.startswith(_HERE)]
    for frame in own:
        found.stack.remove(frame)
    _drop_own_frames(found.__cause__, seen)
    _drop_own_frames(found.__context__, seen)
