"""Actors: what `@ray.remote` makes of a class, and the handles of its instances."""

from types import GenericAlias

from ray import _core
from ray._private import names
from ray._private import options as _options
from ray._private.definition import Definition, Grouped, Retried
from ray._private.definition import is_async as is_async_class
from ray._private.later import lacks, no_attribute
from ray._private.remote_call import RemoteCall

_ASYNC_CONCURRENCY = 1000  # as in Ray
_MOST = 2**31 - 1  # as the core counts
_FUNCTION = type(lambda: None)
_OWN = frozenset(("_create", "_definition", "_options", "_outline"))  # of an ActorClass


def method(*args, **options):
    """Gives a method of an actor class options: `@ray.method(num_returns=2)`.

    max_task_retries: how often a call is run again when the actor's process dies (-1: without end);
    if it is not given, that of the class holds. retry_exceptions: True, or a list of exceptions,
    after which a call is run again too. concurrency_group: the group that calls of this method run
    in, one of those that the class names:

        @ray.remote(concurrency_groups={"io": 2})
        class Reader:
            @ray.method(concurrency_group="io")
            def read(self, path): ...

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
        inner.__ray_method_options__ = {k: v for k, v in checked.items() if v is not None}
        return function

    return decorate


def _is_method(thing):
    return callable(thing) or isinstance(thing, (staticmethod, classmethod))


def exit_actor():
    """Ends the actor whose method calls this: that call and all that come after it fail with
    ActorDiedError.

    The process ends as Python does, with its exit functions. It is the same as sys.exit() in a
    method.

        @ray.remote
        class Worker:
            def stop(self):
                self.save()
                ray.actor.exit_actor()
    """
    if not _core.is_connected() or _core.current()["actor_id"] is None:
        raise TypeError(
            "exit_actor called on a non-actor worker: it can be called in a method of an actor only"
        )
    raise SystemExit(0)


class ActorClassInheritanceException(TypeError):
    """A class can't inherit from an actor class."""


class ActorClass(RemoteCall):
    """A class whose instances live in processes of their own.

    `Class.remote(...)` makes one and returns its handle at once. `Class.options(...)` is the same
    class with other options. `ActorClass[Class]` is for annotations.

        @ray.remote(max_restarts=3)
        class Counter: ...

        counter = Counter.remote()
        other = Counter.options(name="other", num_cpus=1).remote()
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
            lambda: _prepare_creation(definition, options, name),
            lambda *args, **kwargs: definition.bind(args, kwargs),
            least,
            most,
        )

    def remote(self, *args, **kwargs) -> "ActorHandle":
        """Makes an actor: its constructor gets these arguments, in another process. Returns its
        handle at once.
        """
        options = self._options
        _options.check_naming(options)
        if options.get("get_if_exists"):
            return self._get_or_create(args, kwargs)
        name = options.get("name")
        mark = names.mark() if name else None
        reference = self._create(*args, **kwargs)
        handle = ActorHandle(reference, self._definition, self.__name__, *_of_handles(options))
        if name:
            names.remember(name, options.get("namespace"), handle, mark)
        return handle

    def _get_or_create(self, args, kwargs):
        from ray.exceptions import ActorAlreadyExistsError

        options = {**self._options, "get_if_exists": False}
        maker = ActorClass(self._definition, options, self._outline)
        # Whoever loses the race for the name finds the winner's; which may have died meanwhile.
        while True:
            found = names.find(options["name"], options.get("namespace"))
            if found is not None:
                return found
            try:
                return maker.remote(*args, **kwargs)
            except ActorAlreadyExistsError:
                pass

    def options(self, **options) -> "ActorClass":
        """The same class with these options instead of the ones it was defined with."""
        return ActorClass(
            self._definition, {**self._options, **_options.for_actor(options)}, self._outline
        )

    def _bind(self, *args, **kwargs) -> "ClassNode":  # noqa: F821
        """`Class.bind(...)`: an actor in a graph, which is made when the graph is executed (see
        ray.dag).
        """
        from ray.dag.class_node import ClassNode

        return ClassNode(self, args, kwargs)

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
            if name == "bind":  # a class may have one of its own
                return self._bind
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

        counter = Counter.remote()
        ref = counter.add.remote(1)
        use.remote(counter)                 # tasks and actors may have it too
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(
        self,
        reference,
        definition,
        name,
        max_task_retries=0,
        max_pending_calls=-1,
        groups=(),
        untold=False,
    ):
        self._ray_actor_ref = reference
        self._ray_definition = definition
        self._ray_class_name = name
        self._ray_max_task_retries = max_task_retries
        self._ray_max_pending_calls = max_pending_calls
        self._ray_groups = groups  # the names of its concurrency groups
        self._ray_untold = untold  # enable_task_events=False of the class holds for its calls
        self._ray_pending = None
        if max_pending_calls > 0:
            from ray._private.pending import PendingCalls

            self._ray_pending = PendingCalls(max_pending_calls, name)

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
        num_returns, *arity = known
        found = ActorMethod(
            self._ray_actor_ref,
            self._ray_definition,
            name,
            arity,
            {
                "num_returns": num_returns,
                "max_task_retries": self._ray_max_task_retries,
                "enable_task_events": not self._ray_untold,
                **((self._ray_definition.said or {}).get(name) or {}),
            },
            self._ray_groups,
            self._ray_pending,
        )
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
        # The reference's own way, so that whoever pickles it keeps the actor.
        _, (actor_id,) = self._ray_actor_ref.__reduce__()
        return _restore_handle, (
            type(self),
            actor_id,
            self._ray_definition,
            self._ray_class_name,
            self._ray_max_task_retries,
            self._ray_max_pending_calls,
            self._ray_groups,
            self._ray_untold,
        )


def _restore_handle(kind, actor_id, *args):
    from ray.exceptions import ActorHandleNotFoundError, OwnerDiedError

    try:
        return kind(_core._restore(actor_id), *args)
    except OwnerDiedError:
        raise ActorHandleNotFoundError(
            f"the actor {actor_id.hex()} is gone: the job that it belonged to has ended. An actor "
            'that is to outlive its job is made with lifetime="detached"'
        ) from None


ActorProxy = ActorHandle  # what newer annotations call it


class ActorMethod(RemoteCall):
    """One method of one actor: `.remote(...)` calls it and returns the reference to its result at
    once.

    It holds the actor's reference but not the handle that holds it: a circle there would keep the
    actor alive until the collector's next visit.

        ref = counter.add.remote(1)
        first, second = counter.pair.options(num_returns=2).remote()
    """

    __slots__ = (
        "_actor",
        "_arity",
        "_definition",
        "_groups",
        "_name",
        "_options",
        "_pending",
        "remote",
    )

    def __init__(self, actor, definition, name, arity, options, groups=(), pending=None):
        self._actor = actor
        self._definition = definition
        self._name = name
        self._arity = arity
        self._options = options
        self._groups = groups
        group = _group_number(definition, name, options, groups)
        errors = options.get("retry_exceptions")
        classes = Retried(errors) if isinstance(errors, tuple) else None
        self.remote = _core.Submitter(
            lambda: _prepare_call(definition, name, options, group, classes),
            lambda *args, **kwargs: definition.bind(args, kwargs, name),
            *arity,
            actor,
        )
        self._pending = pending
        if pending is not None:
            self.remote = pending.counting(self.remote)

    def options(self, **options) -> "ActorMethod":
        """The same method with these options: num_returns, max_task_retries, retry_exceptions,
        concurrency_group, enable_task_events; and name, which people see instead of the method's.
        """
        checked = {k: v for k, v in _options.for_call(options).items() if v is not None}
        return ActorMethod(
            self._actor,
            self._definition,
            self._name,
            self._arity,
            {**self._options, **checked},
            self._groups,
            self._pending,
        )

    def bind(self, *args, **kwargs) -> "ClassMethodNode":  # noqa: F821
        """A call of it in a graph, which is made when the graph is executed (see ray.dag).

        graph = actor.method.bind(1)
        print(ray.get(graph.execute()))
        """
        from ray.dag.class_node import ClassMethodNode

        return ClassMethodNode(self, self._name, args, kwargs, {})

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
        return ActorMethod, (
            self._actor,
            self._definition,
            self._name,
            self._arity,
            self._options,
            self._groups,
        )


lacks(ActorMethod, "_method_name")


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


def prepare_creation(definition, options: dict) -> dict:
    """What the core asks for before the first actor of a class is made."""
    # Without num_cpus an actor needs a CPU to be placed, and then holds none; with it, it keeps
    # what it asked for.
    demand, held = _options.demand(options, 1), _options.demand(options, 0)
    return {
        "kind": _core.ACTOR_CREATE,
        "function": definition.export(),
        "demand": demand,
        "held_demand": held,
        "where": _options.where(options, [demand, held], definition.name),
        "num_returns": 1,
        "max_retries": _options.chosen(options, "max_restarts", 0),
        "retry_exceptions": False,
        "name": definition.name,
        "max_calls": 0,
        "untold": _options.untold(options),
    }


def _prepare_creation(definition, options, name):
    """The same of a class in Python, with its concurrency and its name."""
    is_async = is_async_class(definition.target)
    most = _options.chosen(options, "max_concurrency", _ASYNC_CONCURRENCY if is_async else 1)
    several = is_async or most > 1
    groups = options.get("concurrency_groups") or {}
    _check_groups(definition, groups)
    exported = Grouped(definition, most, groups) if groups else definition
    naming = _naming(definition, options, name)
    return {
        **prepare_creation(definition, options),
        "function": exported.export(),
        # 0: one after the other, in the main thread of its process
        "max_concurrency": min(most + sum(groups.values()), _MOST) if several or groups else 0,
        "out_of_order": _out_of_order(definition, options, several),
        **({"naming": naming} if naming else {}),
    }


def _check_groups(definition, groups):
    """Raises if a method is in a group that the actor has not."""
    for method, said in (definition.said or {}).items():
        _group_number(definition, method, said, tuple(groups))


def _group_number(definition, method, options, groups) -> int:
    name = options.get("concurrency_group")
    if name is None:
        return 0
    if name not in groups:
        there = f"there are {', '.join(map(repr, groups))}" if groups else "it has none"
        raise ValueError(
            f"{definition.name}.{method} is to run in the concurrency group {name!r}, which the "
            f"actor has not ({there}): name it in @ray.remote(concurrency_groups={{...}})"
        )
    return groups.index(name) + 1


def _out_of_order(definition, options, several) -> bool:
    """Whether calls that wait for arguments hold up no others."""
    chosen = options.get("allow_out_of_order_execution")
    if several and chosen is False:
        raise ValueError(
            f"allow_out_of_order_execution can't be False for {definition.name}: an async actor, "
            "or one with a max_concurrency, runs several calls at once, in no certain order"
        )
    return several if chosen is None else chosen


def _of_handles(options) -> tuple:
    """What a handle knows of its actor's options."""
    return (
        _options.chosen(options, "max_task_retries", 0),
        _options.chosen(options, "max_pending_calls", -1),
        tuple(options.get("concurrency_groups") or ()),
        _options.untold(options),
    )


def _naming(definition, options, name):
    if options.get("name") is None and options.get("lifetime") is None:
        return None
    return names.naming(options, ActorHandle, definition, name, *_of_handles(options))


def _shown(name, method):
    """What the core takes for a call that people see by another name: see mob_task_t."""
    room = 254 - len(method.encode())
    return name.encode(errors="replace")[: max(room, 0)].decode(errors="ignore") + "\0" + method


def _prepare_call(definition, name, options, group, classes):
    return {
        "kind": _core.ACTOR_CALL,
        # a call's function is its actor's; here it says which exceptions, if not all of them
        "function": classes and classes.export(),
        **_options.results(
            options["num_returns"], options.get("_generator_backpressure_num_objects")
        ),
        "max_retries": options["max_task_retries"],
        "retry_exceptions": bool(options.get("retry_exceptions")),
        "name": _shown(options["name"], name) if "name" in options else name,
        "max_calls": 0,
        "group": group,
        "untold": _options.untold(options),
    }
