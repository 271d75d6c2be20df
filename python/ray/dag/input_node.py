"""What a graph is given when it is executed."""

from ray.dag.dag_node import DAGNode


class DAGInputData:
    """The arguments of an execution that has several."""

    def __init__(self, args, kwargs):
        self.args = tuple(args)
        self.kwargs = dict(kwargs)

    def __getitem__(self, key):
        return self.args[key] if isinstance(key, int) else self.kwargs[key]


class InputNode(DAGNode):
    """Stands for what execute() is given.

        with InputNode() as x:
            graph = f.bind(x)
        graph.execute(3)

    `x[0]`, `x["name"]` and `x.name` stand for a part of it: of the one argument of execute(), or,
    if that is given several, for one of these.
    """

    def __init__(self):
        super().__init__((), {})

    def __enter__(self) -> "InputNode":
        return self

    def __exit__(self, *exception) -> None:
        pass

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"'InputNode' object has no attribute '{name}'")
        return InputAttributeNode(self, name, False)

    def __getitem__(self, key):
        return InputAttributeNode(self, key, True)

    def _call(self, done, given):
        if isinstance(given, DAGInputData):
            return None  # only its parts can be used, which look for themselves
        return given


class InputAttributeNode(DAGNode):
    """A part of the input."""

    def __init__(self, node, key, is_item):
        super().__init__((), {}, None, (node,))
        self._key = key
        self._is_item = is_item

    def _call(self, done, given):
        if isinstance(given, DAGInputData):
            try:
                return given[self._key]
            except (IndexError, KeyError):
                raise ValueError(f"execute() was given no argument {self._key!r}") from None
        return given[self._key] if self._is_item else getattr(given, self._key)

    def __repr__(self):
        return f"(InputAttributeNode, {self._key!r})"
