"""A call of a remote function in a graph."""

from ray.dag.dag_node import DAGNode


class FunctionNode(DAGNode):
    """What `f.bind(...)` returns.

    graph = f.bind(1)
    print(ray.get(graph.execute()))
    """

    def __init__(self, function, args, kwargs):
        super().__init__(args, kwargs, function._options)
        self._body = function

    def _call(self, done, given):
        args, kwargs = self._arguments(done)
        return self._body.remote(*args, **kwargs)

    def __repr__(self):
        return f"(FunctionNode, {self._body.__name__})"
