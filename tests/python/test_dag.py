"""ray.dag: graphs of calls."""

import asyncio
import os
from collections import namedtuple

import pytest
import support

import ray
from ray.dag import (
    ClassMethodNode,
    ClassNode,
    DAGNode,
    FunctionNode,
    InputNode,
    MultiOutputNode,
)

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def add(x, y=0):
    return x + y


@ray.remote
def double(x):
    return 2 * x


@ray.remote
def total(values):
    return sum(ray.get(list(values)))


@ray.remote
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, n):
        self.value += n
        return self.value

    def get(self):
        return self.value

    def pid(self):
        return os.getpid()


def test_functions():
    graph = add.bind(double.bind(2), y=double.bind(3))
    assert isinstance(graph, FunctionNode) and isinstance(graph, DAGNode)
    assert ray.get(graph.execute()) == 10
    assert ray.get(graph.execute()) == 10
    assert ray.get(add.options(name="named", num_cpus=2).bind(1).execute()) == 1


def test_a_node_that_two_others_use_runs_once():
    counter = Counter.remote()
    shared = counter.add.bind(1)
    graph = add.bind(shared, shared)
    assert ray.get(graph.execute()) == 2
    assert ray.get(counter.get.remote()) == 1


def test_input():
    with InputNode() as x:
        graph = add.bind(double.bind(x), x)
    assert [ray.get(graph.execute(n)) for n in (1, 2)] == [3, 6]
    assert ray.get(graph.execute(ray.put(3))) == 9


def test_parts_of_the_input():
    with InputNode() as x:
        graph = add.bind(x[0], x.more)
    assert ray.get(graph.execute(1, more=2)) == 3
    with InputNode() as x:
        graph = add.bind(x["a"], x["b"])
    assert ray.get(graph.execute({"a": 1, "b": 2})) == 3
    assert ray.get(graph.execute(a=3, b=4)) == 7
    with InputNode() as x:
        graph = add.bind(x[0], x[1])
    assert ray.get(graph.execute([1, 2])) == ray.get(graph.execute(1, 2)) == 3
    point = namedtuple("Point", "x y")
    with InputNode() as p:
        graph = add.bind(p.x, p.y)
    assert ray.get(graph.execute(point(3, 4))) == 7
    with pytest.raises(ValueError, match="no argument 'y'"):
        graph.execute(1, x=2)


def test_several_results():
    with InputNode() as x:
        graph = MultiOutputNode([double.bind(x), add.bind(x, 1)])
    refs = graph.execute(5)
    assert isinstance(refs, list) and ray.get(refs) == [10, 6]


def test_nodes_inside_of_containers():
    assert ray.get(total.bind([double.bind(1), double.bind(2)]).execute()) == 6
    assert ray.get(total.bind((double.bind(1),)).execute()) == 2
    values = ray.remote(lambda d: sum(ray.get(list(d["of"].values()))))
    assert ray.get(values.bind({"of": {"a": double.bind(4)}}).execute()) == 8


def test_actors():
    counter = Counter.bind(10)
    assert isinstance(counter, ClassNode)
    value = counter.get.bind()
    assert isinstance(value, ClassMethodNode) and value.get_method_name() == "get"
    assert ray.get(value.execute()) == 10
    counter.add.bind(2)
    counter.add.bind(double.bind(2))
    assert ray.get(counter.get.bind().execute()) == 16
    with InputNode() as x:
        counter = Counter.bind(x)
        graph = add.bind(counter.add.bind(1), counter.add.options(max_task_retries=1).bind(2))
    assert [ray.get(graph.execute(n)) for n in (0, 0)] == [4, 4]  # an actor each time
    handle = Counter.bind(7).execute()
    assert ray.get(handle.get.remote()) == 7


def test_actors_that_are_there():
    counter = Counter.remote(1)
    with InputNode() as x:
        graph = counter.add.bind(x)
    assert [ray.get(graph.execute(n)) for n in (1, 2)] == [2, 4]


def test_compiled():
    with InputNode() as x:
        counter = Counter.bind(0)
        graph = MultiOutputNode([counter.add.bind(x), counter.pid.bind()])
    compiled = graph.experimental_compile(enable_asyncio=True)
    (first, pid), (second, same) = (ray.get(compiled.execute(n)) for n in (1, 2))
    assert (first, second) == (1, 3) and pid == same

    async def go_on():
        refs = await compiled.execute_async(4)
        return await refs[0]

    assert asyncio.run(go_on()) == 7
    compiled.teardown()
    assert support.wait_until(lambda: not support.alive(pid))
    with pytest.raises(RuntimeError, match="torn down"):
        compiled.execute(1)
    compiled = graph.experimental_compile()
    _, pid = ray.get(compiled.execute(1))
    compiled.teardown(kill_actors=True)
    assert support.wait_until(lambda: not support.alive(pid))


def test_errors_go_through():
    fail = ray.remote(lambda x: 1 / x)
    with pytest.raises(ZeroDivisionError):
        ray.get(double.bind(fail.bind(0)).execute())


def test_long_chains():
    with InputNode() as x:
        graph = x
        for _ in range(2000):
            graph = add.bind(graph, 1)
    assert ray.get(graph.execute(0)) == 2000


def test_looking_at_a_graph():
    inner = double.bind(1)
    graph = add.options(num_cpus=2).bind(inner, y=3)
    assert graph.get_args() == (inner,) and graph.get_kwargs() == {"y": 3}
    assert graph.get_options()["num_cpus"] == 2
    seen = []
    graph.apply_recursive(seen.append)
    assert seen == [inner, graph] and len({node.get_stable_uuid() for node in seen}) == 2


def test_graphs_travel():
    with InputNode() as x:
        graph = add.bind(double.bind(x), 1)
    assert ray.get(ray.remote(lambda g: ray.get(g[0].execute(3))).remote([graph])) == 7


def test_bad_input():
    with pytest.raises(ValueError, match="no InputNode"):
        double.bind(1).execute(2)
    with InputNode() as x, InputNode() as y:
        graph, both = double.bind(x), add.bind(x, y)
    with pytest.raises(ValueError, match="needs an argument"):
        graph.execute()
    with pytest.raises(ValueError, match="several"):
        both.execute(1)
    with pytest.raises(ValueError, match="list of nodes"):
        MultiOutputNode([1])
    with pytest.raises(AttributeError, match="no method 'nothing'"):
        Counter.bind().nothing  # noqa: B018
    with pytest.raises(NotImplementedError):
        graph.with_tensor_transport()
    with pytest.raises(TypeError):
        double.bind().execute()
