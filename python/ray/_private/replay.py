"""Tasks that failed, run again in this process, with the arguments that they had."""

import functools
import os
from types import GeneratorType

from ray import _core

_ID_DIGITS = 40
_TASK = 1 << 31  # in the number of a task, so that its ids are not those of objects
_CREATION = 1


class Kept:
    """A task that failed, ready to be called."""

    def __init__(self, name, callable, args, kwargs, note):
        self.name = name
        self.callable = callable
        self.args = args
        self.kwargs = kwargs
        self.note = note
        """What is missing of what it had; empty: nothing."""


def replay(task_id, *, pdb: bool = False):
    """Runs a task of this session that failed once more, in this process, with the arguments that it
    had, and returns what it returns (of one that yields, the list of its items), or raises what it
    raises. `task_id` is what its error tells.
    With `pdb` under the debugger, which stops at the first line, and where an exception is raised.

        ray.util.replay("TASK_ID", pdb=True)        # the id that the task's error told
    """
    return call(load(task_id), pdb)


def parse(task_id) -> tuple:
    """The node, the record and the generation that a task's id names."""
    text = task_id if isinstance(task_id, str) else task_id.hex()
    try:
        if len(text) != _ID_DIGITS:
            raise ValueError
        node, record, generation = text[:16], int(text[16:24], 16), int(text[24:], 16)
    except ValueError:
        raise ValueError(
            f"{text!r} is not the id of a task: that has {_ID_DIGITS} hexadecimal digits, as a "
            "task's error and ray.get_runtime_context().get_task_id() tell it"
        ) from None
    if not record & _TASK:
        raise ValueError(f"{text} is the id of an object or an actor, not of a task")
    return node, record & ~_TASK, generation


def hint(task_id: "str | None") -> str:
    """In a worker: a line for an error, that says how to run its task again."""
    if task_id is None:
        return ""
    command = f"ray replay {task_id}" if _can_be_joined() else f'ray.util.replay("{task_id}")'
    return f"  (to run it again here: {command})\n"


@functools.cache
def _can_be_joined() -> bool:
    return os.path.exists(os.path.join(os.path.dirname(_core.session()["socket"]), "node"))


def load(task_id, prepare=None) -> Kept:
    """What the daemon has kept of the task. `prepare` is called before anything is unpickled, with
    what the task's driver gave its workers, and with that driver's folder.
    """
    node, record, generation = parse(task_id)
    here = _core.current()["node_id"]
    if node != here:
        raise ValueError(
            f"task {task_id} ran on node {node}, and this program uses node {here}: what is kept "
            "of a failed task ends with its session"
        )
    kept = _core.kept_task(record, generation)
    if kept is None:
        raise ValueError(
            f"nothing is kept of task {task_id}: it has not failed, it is a call of an actor (whose "
            "state of that time is gone), or it was too long ago (the newest 100 are kept)"
        )
    kind, name, function, refs, args, inner, folder, note = kept
    if function is None:
        raise ValueError(f"the function of task {task_id} ({name}) was not kept")
    if prepare is not None:
        prepare(inner, folder)
    if note and any(ref is None for ref in refs):
        raise ValueError(f"task {task_id} ({name}) can't be run again: {note}")
    lost = [str(place) for place, ref in enumerate(refs) if ref is None]
    if lost:
        raise ValueError(
            f"task {task_id} ({name}) can't be run again: of the references among its arguments "
            f"these are gone, counted from 0: {', '.join(lost)}"
        )
    callable, positional, keywords = _core.recall(kind, function, refs, args)
    target = getattr(callable, "target", callable)
    title = f"{name}.__init__" if kind == _CREATION else name
    return Kept(title, target, positional, keywords, note)


def call(kept: Kept, pdb: bool):
    """Calls it; with `pdb` under the debugger, which stops at its first line, and where it fails."""
    if not pdb:
        result = kept.callable(*kept.args, **kept.kwargs)
        return list(result) if isinstance(result, GeneratorType) else result
    from pdb import Pdb, post_mortem

    debugger = Pdb()
    try:
        result = debugger.runcall(kept.callable, *kept.args, **kept.kwargs)
        # of one that yields, the first line comes only now
        return debugger.runcall(list, result) if isinstance(result, GeneratorType) else result
    except Exception as error:
        if type(error).__name__ == "BdbQuit":
            raise
        print(f"{type(error).__name__}: {error}")
        post_mortem(error.__traceback__)
        raise
