"""Finds the part of a value that can't be pickled, so that the error names it instead of a type
from deep inside.
"""

from ray._private import serialization
from ray._private.definition import Definition

_DEPTH = 12
_TRIES = 500


def unpicklable(value, what: str, error: BaseException) -> str:
    """A text like: can't pickle argument 0 -> .lock (_thread.lock): cannot pickle '_thread.lock'
    object.
    """
    if isinstance(value, Definition):
        value, what = value.target, value.name
    path, part, error = _blame(value, error)
    return f"can't pickle {' -> '.join([what, *path])} ({_kind(part)}): {error}"


def _blame(value, error):
    """The innermost part that fails by itself: (path to it, the part, its error)."""
    path, seen, tries = [], set(), _TRIES
    while len(path) < _DEPTH:
        seen.add(id(value))
        for step, part in _parts(value):
            if id(part) in seen or tries == 0:
                continue
            tries -= 1
            failed = _failure(part)
            if failed is not None:
                path.append(step)
                value, error = part, failed
                break
        else:
            break
    return path, value, error


def _failure(part):
    try:
        serialization.inband(part)
    except Exception as error:
        return error
    return None


def _parts(value):
    """What a value is made of, each with the step that leads to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"[{key!r}]", item
            yield f"key {key!r}", key
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield f"member {item!r}", item
    elif hasattr(value, "__code__"):
        yield from _parts_of_function(value)
    elif hasattr(value, "__func__") and hasattr(value, "__self__"):
        yield "method of", value.__self__
        yield "method", value.__func__
    else:
        for name, item in list(getattr(value, "__dict__", {}).items()):
            if name not in ("__dict__", "__weakref__"):
                yield f".{name}", item


def _parts_of_function(function):
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f"closure variable '{name}'", cell.cell_contents
        except ValueError:  # not filled yet
            pass
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield f"global variable '{name}'", function.__globals__[name]
    for index, item in enumerate(function.__defaults__ or ()):
        yield f"default argument {index}", item


def _kind(part):
    return f"{type(part).__module__}.{type(part).__qualname__}".replace("builtins.", "")
