"""A node of a graph, and how a graph is executed.

A graph is its last node: each node knows those that it takes values from. An execution goes through
all of them once, in an order in which each comes after those that it needs, and calls; it waits for
nothing, for what is passed on are references.
"""

import uuid
from collections.abc import Callable
from typing import Any

from ray._private.later import not_yet


class DAGNode:
    """What all kinds of nodes have in common."""

    def __init__(self, args, kwargs, options=None, others=()):
        self._bound_args = tuple(args)
        self._bound_kwargs = dict(kwargs)
        self._bound_options = dict(options or {})
        self._others = tuple(others)  # nodes that come before this one, beside those in arguments
        self._order = None  # of this node's graph, once it was executed
        self._stable_uuid = uuid.uuid4().hex

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Makes all calls of the graph that ends here, with this input; returns what the last one
        does: a reference, an actor's handle, or a list of references.

            ref = graph.execute(3)
        """
        return _execute(self, _given(self, args, kwargs), {})

    def experimental_compile(
        self,
        _submit_timeout: "float | None" = None,
        _buffer_size_bytes: "int | None" = None,
        enable_asyncio: bool = False,
        _max_inflight_executions: "int | None" = None,
        _max_buffered_results: "int | None" = None,
        _overlap_gpu_communication: "bool | None" = None,
        _default_communicator: Any = None,
    ) -> "CompiledDAG":  # noqa: F821
        """The same graph as an object with execute() and teardown(). Its actors are made once.

            compiled = graph.experimental_compile()
            print(ray.get(compiled.execute(3)))
            compiled.teardown()

        Its calls are those of the graph: they need no channels to be fast. So there is nothing that
        the arguments, which describe channels, could change.
        """
        from ray.dag.compiled_dag_node import CompiledDAG

        if _default_communicator not in (None, "create"):
            raise not_yet("a communicator of a compiled graph")
        return CompiledDAG(self)

    def with_tensor_transport(self, *args, **kwargs):
        """Is not there: tensors go through the store."""
        raise not_yet("with_tensor_transport")

    def get_args(self) -> tuple:
        """The positional arguments that it was bound with."""
        return self._bound_args

    def get_kwargs(self) -> dict:
        """The arguments by name that it was bound with."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict:
        """The options of its call."""
        return dict(self._bound_options)

    def get_stable_uuid(self) -> str:
        """What it is known by; a copy has the same."""
        return self._stable_uuid

    def apply_recursive(self, fn: "Callable[[DAGNode], Any]") -> Any:
        """Calls fn with each node of the graph, those first that others need; returns what it
        returned for this one.

            graph.apply_recursive(print)
        """
        result = None
        for node in _ordered(self):
            result = fn(node)
        return result

    def _needs(self):
        """The nodes that come before this one."""
        found = list(self._others)
        for value in (*self._bound_args, *self._bound_kwargs.values()):
            _collect(value, found)
        return found

    def _call(self, done, given):
        """Carries it out; `done`: id of each node before it to what it came to."""
        raise NotImplementedError

    def _arguments(self, done):
        args = [_replaced(value, done) for value in self._bound_args]
        return args, {name: _replaced(v, done) for name, v in self._bound_kwargs.items()}

    def __getstate__(self):
        return {**self.__dict__, "_order": None}

    def __repr__(self):
        return f"({type(self).__name__}, {self._stable_uuid[:8]})"


def _collect(value, found):
    """Notes the nodes in a value: itself, or inside of lists, tuples, dicts and sets."""
    if isinstance(value, DAGNode):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            _collect(item, found)


def _replaced(value, done):
    """The value with what nodes came to in their place."""
    if isinstance(value, DAGNode):
        return done[id(value)]
    nodes = []
    _collect(value, nodes)
    if not nodes:
        return value
    if isinstance(value, dict):
        return {key: _replaced(item, done) for key, item in value.items()}
    items = [_replaced(item, done) for item in value]
    if hasattr(value, "_fields"):  # a named tuple
        return type(value)(*items)
    return type(value)(items)


def _ordered(last):
    """All nodes of a graph, each after those that it needs."""
    if last._order is None:
        order, state = [], {}  # state: 1 while its needs are looked at, 2 when it is in the order
        waiting = [(last, False)]
        while waiting:
            node, needs_done = waiting.pop()
            if needs_done:
                state[id(node)] = 2
                order.append(node)
            elif id(node) not in state:
                state[id(node)] = 1
                waiting.append((node, True))
                waiting += [(need, False) for need in reversed(node._needs())]
            elif state[id(node)] == 1:
                raise ValueError(f"the graph has a circle: {node!r} needs itself")
        last._order = order
    return last._order


def _given(last, args, kwargs):
    """The input of an execution, checked."""
    from ray.dag.input_node import DAGInputData, InputNode

    inputs = {id(node) for node in _ordered(last) if isinstance(node, InputNode)}
    if len(inputs) > 1:
        raise ValueError("a graph can have one InputNode, and this one has several")
    if not inputs and (args or kwargs):
        raise ValueError("the graph has no InputNode, so execute() takes no arguments")
    if inputs and not args and not kwargs:
        raise ValueError("the graph has an InputNode: execute() needs an argument for it")
    return args[0] if len(args) == 1 and not kwargs else DAGInputData(args, kwargs)


def _execute(last, given, known):
    """What the last node comes to; `known`: id of a node to what it came to before."""
    done = dict(known)
    for node in _ordered(last):
        if id(node) not in done:
            done[id(node)] = node._call(done, given)
    return done[id(last)]
