"""Several results of a graph."""

from ray.dag.dag_node import DAGNode


class MultiOutputNode(DAGNode):
    """Has a graph return a list.

    graph = MultiOutputNode([f.bind(1), g.bind(2)])
    print(ray.get(graph.execute()))
    """

    def __init__(self, args):
        if not isinstance(args, (list, tuple)) or not all(isinstance(a, DAGNode) for a in args):
            raise ValueError("MultiOutputNode takes a list of nodes, as in [f.bind(1), g.bind(2)]")
        super().__init__((list(args),), {})

    def _call(self, done, given):
        (found,), _ = self._arguments(done)
        return found
