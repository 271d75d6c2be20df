"""A function or class that the user made remote, and how it reaches the workers.

A definition is exported once a session, as an ordinary object of the store; tasks name that object.
Pickled inside something else (a remote function is often a global of another), it travels as the
reference to its export, so a function that calls ten others carries ten references and not ten
functions.

A recursive function meets itself while it is being exported, when there is no reference yet: it
then goes by value, and the pickler's memo closes the circle. The worker that loads the export is
told its reference, so the copy that the function finds under its own name is exported already.

`least` and `most` are the numbers of positional arguments that can't be wrong (most is -1 without a
limit; an empty range means that every call must be looked at): the core asks for `bind` only beyond
them or with keywords.
"""

import _thread

from ray import _core
from ray._private import every_actor, session

_VARARGS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x20, 0x80, 0x200
_FUNCTION = type(lambda: None)
_EVERY_CALL = (1, 0)

# Exports nest (one function names another) and a process may have several threads that call the
# same function first.
_exporting = _thread.RLock()


_SIZE_MOST = 100 * 2**20  # as in Ray


class Definition:
    """One remote function or actor class; its options are kept by those who use it."""

    __slots__ = (
        "__weakref__",
        "_export",
        "_in_export",
        "_signatures",
        "_target",
        "least",
        "methods",
        "most",
        "name",
        "retry",
        "said",
        "yields",
    )

    def __init__(self, target):
        self._start(target)
        self.name = target.__name__
        self.retry = None  # of a function: the exceptions after which it is run again
        self.methods = None
        self.said = None  # of a class: the options that ray.method gave its methods, by method
        self.yields = False
        if isinstance(target, type):
            self.methods = _methods(target)
            self.said = _said_of_methods(target)
            self.least, self.most = self.methods.get("__init__", (1, 0, 0))[1:]
        else:
            self.least, self.most = _arity(target, 0)
            self.yields = bool(_flags(target) & _GENERATOR)

    def _start(self, target, export=None):
        self._target = target
        self._export = export
        self._in_export = False
        self._signatures = {}

    def check_size(self, size: int):
        """Raises if a pickle of this has more bytes than any function should."""
        if size > _SIZE_MOST:
            what = "actor class" if self.methods is not None else "remote function"
            raise ValueError(
                f"The {what} {self.name} is too large ({size >> 20} MiB, and the most is "
                f"{_SIZE_MOST >> 20} MiB): it carries a large array or other object of the scope "
                "that it was defined in. Put that into the store with ray.put(), and pass the "
                "reference as an argument"
            )

    @property
    def target(self):
        """The function or class itself, fetched if only its export is known here."""
        if self._target is None:
            if self._export[0] != session.epoch:
                raise RuntimeError(
                    f"{self.name} came from another process in a session that ended before it "
                    "could be fetched: define it here, or get it again"
                )
            self._target = _core.get(self._export[1])._target
        return self._target

    def export(self):
        """The reference to this definition in the store, put there by the first call in a session."""
        found = self._export
        if found is not None and found[0] == session.epoch:
            return found[1]
        with _exporting:
            if self._export is None or self._export[0] != session.epoch:
                self._in_export = True
                try:
                    self._export = (session.epoch, _core.put(self))
                finally:
                    self._in_export = False
            return self._export[1]

    def loaded(self, reference=None):
        """In a worker: this is what `reference` holds. Returns what the worker is to call."""
        if reference is not None:
            self._export = (session.epoch, reference)
        if self.methods is not None:
            every_actor.give_to(self._target)
            if _flags(self._target.__init__) & _COROUTINE:
                return _awaited(self._target)
            return self._target
        return Retrying(self._target, self.retry) if self.retry else self._target

    def retrying(self, classes):
        """The same definition, whose tasks are run again after an exception of these classes."""
        copy = Definition.__new__(Definition)
        copy._start(self.target)
        for name in ("least", "methods", "most", "name", "said", "yields"):
            setattr(copy, name, getattr(self, name))
        copy.retry = classes
        return copy

    def bind(self, args, kwargs, method=None):
        """Raises TypeError unless the function (the method; the constructor of a class) can be
        called like this.
        """
        if method is None and self.methods is not None:
            method = "__init__"
            # object takes anything as long as it is not asked, so its signature says nothing.
            if (
                (args or kwargs)
                and self.target.__init__ is object.__init__
                and self.target.__new__ is object.__new__
            ):
                raise TypeError(f"{self.name}() takes no arguments")
        signature, bound = self._signature(method)
        if signature is not None:
            try:
                signature.bind(*([None] if bound else []), *args, **kwargs)
            except TypeError as error:
                name = self.name if method in (None, "__init__") else f"{self.name}.{method}"
                raise TypeError(f"{name}() {error}") from None

    def _signature(self, method):
        found = self._signatures.get(method)
        if found is None:
            import inspect

            raw = self.target
            if method is not None:
                raw = inspect.getattr_static(self.target, method, every_actor.METHODS.get(method))
            bound = method is not None and not isinstance(raw, staticmethod)
            function = raw.__get__(None, self.target) if _is_partial(raw) else _function(raw)
            try:
                found = inspect.signature(function, follow_wrapped=False), bound
            except (TypeError, ValueError):  # written in C, and silent about its arguments
                found = None, bound
            self._signatures[method] = found
        return found

    def __reduce__(self):
        from ray._private import serialization

        if serialization.active() and not self._in_export:
            return _from_export, (self.export(), self._outline())
        return _blank, (), (self.target, self._outline())

    def _outline(self):
        return (
            self.name,
            self.least,
            self.most,
            self.methods,
            self.said,
            self.retry,
            self.yields,
        )

    def _outlined(self, outline):
        (
            self.name,
            self.least,
            self.most,
            self.methods,
            self.said,
            self.retry,
            self.yields,
        ) = outline

    def __setstate__(self, state):
        # The target may be half made here (it can contain this very definition), so nothing is read
        # off it.
        target, outline = state
        self._start(target)
        self._outlined(outline)


class Retrying:
    """A function together with the exceptions after which it is run again."""

    __slots__ = ("__name__", "classes", "function")

    def __init__(self, function, classes):
        self.__name__ = function.__name__
        self.function = function
        self.classes = classes

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class Grouped:
    """A class together with the concurrency groups of an actor that is made of it."""

    __slots__ = ("__name__", "_export", "_loaded", "_most", "definition", "groups")

    def __init__(self, definition, most: int, groups: dict):
        self.__name__ = definition.name
        self.definition = definition
        self.groups = groups
        self._most = most  # of the default group
        self._export = self._loaded = None

    @property
    def limits(self) -> tuple:
        """How many calls run at once, by the group's number; 0 is the default group."""
        return (self._most, *self.groups.values())

    def export(self):
        """The reference to this in the store, put there once a session."""
        if self._export is None or self._export[0] != session.epoch:
            self._export = (session.epoch, _core.put(self))
        return self._export[1]

    @property
    def made(self):
        """In a worker: what makes an instance."""
        if self._loaded is None:
            self._loaded = self.definition.target and self.definition.loaded()
        return self._loaded

    def __call__(self, *args, **kwargs):
        return self.made(*args, **kwargs)

    def __reduce__(self):
        return Grouped, (self.definition, self._most, self.groups)


class Retried:
    """The exceptions after which calls of a method are run again, for the worker that sees them."""

    __slots__ = ("_export", "classes")

    def __init__(self, classes):
        self.classes = classes
        self._export = None

    def export(self):
        """The reference to this in the store, put there once a session."""
        if self._export is None or self._export[0] != session.epoch:
            self._export = (session.epoch, _core.put(self))
        return self._export[1]

    def __reduce__(self):
        return Retried, (self.classes,)


of_actor = None  # in an actor's process: its class, and the names of its concurrency groups


def load(exported, reference):
    """In a worker: what is to be called for the function or class that the store has under
    `reference`; or what the calls are run again for that name it.
    """
    global of_actor
    if isinstance(exported, Definition):
        if exported.methods is not None:
            of_actor = (exported, ())
        return exported.loaded(reference)
    if isinstance(exported, Grouped):
        of_actor = (exported.definition, exported.groups)
    if isinstance(exported, (Grouped, Retried)):
        return exported
    from ray import cross_language

    return cross_language.load(exported)


def should_retry(error, function) -> bool:
    """In a worker: whether a task or call with retry_exceptions is to be run again after this
    exception.
    """
    limited = isinstance(function, (Retrying, Retried))
    return isinstance(error, function.classes if limited else Exception)


def _blank():
    return Definition.__new__(Definition)


# Of this driver: those of which only the export is known here. Made when it is needed first.
_elsewhere = None


def fetch_all():
    """Before the session ends: what came from other processes by its export alone is fetched, so
    that it works in the next one.
    """
    while _elsewhere:
        definition = _elsewhere.pop()
        try:
            if definition._target is None:
                definition._target = _core.get(definition._export[1], timeout=5)._target
        except Exception:  # the daemon is gone, say: its first use will tell
            pass


def _note_elsewhere(definition):
    global _elsewhere
    if _elsewhere is None:
        import weakref

        _elsewhere = weakref.WeakSet()
    _elsewhere.add(definition)


def _from_export(reference, outline):
    definition = _blank()
    definition._start(None, (session.epoch, reference))
    if session.mode != session.WORKER_MODE:
        _note_elsewhere(definition)
    definition._outlined(outline)
    return definition


def _function(member):
    if _is_partial(member):
        return member.func
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def _is_partial(member) -> bool:
    # By its name: whoever has one has imported functools, and nobody else needs to.
    return (type(member).__module__, type(member).__name__) == ("functools", "partialmethod")


def _flags(function) -> int:
    return getattr(getattr(function, "__code__", None), "co_flags", 0)


def _arity(function, bound):
    """(least, most) of a function, the first `bound` arguments left out."""
    code = getattr(function, "__code__", None)
    if code is None:  # written in C: its signature is looked at, if it has one
        return _EVERY_CALL
    if code.co_kwonlyargcount > len(getattr(function, "__kwdefaults__", None) or ()):
        return _EVERY_CALL
    count = max(code.co_argcount - bound, 0)
    least = max(count - len(getattr(function, "__defaults__", None) or ()), 0)
    return least, -1 if code.co_flags & _VARARGS else count


def is_async(target) -> bool:
    """Whether an actor of this class, or of what `load` made of it, runs its calls in an event
    loop.
    """
    if isinstance(target, Grouped):
        target = target.made
    if _flags(target) & _COROUTINE:  # what _awaited made
        return True
    return any(
        _flags(_function(value)) & (_COROUTINE | _ASYNC_GENERATOR)
        for value in _members(target).values()
    )


def _awaited(target):
    """What makes an instance of a class whose __init__ is `async def`, to be awaited."""

    async def make(*args, **kwargs):
        made = target.__new__(target, *args, **kwargs)
        await made.__init__(*args, **kwargs)
        return made

    return make


def _members(target):
    found = {}
    for base in reversed(target.__mro__):
        if base is not object:
            found.update(base.__dict__)
    return found


def _said_of_methods(target):
    """The options that ray.method gave, by method; None if it gave none."""
    found = {}
    for name, member in _members(target).items():
        said = getattr(_function(member), "__ray_method_options__", None)
        if said:
            found[name] = said
    return found or None


def _methods(target):
    """Every method of a class: its number of results ("streaming" for one that yields), and its
    arity.
    """
    methods = {name: (1, *_arity(function, 1)) for name, function in every_actor.METHODS.items()}
    for name, member in _members(target).items():
        function = _function(member)
        plain = isinstance(function, _FUNCTION)
        dunder = name.startswith("__") and name.endswith("__")
        if (
            name == "__new__"
            or isinstance(function, type)
            or not callable(function)
            or (dunder and not plain)
        ):
            continue
        said = getattr(function, "__ray_method_options__", {}).get("num_returns")
        yields = _flags(function) & (_GENERATOR | _ASYNC_GENERATOR)
        results = said if said is not None else "streaming" if yields else 1
        arity = (
            _EVERY_CALL
            if _is_partial(member)
            else _arity(function, 0 if isinstance(member, staticmethod) else 1)
        )
        methods[name] = (results, *arity)
    return methods
