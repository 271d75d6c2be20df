"""Functions and classes in C, called from Python; and how a worker finds the Python functions that
C programs name.

    add = ray.cross_language.c_function("/path/libtasks.so", "add")
    ray.get(add.remote(1, 2))

    Counter = ray.cross_language.c_class("/path/libtasks.so", "Counter")
    counter = Counter.remote(10)
    ray.get(counter.increment.remote())

docs/c-api.md says what such a library looks like. Arguments are None, bool, int (of 64 bits),
float, str, bytes, tuples of these (up to 16 items, four deep), references to such values, and
arrays: numpy arrays and other buffers arrive as their memory, without a copy of what is in the
store.
"""

import os
from pickle import PickleBuffer

from ray import _core, actor, remote_function
from ray._private import options as _options
from ray._private import session

_PLAIN = frozenset((type(None), bool, int, float, str, bytes, tuple, _core.ObjectRef))
# Below this, a buffer stays inside of its pickle (see ray._private.serialization), where C has no
# view of it.
_LARGE = 4096


def c_function(library: "str | os.PathLike", symbol: str) -> "CFunction":
    """The function `symbol` of a shared library, as a remote function."""
    return CFunction(CDefinition(*_place(library, symbol)), {})


def c_class(library: "str | os.PathLike", name: str) -> "CClass":
    """The class `name` of a shared library (functions name_new, name_free and name_<method>), as an
    actor class.
    """
    return CClass(CDefinition(*_place(library, name)), {})


def _place(library, symbol):
    path = os.path.abspath(os.fspath(library))
    if not isinstance(symbol, str) or not symbol.isidentifier():
        raise ValueError(f"{symbol!r} is no name that a function in C can have")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no library {path}")
    return path, symbol


class CDefinition:
    """What stands for a definition in Python: the library and the symbol; exported once a session."""

    __slots__ = ("_export", "library", "methods", "name", "said")
    yields = False  # only its library knows: num_returns="streaming" says so

    def __init__(self, library, name):
        self.library = library
        self.name = name
        self.methods = _AnyMethod()
        self.said = None
        self._export = None

    def export(self):
        """The reference to the object that names it."""
        if self._export is None or self._export[0] != session.epoch:
            self._export = (session.epoch, _core.put(("c", self.library, self.name)))
        return self._export[1]

    def bind(self, args, kwargs, method=None):
        """Raises TypeError if it was called with names: C has none for its arguments."""
        if kwargs:
            name = self.name if method is None else f"{self.name}.{method}"
            raise TypeError(f"{name}() is in C and takes no arguments by name: {', '.join(kwargs)}")

    def __reduce__(self):
        return CDefinition, (self.library, self.name)


class _AnyMethod:
    """The methods of a class in C: whether there is one is for its library to say, when it is
    called.
    """

    def get(self, name):
        return None if name.startswith("_") else (1, 0, -1)

    def __iter__(self):
        return iter(())


def _remote(submitter):
    """The submitter, for arguments that may be arrays."""

    def remote(*args, **kwargs):
        for arg in args:
            if type(arg) not in _PLAIN:
                return submitter(*map(_argument, args), **kwargs)
        return submitter(*args, **kwargs)

    return remote


def _argument(value):
    if type(value) in _PLAIN:
        return value
    try:
        view = memoryview(value)
    except TypeError:
        return value  # what it is, the function says
    except ValueError as error:  # numpy has dtypes that a buffer has not
        raise TypeError(
            f"an array of that kind can't be an argument of a function in C: {error}"
        ) from None
    if not view.c_contiguous:
        raise TypeError(
            "an array must be contiguous, in the order of C, to be an argument of a function in C"
        )
    if "O" in view.format:
        raise TypeError("an array of Python objects can't be an argument of a function in C")
    # As a buffer, for only numpy's own pickle puts its memory apart.
    return PickleBuffer(view) if view.nbytes >= _LARGE else view.tobytes()


class CFunction:
    """A function in C whose calls run as tasks: `f.remote(...)`, and `f.options(...)` as for a
    remote function.
    """

    def __init__(self, definition, options):
        self._definition = definition
        self._options = options
        self.__name__ = definition.name
        self.remote = _remote(
            _core.Submitter(
                lambda: remote_function._prepare(definition, options),
                lambda *args, **kwargs: definition.bind(args, kwargs),
                0,
                -1,
            )
        )

    def options(self, **options) -> "CFunction":
        """The same function with these options."""
        checked = _options.for_task(options)
        if isinstance(checked.get("retry_exceptions"), tuple):
            raise ValueError(
                "retry_exceptions must be True or False for a function in C, which has no "
                "exceptions"
            )
        return CFunction(self._definition, {**self._options, **checked})

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"a function in C can't be called like a plain one: write {self.__name__}.remote(...)"
        )

    def __repr__(self):
        return f"CFunction({self._definition.library}: {self.__name__})"

    def __reduce__(self):
        return CFunction, (self._definition, self._options)


class CClass:
    """A class in C whose instances live in processes of their own: `C.remote(...)` makes one,
    returns its handle.
    """

    def __init__(self, definition, options):
        self._definition = definition
        self._options = options
        self.__name__ = definition.name
        self._create = _remote(
            _core.Submitter(
                lambda: actor.prepare_creation(definition, options),
                lambda *args, **kwargs: definition.bind(args, kwargs),
                0,
                -1,
            )
        )

    def remote(self, *args, **kwargs) -> "CActorHandle":
        """Makes an actor: its constructor gets these arguments, in another process. Returns its
        handle at once.
        """
        retries = _options.chosen(self._options, "max_task_retries", 0)
        return CActorHandle(self._create(*args, **kwargs), self._definition, self.__name__, retries)

    def options(self, **options) -> "CClass":
        """The same class with these options."""
        checked = _options.for_actor(options)
        if _options.chosen(checked, "max_concurrency", 1) > 1:
            raise ValueError(
                "max_concurrency must be 1 for a class in C: its methods run one after the other"
            )
        if checked.get("concurrency_groups"):
            raise ValueError("a class in C has no concurrency groups: its methods run one by one")
        return CClass(self._definition, {**self._options, **checked})

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"an actor can't be made like a plain object: write {self.__name__}.remote(...)"
        )

    def __repr__(self):
        return f"CClass({self._definition.library}: {self.__name__})"

    def __reduce__(self):
        return CClass, (self._definition, self._options)


class CActorHandle(actor.ActorHandle):
    """The way to an actor in C. Every name is a method; one that its library does not have fails
    when it is called.
    """

    def __getattr__(self, name):
        found = _for_arrays(super().__getattr__(name))
        self.__dict__[name] = found
        return found


class CActorMethod(actor.ActorMethod):
    """One method of one actor in C."""

    __slots__ = ()

    def options(self, **options) -> "CActorMethod":
        """The same method with these options (num_returns, max_task_retries, retry_exceptions)."""
        if isinstance(options.get("retry_exceptions"), (list, tuple)):
            raise ValueError(
                "retry_exceptions must be True or False for a method in C, which has no exceptions"
            )
        return _for_arrays(super().options(**options))

    def __reduce__(self):
        method, outline = super().__reduce__()
        return _rebuild_method, (method, outline)


def _for_arrays(method):
    method.remote = _remote(method.remote)
    method.__class__ = CActorMethod
    return method


def _rebuild_method(method, outline):
    return _for_arrays(method(*outline))


def load(named: tuple):
    """In a worker: the function or class that a C program named, ("python", module, name)."""
    if not (isinstance(named, tuple) and len(named) == 3 and named[0] == "python"):
        raise TypeError(f"a task names no function, but {named!r}")
    import importlib

    _, module, name = named
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    # What is remote already is called by its plain self here.
    if isinstance(found, remote_function.RemoteFunction):
        return found._function
    if isinstance(found, actor.ActorClass):
        return found.__ray_actor_class__
    if not callable(found):
        raise TypeError(f"{module}.{name} can't be called: it is a {type(found).__name__}")
    return found
