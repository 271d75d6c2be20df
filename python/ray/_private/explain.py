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
    return f"can't pickle {' -> '.join([what, *path])} ({kind(part)}): {error}"


def _blame(value, error):
    """The innermost part that fails by itself: (path to it, the part, its error)."""
    path, seen, tries = [], set(), _TRIES
    while len(path) < _DEPTH:
        seen.add(id(value))
        for step, part in parts(value):
            if id(part) in seen or tries == 0:
                continue
            tries -= 1
            failed = failure(part)
            if failed is not None:
                path.append(step)
                value, error = part, failed
                break
        else:
            break
    return path, value, error


def failure(part):
    """The exception that its pickling raises; None: it can be pickled."""
    try:
        serialization.inband(part)
    except Exception as error:
        return error
    return None


def parts(value):
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
    elif type(value).__name__ == "partial" and hasattr(value, "func"):
        yield "partial's function", value.func
        yield "partial's arguments", value.args
        yield "partial's keywords", value.keywords
    else:
        for name, item in _fields(value).items():
            if name not in ("__dict__", "__weakref__"):
                yield f".{name}", item
        for name in _slots(value):
            yield f".{name}", getattr(value, name)


def _fields(value):
    """The fields that are pickled. A class that says itself what these are may fail at that, or say
    something else than fields: then the object itself is to blame.
    """
    if isinstance(value, type):
        return dict(value.__dict__)
    try:
        state = value.__reduce_ex__(5)[2]
    except Exception:
        return {}
    if isinstance(state, tuple) and state:  # the fields, and the slots
        state = state[0]
    return dict(state) if isinstance(state, dict) else {}


def _parts_of_function(function):
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f"closure variable '{name}'", cell.cell_contents
        except ValueError:  # not filled yet
            pass
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield f"global variable '{name}'", function.__globals__[name]
    for index, item in enumerate(function.__defaults__ or ()):
        yield f"default argument {index}", item


def _names(code):
    """The names that a function, or one inside of it, may look for among its globals."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            found.update(dict.fromkeys(_names(constant)))
    return found


def _slots(value):
    found = []
    for base in type(value).__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                found.append(name)
    return found


def kind(part) -> str:
    """What it is, in words."""
    return f"{type(part).__module__}.{type(part).__qualname__}".replace("builtins.", "")
