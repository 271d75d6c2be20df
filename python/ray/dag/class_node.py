"""Actors and calls of their methods in a graph."""

from ray.dag.dag_node import DAGNode


class ClassNode(DAGNode):
    """What `Class.bind(...)` returns: an actor that is made when the graph is executed, one for
    each execution. Its calls are made in the order in which they were bound, also those whose
    result nobody uses.

        counter = Counter.bind()
        counter.add.bind(2)
        print(ray.get(counter.get.bind().execute()))  # 2
    """

    def __init__(self, actor_class, args, kwargs):
        super().__init__(args, kwargs, actor_class._options)
        self._body = actor_class
        self._last_call = None

    def _call(self, done, given):
        args, kwargs = self._arguments(done)
        return self._body.remote(*args, **kwargs)

    def __getattr__(self, name):
        # Only what is not the node's own: a method of the class.
        if name.startswith("_") or "_body" not in self.__dict__:
            raise AttributeError(f"'ClassNode' object has no attribute '{name}'")
        if name not in self._body._definition.methods:
            raise AttributeError(f"actor class '{self._body.__name__}' has no method '{name}'")
        return _Method(self, name, {})

    def __repr__(self):
        return f"(ClassNode, {self._body.__name__})"


class _Method:
    """A method of an actor that is not made yet: `.bind(...)`, `.options(...)`."""

    def __init__(self, actor, name, options):
        self._actor = actor
        self._name = name
        self._options = options

    def options(self, **options):
        """The same method with these options."""
        return _Method(self._actor, self._name, {**self._options, **options})

    def bind(self, *args, **kwargs) -> "ClassMethodNode":
        """A call of it, for a graph."""
        before = self._actor._last_call
        node = ClassMethodNode(
            self._actor,
            self._name,
            args,
            kwargs,
            self._options,
            (self._actor,) if before is None else (self._actor, before),
        )
        self._actor._last_call = node
        return node


class ClassMethodNode(DAGNode):
    """What `.method.bind(...)` returns, of a ClassNode or of an actor that is there.

    graph = actor.double.bind(2)
    print(ray.get(graph.execute()))
    """

    def __init__(self, actor, name, args, kwargs, options, others=()):
        super().__init__(args, kwargs, options, others)
        self._actor = actor  # a ClassNode, or a method of an actor that is there
        self._method_name = name

    def get_method_name(self) -> str:
        """The method that it calls."""
        return self._method_name

    def _call(self, done, given):
        args, kwargs = self._arguments(done)
        method = self._actor
        if isinstance(method, ClassNode):
            method = getattr(done[id(method)], self._method_name)
            if self._bound_options:
                method = method.options(**self._bound_options)
        return method.remote(*args, **kwargs)

    def __repr__(self):
        return f"(ClassMethodNode, {self._method_name})"
