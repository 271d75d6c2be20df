"""What an ObjectRef answers beside its id and its value: methods of the core's type that are
written in Python, and given to it when `ray` is imported.
"""

from ray import _core


def task_id(self):
    """The id of the task that makes this object: get_runtime_context().get_task_id() there.

    The nil id once the object is there: nothing of a task that is done is kept; and for ray.put.
    """
    from ray._private.ids import TaskID

    found = _core.maker(self)
    return TaskID.nil() if found is None else TaskID.from_hex(found)


def job_id(self):
    """The id of the job that this process belongs to, which made the reference or was given it."""
    import ray

    return ray.get_runtime_context().job_id


def call_site(self) -> str:
    """Where the object was made, as `ray memory` shows it; "" unless
    RAY_record_ref_creation_sites=1.
    """
    from ray.util.state import list_objects

    hexadecimal = self.hex()
    for row in list_objects(limit=1_000_000, raise_on_missing_output=False):
        if row.object_id == hexadecimal:
            site = row.call_site
            return "" if site in (None, "disabled") else site
    return ""


def on_completed(self, callback):
    """Calls `callback` with the value, or with the exception, when the object is there: in a thread
    that all such callbacks share.

        ref._on_completed(print)
    """

    def tell(future):
        error = future.exception()
        callback(future.result() if error is None else error)

    self.future().add_done_callback(tell)


def as_future(self, _internal=False):
    """An asyncio.Future of the value, in the running event loop."""
    import asyncio

    async def value():
        return await self

    return asyncio.ensure_future(value())


def _from_binary(cls, id: bytes):
    """The reference of these 20 bytes, of an object that is there or is made."""
    return _core._restore(id)


def _from_hex(cls, hex_id: "str | bytes"):
    """The reference of the text that `hex` gives, of an object that is there or is made."""
    return _core._restore(bytes.fromhex(hex_id if isinstance(hex_id, str) else hex_id.decode()))


def give_to(kind: type):
    """Gives the type its methods."""
    kind.from_binary = classmethod(_from_binary)
    kind.from_hex = classmethod(_from_hex)
    kind.task_id = task_id
    kind.job_id = job_id
    kind.call_site = call_site
    kind._on_completed = on_completed
    kind.as_future = as_future


waited = []  # what the last call waited for that Ctrl-C has ended


def interrupted(refs, error: KeyboardInterrupt):
    """The core calls this when Ctrl-C ends a ray.get or ray.wait. In a REPL the exception says what
    to do about it.
    """
    global waited
    import sys

    waited = [refs] if isinstance(refs, _core.ObjectRef) else list(refs)
    if not (hasattr(sys, "ps1") or sys.flags.interactive):
        return
    words = (
        "the task that it waited for goes on: ray.util.cancel_waited() cancels it"
        if len(waited) == 1
        else f"the {len(waited)} tasks that it waited for go on: ray.util.cancel_waited() cancels "
        "them"
    )
    if hasattr(error, "add_note"):
        error.add_note(words)
    else:  # Python 3.10
        print(words, file=sys.stderr)


def cancel_waited(*, force: bool = False, recursive: bool = True) -> int:
    """Cancels what the last `ray.get` or `ray.wait` waited for that Ctrl-C has ended; returns how
    many that were.

        >>> ray.get(slow.remote())
        ^CKeyboardInterrupt
        the task that it waited for goes on: ray.util.cancel_waited() cancels it
        >>> ray.util.cancel_waited()
        1
    """
    import ray

    global waited
    refs, waited = waited, []
    for ref in refs:
        ray.cancel(ref, force=force, recursive=recursive)
    return len(refs)
