"""Remote functions: what `@ray.remote` makes of a function."""

from ray import _core
from ray._private import options as _options
from ray._private.definition import Definition
from ray._private.later import lacks
from ray._private.remote_call import RemoteCall

DEFAULT_MAX_RETRIES = 3
_ASYNC = 0x80 | 0x200


class RemoteFunction(RemoteCall):
    """A function whose calls run as tasks in other processes.

    `f.remote(...)` starts a task and returns at once with the reference to its result (a list of
    them with num_returns > 1, None with 0). A function that yields returns an ObjectRefGenerator,
    which gives out a reference for each item as soon as it is there. `f.options(...)` is the same
    function with other options.

        @ray.remote
        def add(x, y):
            return x + y

        ref = add.remote(1, 2)
        total = add.options(num_cpus=2).remote(ref, 3)
        print(ray.get(total))               # 6
    """

    def __init__(self, definition: Definition, options: dict, outline: tuple):
        # A recursive function holds itself while it is unpickled: the definition may still be empty
        # here, so what the submitter must know comes beside it.
        name, least, most = outline
        self._definition = definition
        self._options = options
        self._outline = outline
        self.__name__ = name
        # These two must not hold `self`, or every remote function would be garbage for the
        # collector.
        self.remote = _core.Submitter(
            lambda: _prepare(definition, options),
            lambda *args, **kwargs: definition.bind(args, kwargs),
            least,
            most,
        )

    def options(self, **options) -> "RemoteFunction":
        """The same function with these options instead of the ones it was defined with."""
        return _with_options(
            self._definition, {**self._options, **_options.for_task(options)}, self._outline
        )

    def bind(self, *args, **kwargs) -> "FunctionNode":  # noqa: F821
        """A call of it in a graph, which is made when the graph is executed (see ray.dag).

        graph = f.bind(1)
        print(ray.get(graph.execute()))
        """
        from ray.dag.function_node import FunctionNode

        return FunctionNode(self, args, kwargs)

    @property
    def _function(self):
        return self._definition.target

    @property
    def __wrapped__(self):
        return self._definition.target

    def __call__(self, *args, **kwargs):
        raise TypeError(
            "a remote function can't be called like a plain one: write "
            f"{self.__name__}.remote(...) instead of {self.__name__}(...), and ray.get() for its "
            "result"
        )

    def __repr__(self):
        return f"RemoteFunction({self.__name__})"

    def __reduce__(self):
        return RemoteFunction, (self._definition, self._options, self._outline)


lacks(
    RemoteFunction,
    "_default_options _function_descriptor _function_name _function_signature _is_cross_language",
)


def make(function, options: dict) -> RemoteFunction:
    """The remote function of a plain one, options not yet checked."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _ASYNC:
        raise ValueError(
            f"{function.__name__} is an async function, and only actors may have those: write a "
            "plain one, which may call asyncio.run()"
        )
    definition = Definition(function)
    made = _with_options(
        definition, _options.for_task(options), (definition.name, definition.least, definition.most)
    )
    for name in ("__doc__", "__module__", "__qualname__"):
        setattr(made, name, getattr(function, name, None))
    return made


def _with_options(definition, options, outline):
    given = options.get("retry_exceptions")
    classes = given if isinstance(given, tuple) else None
    if given and definition.retry != classes:
        # The classes travel with the function: the worker that sees the exception decides.
        definition = definition.retrying(classes)
    return RemoteFunction(definition, options, outline)


def _prepare(definition, options):
    demand = _options.demand(options, 1)
    return {
        "kind": _core.TASK,
        "function": definition.export(),
        "demand": demand,
        "where": _options.where(options, [demand], definition.name),
        **_options.results(
            _options.chosen(options, "num_returns", "streaming" if definition.yields else 1),
            options.get("_generator_backpressure_num_objects"),
        ),
        "max_retries": _options.chosen(options, "max_retries", DEFAULT_MAX_RETRIES),
        "retry_exceptions": bool(options.get("retry_exceptions")),
        "name": _options.chosen(options, "name", definition.name),
        "untold": _options.untold(options),
        # What a library allocated on a GPU is given back for certain only when its process ends.
        "max_calls": _options.chosen(options, "max_calls", 1 if options.get("num_gpus") else 0),
    }
