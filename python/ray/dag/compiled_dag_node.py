"""What experimental_compile returns."""

from typing import Any

import ray
from ray.dag.class_node import ClassNode
from ray.dag.dag_node import _execute, _given, _ordered


class CompiledDAG:
    """A graph whose actors are there, until teardown().

    compiled = graph.experimental_compile()
    print(ray.get(compiled.execute(3)))
    compiled.teardown()
    """

    def __init__(self, last):
        self._last = last
        self._actors = {}
        for node in _ordered(last):
            if isinstance(node, ClassNode):
                self._actors[id(node)] = node._call(self._actors, None)

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Makes all calls; returns a reference, or a list of them."""
        if self._last is None:
            raise RuntimeError("the graph was torn down")
        return _execute(self._last, _given(self._last, args, kwargs), self._actors)

    async def execute_async(self, *args: Any, **kwargs: Any) -> Any:
        """The same in an event loop: what it returns can be awaited."""
        return self.execute(*args, **kwargs)

    def teardown(self, kill_actors: bool = False) -> None:
        """Lets the actors that it has made go; with kill_actors=True, at once."""
        actors, self._actors, self._last = self._actors, {}, None
        if kill_actors:
            for actor in actors.values():
                ray.kill(actor)
