"""Actors: what `@ray.remote` makes of a class, and the handles of its instances."""

from types import GenericAlias

from ray import _core
from ray._private import options as _options
from ray._private.definition import Definition
from ray._private.definition import is_async as is_async_class
from ray._private.later import lacks, no_attribute, not_yet
from ray._private.remote_call import RemoteCall

_ASYNC_CONCURRENCY = 1000  # as in Ray
_FUNCTION = type(lambda: None)
_OWN = frozenset(("_create", "_definition", "_options", "_outline"))  # of an ActorClass


def method(*args, **options):
    """Gives a method of an actor class options: `@ray.method(num_returns=2)`.

    `@ray.method` alone leaves a method as it is. It is for tools that check types.
    """
    if len(args) == 1 and not options and _is_method(args[0]):
        return args[0]
    if args:
        raise TypeError(
            "ray.method takes a method, or options by name, as in @ray.method(num_returns=2)"
        )
    checked = _options.for_method(options)

    def decorate(function):
        inner = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
        inner.__ray_num_returns__ = _options.chosen(checked, "num_returns", 1)
        return function

    return decorate


def _is_method(thing):
    return callable(thing) or isinstance(thing, (staticmethod, classmethod))


def exit_actor():
    """Ends the actor whose method calls this: that call and all that come after it fail with
    ActorDiedError.

    The process ends as Python does, with its exit functions. It is the same as sys.exit() in a
    method.
    """
    if not _core.is_connected() or _core.current()["actor_id"] is None:
        raise TypeError("exit_actor can be called only in a method of an actor, and this is none")
    raise SystemExit(0)


class ActorClassInheritanceException(TypeError):
    """A class can't inherit from an actor class."""


class ActorClass(RemoteCall):
    """A class whose instances live in processes of their own.

    `Class.remote(...)` makes one and returns its handle at once. `Class.options(...)` is the same
    class with other options. `ActorClass[Class]` is for annotations.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, definition, options, outline):
        if isinstance(definition, str):  # this is what Python does for `class Sub(Base)`
            raise ActorClassInheritanceException(
                f"{definition} can't inherit from an actor class: inherit from the plain class, "
                f"then apply ray.remote"
            )
        name, least, most = outline
        self._definition = definition
        self._options = options
        self._outline = outline
        self.__name__ = name
        self._create = _core.Submitter(
            lambda: prepare_creation(definition, options, _concurrency(definition, options)),
            lambda *args, **kwargs: definition.bind(args, kwargs),
            least,
            most,
        )

    def remote(self, *args, **kwargs) -> "ActorHandle":
        """Makes an actor: its constructor gets these arguments, in another process. Returns its
        handle at once.
        """
        return ActorHandle(self._create(*args, **kwargs), self._definition, self.__name__)

    def options(self, **options) -> "ActorClass":
        """The same class with these options instead of the ones it was defined with."""
        return ActorClass(
            self._definition, {**self._options, **_options.for_actor(options)}, self._outline
        )

    @property
    def __ray_actor_class__(self):
        return self._definition.target

    def __getattr__(self, name):
        # Only reached for what is not the actor class's own: its user's attributes, static and
        # class methods. Nothing is looked up in an object that is not made yet, nor what Python
        # itself asks for: this is no such class.
        if name in _OWN or (name.startswith("__") and name.endswith("__")):
            raise no_attribute("ActorClass", name, f"'ActorClass' object has no attribute '{name}'")
        target = self._definition.target
        raw = next((base.__dict__[name] for base in target.__mro__ if name in base.__dict__), None)
        if isinstance(raw, _FUNCTION):
            raise AttributeError(
                f"'{name}' is a method of instances of {self.__name__}: make an actor with "
                f"{self.__name__}.remote(...) and call its .{name}.remote(...)"
            )
        try:
            return getattr(target, name)
        except AttributeError:
            raise no_attribute(
                "ActorClass", name, f"actor class '{self.__name__}' has no attribute '{name}'"
            ) from None

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"an actor can't be made like a plain object: write {self.__name__}.remote(...) "
            f"instead of {self.__name__}(...)"
        )

    def __repr__(self):
        return f"ActorClass({self.__name__})"

    def __reduce__(self):
        return ActorClass, (self._definition, self._options, self._outline)


class ActorHandle:
    """The way to an actor: `handle.method.remote(...)` calls it. The actor ends when its last
    handle is gone. `ActorHandle[Class]` is for annotations.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, reference, definition, name):
        self._ray_actor_ref = reference
        self._ray_definition = definition
        self._ray_class_name = name

    def __getattr__(self, name):
        # Only reached for a name that is not in __dict__, which is where the methods are kept once
        # made.
        if name.startswith("_ray_"):  # ours, and there only when it is whole
            raise no_attribute(
                "ActorHandle", name, f"'ActorHandle' object has no attribute '{name}'"
            )
        known = self._ray_definition.methods.get(name)
        if known is None:
            raise no_attribute(
                "ActorHandle", name, f"actor class '{self._ray_class_name}' has no method '{name}'"
            )
        found = ActorMethod(self._ray_actor_ref, self._ray_definition, name, *known)
        self.__dict__[name] = found
        return found

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._ray_definition.methods})

    @property
    def _actor_id(self):
        return self._ray_actor_ref

    @property
    def _ray_actor_id(self):
        return self._ray_actor_ref

    def __eq__(self, other):
        return isinstance(other, ActorHandle) and self._ray_actor_ref == other._ray_actor_ref

    def __hash__(self):
        return hash(self._ray_actor_ref)

    def __repr__(self):
        return f"Actor({self._ray_class_name}, {self._ray_actor_ref.hex()})"

    def __copy__(self):
        return self  # there is one actor behind all its handles

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        _check_pickled_by_us(self)
        return ActorHandle, (self._ray_actor_ref, self._ray_definition, self._ray_class_name)


ActorProxy = ActorHandle  # what newer annotations call it


class ActorMethod(RemoteCall):
    """One method of one actor: `.remote(...)` calls it and returns the reference to its result at
    once.

    It holds the actor's reference but not the handle that holds it: a circle there would keep the
    actor alive until the collector's next visit.
    """

    __slots__ = ("_actor", "_definition", "_known", "_name", "remote")

    def __init__(self, actor, definition, name, num_returns, least, most):
        self._actor = actor
        self._definition = definition
        self._name = name
        self._known = (num_returns, least, most)
        self.remote = _core.Submitter(
            lambda: _prepare_call(definition, name, num_returns),
            lambda *args, **kwargs: definition.bind(args, kwargs, name),
            least,
            most,
            actor,
        )

    def options(self, **options) -> "ActorMethod":
        """The same method with these options (num_returns)."""
        num_returns, least, most = self._known
        checked = _options.for_method(options)
        num_returns = _options.chosen(checked, "num_returns", num_returns)
        return ActorMethod(self._actor, self._definition, self._name, num_returns, least, most)

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"an actor's method can't be called like a plain one: write .{self._name}.remote(...) "
            f"instead of .{self._name}(...), and ray.get() for its result"
        )

    def __repr__(self):
        return f"ActorMethod({self._definition.name}.{self._name})"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        _check_pickled_by_us(self)
        return ActorMethod, (self._actor, self._definition, self._name, *self._known)


lacks(ActorMethod, "_bind _method_name")


def _check_pickled_by_us(what):
    if not _core.is_collecting():
        raise TypeError(
            f"{what!r} can't be pickled by itself, for an actor lives only as long as its handles "
            "do: pass the actor's handle to a task, or put it inside a value that ray.put or a "
            "task gets"
        )


def make(target: type, options: dict) -> ActorClass:
    """The actor class of a plain one, options not yet checked."""
    definition = Definition(target)
    made = ActorClass(
        definition,
        _options.for_actor(options),
        (definition.name, definition.least, definition.most),
    )
    for name in ("__doc__", "__module__", "__qualname__"):
        setattr(made, name, getattr(target, name, None))
    return made


def prepare_creation(definition, options: dict, max_concurrency: int) -> dict:
    """What the core asks for before the first actor of a class is made."""
    # Without num_cpus an actor needs a CPU to be placed, and then holds none; with it, it keeps
    # what it asked for.
    return {
        "kind": _core.ACTOR_CREATE,
        "function": definition.export(),
        "demand": _options.demand(options, 1),
        "held_demand": _options.demand(options, 0),
        "num_returns": 1,
        "max_retries": 0,
        "retry_exceptions": False,
        "name": definition.name,
        "max_calls": 0,
        "max_concurrency": max_concurrency,
    }


def _concurrency(definition, options) -> int:
    """How many calls may run at once; 0 for one after the other, in the main thread of its process."""
    is_async = is_async_class(definition.target)
    most = _options.chosen(options, "max_concurrency", _ASYNC_CONCURRENCY if is_async else 1)
    return most if is_async or most > 1 else 0


def _prepare_call(definition, name, num_returns):
    if num_returns == "streaming":
        raise not_yet(f"{definition.name}.{name} yields, and a generator as an actor's method")
    return {
        "kind": _core.ACTOR_CALL,
        "function": None,
        "num_returns": num_returns,
        "max_retries": 0,
        "retry_exceptions": False,
        "name": name,
        "max_calls": 0,
    }
