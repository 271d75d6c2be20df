"""Failures between processes: an exception becomes words and bytes in a worker, and an exception
again at `ray.get`.
"""

import os
import sys

from ray._private import carrying, replay

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_CLASSES = {
    "actor_died": "ActorDiedError",
    "actor_group_removed": "ActorPlacementGroupRemoved",
    "actor_unschedulable": "ActorUnschedulableError",
    "group_removed": "TaskPlacementGroupRemoved",
    "task_unschedulable": "TaskUnschedulableError",
    "name_taken": "ActorAlreadyExistsError",
    "stale_actor": "ActorHandleNotFoundError",
    "actor_unavailable": "ActorUnavailableError",
    "daemon_died": "LocalRayletDiedError",
    "daemon_stopped": "LocalRayletStoppedError",
    "deadlock": "DeadlockError",
    "get_timeout": "GetTimeoutError",
    "no_space": "OutOfDiskError",
    "node_died": "NodeDiedError",
    "object_freed": "ObjectFreedError",
    "object_lost": "ObjectLostError",
    "out_of_disk": "OutOfDiskError",
    "out_of_memory": "OutOfMemoryError",
    "owner_died": "OwnerDiedError",
    "runtime_env": "RuntimeEnvSetupError",
    "store_full": "ObjectStoreFullError",
    "task_cancelled": "TaskCancelledError",
    "worker_crashed": "WorkerCrashedError",
}


class NoSuchName(ValueError):
    """No actor has the name that was looked for."""


_PYTHON = {
    "no_such_name": NoSuchName,
    "invalid": ValueError,
    "no_memory": MemoryError,
    "unpicklable": TypeError,
}


def make_error(error: BaseException, name: str, pid: int, task_id: "str | None") -> tuple:
    """In a worker: what an exception raised by a task comes to, (text, pickled exception or None).
    Never fails on account of the exception.
    """
    from ray.exceptions import RayTaskError

    if type(error).__name__ == "BdbQuit":
        from ray._private import debugging

        debugging.explain_quit(error)
    # A task that got a failed result and let it through: who asks wants the first cause, and the
    # text has it all.
    cause = error._ray_plain().cause if isinstance(error, RayTaskError) else error
    carried, remark = (None, "") if cause is None else carrying.carry(cause)
    return _encodable(f"{tell_error(error, name, pid, task_id)}{remark}"), carried


def tell_error(error: BaseException, name: str, pid: int, task_id: "str | None") -> str:
    """In a worker: an exception in words, which begin with whose it is. `task_id`: by which a person
    can run it again; None: that can't be done.
    """
    return _encodable(f"ray::{name}() (pid={pid})\n{replay.hint(task_id)}{_traceback(error)}")


def is_cancellation(error: BaseException) -> bool:
    """In a worker: whether a task that was cancelled ends with this exception on that account."""
    from ray.exceptions import TaskCancelledError

    # A module that is not loaded has raised nothing.
    asyncio = sys.modules.get("asyncio")
    kinds = (KeyboardInterrupt, TaskCancelledError)
    return isinstance(error, kinds) or (
        asyncio is not None and isinstance(error, asyncio.CancelledError)
    )


def _encodable(text):
    return text.encode("utf-8", "backslashreplace").decode()


def load_error(code: str, payload):
    """The exception for a failed result, or for a status of the core: its text, or a tuple that
    begins with it.
    """
    from ray import exceptions

    text, *more = (payload,) if isinstance(payload, str) else payload
    if code == "task":
        return _load_task_error(text, *more)
    if code in _PYTHON:
        return _PYTHON[code](text)
    kind = getattr(exceptions, _CLASSES.get(code, "RaySystemError"))
    if issubclass(kind, (exceptions.RayActorError, exceptions.TaskCancelledError)):
        return kind._told(text, *more)
    return kind(text)


def _load_task_error(text, carried=None):
    from _pickle import loads

    from ray.exceptions import RayTaskError

    name, pid = _whose(text)
    cause = None
    if carried is not None:
        try:
            cause = loads(carried)
        # Its class lives in a module that is not here, say.
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            text += f"\n(the exception itself could not be rebuilt here: {why})"
        if not isinstance(cause, BaseException):
            cause = None
    return RayTaskError(name, text, cause, pid).as_instanceof_cause()


def _whose(text):
    """The name and the process that the words of an error begin with."""
    line = text.partition("\n")[0]
    if not line.startswith("ray::"):
        return "", None
    name, _, rest = line.removeprefix("ray::").rpartition("() (pid=")
    number = rest.rstrip(")")
    return (name, int(number)) if number.isdigit() else ("", None)


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
