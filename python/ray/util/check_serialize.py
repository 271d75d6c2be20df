"""What of an object can't be pickled: `ray.util.inspect_serializability`."""

import sys
from typing import Any, NamedTuple

from ray._private import explain

__all__ = ["FailureTuple", "inspect_serializability"]


class FailureTuple(NamedTuple):
    """A part that can't be pickled: the part, what it is called, and what it is a part of."""

    obj: Any
    name: str
    parent: Any

    def __repr__(self):
        return f"FailTuple({self.name} [obj={self.obj!r}, parent={self.parent!r}])"

    def __hash__(self):
        return hash((id(self.obj), self.name, id(self.parent)))

    def __eq__(self, other):
        return isinstance(other, FailureTuple) and hash(self) == hash(other)


def inspect_serializability(
    base_obj: Any, name: "str | None" = None, depth: int = 3, print_file: Any = None
) -> "tuple[bool, set[FailureTuple]]":
    """Whether an object can be sent to another process, and if not, which of its parts are to
    blame: fields, items, variables of a closure, globals that a function uses.

        lock = threading.Lock()
        ok, failures = ray.util.inspect_serializability(lambda: lock, name="f")
        # prints:  f -> closure variable 'lock' (_thread.lock): cannot pickle '_thread.lock' object

    Args:
        name: what the object is called in what is printed; by default its own name.
        depth: how many steps are gone into it.
        print_file: where the findings are printed; sys.stdout by default.

    Returns:
        (True, an empty set), or (False, the innermost parts that fail).
    """
    file = print_file or sys.stdout
    name = name or getattr(base_obj, "__name__", None) or f"<{type(base_obj).__name__}>"
    failures = set()
    error = explain.failure(base_obj)
    if error is None:
        print(f"{name} can be pickled", file=file)
        return True, failures
    _find([name], base_obj, None, error, depth, failures, {id(base_obj)}, file)
    return False, failures


def _find(path, value, parent, error, depth, failures, seen, file):
    """Notes the innermost parts of a value that fail by themselves, or the value itself."""
    deeper = False
    if depth > 0:
        for step, part in explain.parts(value):
            if id(part) in seen:
                continue
            failed = explain.failure(part)
            if failed is not None:
                deeper = True
                above = seen | {id(part)}
                _find([*path, step], part, value, failed, depth - 1, failures, above, file)
    if not deeper:
        failures.add(FailureTuple(value, path[-1], parent))
        print(f"{' -> '.join(path)} ({explain.kind(value)}): {error}", file=file)
