"""The scheduler for dask's graphs.

All tasks of a graph are submitted at once, in the order that dask finds best for memory, each with
the references of what it depends on; the system runs them as these come. A result that all its
dependents were submitted for is held by those alone, so it goes when the last of them is done.
"""

import functools
import pickle
from collections.abc import Mapping
from types import FunctionType, GeneratorType
from typing import Any

import cloudpickle
import dask
from dask.core import flatten
from dask.order import order
from dask.utils import key_split

import ray
from ray._private.stored import Stored
from ray.util.dask.callbacks import local_ray_callbacks

try:
    from dask._task_spec import (
        Alias,
        DataNode,
        NestedContainer,
        Task,
        _execute_subgraph,
        convert_legacy_graph,
    )
except ImportError:
    raise ImportError(
        f"ray.util.dask needs dask 2024.12 or later, and {dask.__version__} is installed"
    ) from None

__all__ = ["disable_dask_on_ray", "enable_dask_on_ray", "ray_dask_get", "ray_dask_get_sync"]

_LARGE = 64 << 10  # bytes of data in a graph that goes to the store once, not into each task


def enable_dask_on_ray(
    shuffle: "str | None" = "tasks", use_shuffle_optimization: "bool | None" = True
) -> "dask.config.set":
    """Makes ray_dask_get dask's scheduler, from now on or for a `with` block.

        with enable_dask_on_ray():
            x.compute()

    `shuffle` is how dask.dataframe shuffles ("tasks", "disk"). use_shuffle_optimization makes no
    difference: dask's own shuffle by tasks is what is used.
    """
    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> "dask.config.set":
    """Takes enable_dask_on_ray back.

    disable_dask_on_ray()

        enable_dask_on_ray()
        frame.compute()
        disable_dask_on_ray()
    """
    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})


def ray_dask_get(dsk: Any, keys: Any, **kwargs) -> Any:
    """A scheduler of dask's that runs each task of the graph as a task.

        dask.compute(x, scheduler=ray_dask_get)

    Args:
        dsk: a graph: dask's tasks, or tuples, by key.
        keys: the keys whose values are wanted: one, or lists of them.
        ray_callbacks: RayDaskCallbacks, instead of those that are active.
        ray_remote_args: options of the tasks (num_cpus, resources, ...). Those of
            dask.annotate(ray_remote_args={...}) come before.
        ray_persist: references instead of values: dask.persist(x, scheduler=ray_dask_get,
            ray_persist=True) leaves the results in the store.
    """
    return _compute(dsk, keys, kwargs, one_by_one=False)


def ray_dask_get_sync(dsk: Any, keys: Any, **kwargs) -> Any:
    """The same, one task after the other: an error stops it at the task that raised.

    x.compute(scheduler=ray_dask_get_sync)

        frame.compute(scheduler=ray_dask_get_sync)
    """
    return _compute(dsk, keys, kwargs, one_by_one=True)


def _compute(dsk, keys, kwargs, one_by_one):
    persist = kwargs.pop("ray_persist", False)
    options = _Options(dsk, kwargs.pop("ray_remote_args", None))
    given = kwargs.pop("ray_callbacks", None)
    graph = dsk if isinstance(dsk, Mapping) else dsk.__dask_graph__()
    graph = convert_legacy_graph(dict(graph))
    wanted = set(flatten(keys)) if isinstance(keys, list) else {keys}
    with local_ray_callbacks(given) as callbacks, _DaskCallbacks(graph) as told:
        submission = _Submission(graph, wanted, callbacks, options, told, one_by_one)
        found = submission.submit()
        called = [one.ray_postsubmit_all for one in callbacks if one.ray_postsubmit_all]
        for function in called:
            function([found[key] for key in flatten([keys])], dsk)
        told.wait()
        result = _packed(keys, found if persist else _values(found))
        for one in callbacks:
            if one.ray_finish:
                one.ray_finish(result)
        told.succeeded()
    return result


def _values(found):
    refs = [value for value in found.values() if isinstance(value, ray.ObjectRef)]
    values = dict(zip(refs, ray.get(refs)))
    return {
        key: values[value] if isinstance(value, ray.ObjectRef) else value
        for key, value in found.items()
    }


def _packed(keys, found):
    if isinstance(keys, list):
        return tuple(_packed(key, found) for key in keys)
    return found[keys]


class _Submission:
    """One graph on its way."""

    def __init__(self, graph, wanted, callbacks, options, told, one_by_one):
        self.graph = graph
        self.wanted = wanted
        self.callbacks = callbacks
        self.options = options
        self.told = told
        self.one_by_one = one_by_one
        self.results = {}  # of each key: a reference, or a value
        self.functions = {}  # id of a function to what stands for it in a pickle
        inside = [(one.ray_pretask, one.ray_posttask) for one in callbacks]
        self.inside = ray.put(inside) if any(map(any, inside)) else None

    def submit(self):
        """References, or values, of the keys that are wanted."""
        needed = self._needed()
        places = order(needed)
        left = dict.fromkeys(needed, 0)  # dependents that are not submitted yet
        for node in needed.values():
            for key in node.dependencies:
                left[key] += 1
        for key in sorted(needed, key=places.__getitem__):
            node = needed[key]
            self.results[key] = self._result(key, node)
            for dependency in node.dependencies:
                left[dependency] -= 1
                if left[dependency] == 0 and dependency not in self.wanted:
                    del self.results[dependency]
        return self.results

    def _needed(self):
        found, waiting = {}, list(self.wanted)
        while waiting:
            key = waiting.pop()
            if key in found:
                continue
            if key not in self.graph:
                raise KeyError(f"{key!r} is not in the graph")
            found[key] = self.graph[key]
            waiting += found[key].dependencies
        return found

    def _result(self, key, node):
        if isinstance(node, DataNode):
            return _kept(node.value)
        if isinstance(node, Alias):
            self.told.starts(key)
            self.told.submitted(key, self.results[node.target])
            return self.results[node.target]
        deps = {dependency: self.results[dependency] for dependency in node.dependencies}
        for one in self.callbacks:
            instead = one.ray_presubmit and one.ray_presubmit(node, key, deps)
            if instead is not None:
                return instead
        self.told.starts(key)
        remote = self.options.function_for(key)
        ref = remote.remote(self._packed(node), key, self.inside, tuple(deps), *deps.values())
        self.told.submitted(key, ref)
        for one in self.callbacks:
            if one.ray_postsubmit:
                one.ray_postsubmit(node, key, deps, ref)
        if self.one_by_one:
            ray.get(ref)
        return ref

    def _packed(self, node):
        """The task, with a function that can't be imported pickled once for all tasks that have it."""
        function = getattr(node, "func", None)
        if function is _execute_subgraph:
            return _with_values(node)
        node = _valued(node)
        if not isinstance(function, FunctionType):
            return node
        packed = self.functions.get(id(function))
        if packed is None:
            packed = self.functions[id(function)] = _Packed(function)
        if packed.data is None:
            return node
        copy = node.copy()
        copy.func = packed
        return copy


def _with_values(node):
    """Several tasks that dask has made one of. References among its data, which dask.persist left
    there, are to arrive as values.
    """
    inner, *rest = node.args
    stored = {
        key: DataNode(key, Stored(part.value))
        for key, part in inner.items()
        if isinstance(part, DataNode) and isinstance(part.value, ray.ObjectRef)
    }
    if not stored:
        return node
    copy = node.copy()
    copy.args = ({**inner, **stored}, *rest)
    return copy


def _valued(part):
    """A task, or a part of its arguments, with each reference in it made to arrive as its value:
    those that the program itself gave to a delayed function. Itself, where there is none.
    """
    if isinstance(part, ray.ObjectRef):
        return Stored(part)
    if isinstance(part, Task):
        args, kwargs = _valued(part.args), _valued(part.kwargs)
        if args is part.args and kwargs is part.kwargs:
            return part
        if isinstance(part, NestedContainer):  # its kwargs are its own, and hold no arguments
            return type(part)(*args)
        part = part.copy()
        part.args, part.kwargs = args, kwargs
    elif type(part) is dict:
        values = {key: _valued(value) for key, value in part.items()}
        if any(values[key] is not value for key, value in part.items()):
            return values
    elif type(part) in (list, tuple):
        values = [_valued(value) for value in part]
        if any(new is not old for new, old in zip(values, part)):
            return type(part)(values)
    return part


class _Packed:
    """A function of the main script, or one that was made by another function, as bytes: it travels
    by value, and that takes longer than the rest of a small task.
    """

    def __init__(self, function):
        self.data = None
        if function.__module__ == "__main__" or "<" in function.__qualname__:
            data = cloudpickle.dumps(function)
            self.data = data if len(data) < _LARGE else None

    def __reduce__(self):
        return _unpacked, (self.data,)


@functools.lru_cache(256)
def _unpacked(data):
    return pickle.loads(data)


def _kept(value):
    """Data of a graph: itself, or its reference if it is large."""
    size = getattr(value, "nbytes", 0)
    if isinstance(size, int) and size >= _LARGE or hasattr(value, "memory_usage"):
        return ray.put(value)
    return value


def _run(node, key, inside, dependencies, *values):
    """In a worker: a task of dask's."""
    states = [before(key, values) if before else None for before, _ in inside or ()]
    result = node(dict(zip(dependencies, values)))
    if isinstance(result, GeneratorType):  # it can't leave this process, what it yields can
        result = list(result)
    for (_, after), state in zip(inside or (), states):
        if after:
            after(key, result, state)
    return result


_remote = ray.remote(_run)


class _Options:
    """The options of each task."""

    def __init__(self, dsk, given):
        self._given = dict(given or {})
        self._of = {}  # key to the options that its layer was annotated with
        self._functions = {}
        for layer in getattr(dsk, "layers", {}).values():
            options = (getattr(layer, "annotations", None) or {}).get("ray_remote_args")
            if options:
                self._of.update(dict.fromkeys(layer, options))
        if hasattr(dsk, "__dask_annotations__"):
            self._of.update(dsk.__dask_annotations__().get("ray_remote_args", {}))

    def function_for(self, key):
        """The remote function that runs a task; one for all tasks of a kind."""
        name = f"dask:{key_split(key)}"
        options = self._of.get(key)
        known = self._functions.get((name, repr(options)))
        if known is None:
            known = _remote.options(**{"name": name[:200], **self._given, **(options or {})})
            self._functions[name, repr(options)] = known
        return known


class _DaskCallbacks:
    """dask's own callbacks, with the state that they look at."""

    def __init__(self, graph):
        self._graph = graph
        self._running = {}  # reference to keys, more than one where there are aliases
        self._failed = True
        self._state = {
            "finished": set(),
            "ready": [],
            "running": set(),
            "waiting": {},
            "cache": {},
            "dependencies": {key: set(node.dependencies) for key, node in graph.items()},
        }

    def __enter__(self):
        from dask.callbacks import local_callbacks, unpack_callbacks

        self._local = local_callbacks()
        active = self._local.__enter__()
        self._start, self._start_state, self._pre, self._post, self._finish = unpack_callbacks(
            active
        )
        for function in self._start:
            function(self._graph)
        if active:
            self._state["waiting"] = {
                key: set() for key, node in self._graph.items() if not isinstance(node, DataNode)
            }
        for function in self._start_state:
            function(self._graph, self._state)
        return self

    def starts(self, key):
        for function in self._pre:
            function(key, self._graph, self._state)

    def submitted(self, key, result):
        if not self._post:
            return
        self._state["waiting"].pop(key, None)
        if isinstance(result, ray.ObjectRef):
            self._running.setdefault(result, []).append(key)
            self._state["running"].add(key)
        else:  # an alias of data
            self._done(key, result)

    def wait(self):
        """Tells of each task that is done, as long as somebody wants to hear it."""
        while self._running:
            (ref,), _ = ray.wait(list(self._running), num_returns=1)
            value = ray.get(ref)
            for key in self._running.pop(ref):
                self._state["running"].discard(key)
                self._done(key, value)

    def _done(self, key, value):
        self._state["finished"].add(key)
        for function in self._post:
            function(key, value, self._graph, self._state, "ray")

    def succeeded(self):
        self._failed = False

    def __exit__(self, *exception):
        for function in self._finish:
            function(self._graph, self._state, self._failed)
        self._local.__exit__(*exception)
