"""ray.util.dask: dask's graphs on tasks."""

import os

import dask
import dask.array as da
import dask.bag
import numpy as np
import pytest

import ray
from ray.util.dask import (
    ProgressBarCallback,
    RayDaskCallback,
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
)

pytestmark = pytest.mark.usefixtures("cluster")


@dask.delayed
def plus(x, y):
    return x + y


@dask.delayed
def where():
    return os.getpid()


@dask.delayed
def fail():
    raise KeyError("lost")


@pytest.mark.parametrize("get", [ray_dask_get, ray_dask_get_sync])
def test_delayed(get):
    total = plus(plus(1, 2), plus(3, plus(4, 5)))
    assert total.compute(scheduler=get) == 15
    assert dask.compute(total, plus(1, 1), 7, scheduler=get) == (15, 2, 7)
    assert where().compute(scheduler=get) != os.getpid()


def test_graphs_of_tuples():
    graph = {
        "a": 1,
        "b": (lambda x, y: x + y, "a", 10),
        "c": ["a", "b"],
        "d": (sum, ["a", "b", (sum, ["b", "b"])]),
        "e": "d",
        ("f", 0): (len, "c"),
        "never": (fail, "a"),
    }
    assert ray_dask_get(graph, "d") == 34
    assert ray_dask_get(graph, ["e", ["b", "c"], ("f", 0)]) == (34, (11, [1, 11]), 2)
    with pytest.raises(KeyError, match="nothing"):
        ray_dask_get(graph, "nothing")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x + x.T).mean(axis=0),
        lambda x: x[::3, 5:17].sum(),
        lambda x: da.linalg.norm(x @ x),
        lambda x: x.rechunk((7, 60)).cumsum(axis=1).std(),
        lambda x: da.stack([x, x * 2]).max(axis=(0, 2)),
        lambda x: x.map_blocks(lambda block: block**2).reshape(-1)[:100],
        lambda x: da.from_array(np.arange(100_000), chunks=9_999).sum() + x.sum(),
    ],
)
def test_arrays_are_those_of_dasks_own_scheduler(make):
    found = make(da.random.RandomState(1).random_sample((60, 60), chunks=(20, 15)))
    expected = found.compute(scheduler="sync")
    np.testing.assert_allclose(found.compute(scheduler=ray_dask_get), expected)


def test_bags():
    bag = dask.bag.from_sequence(range(100), npartitions=7)
    found = bag.map(lambda x: x % 5).frequencies()
    assert dict(found.compute(scheduler=ray_dask_get)) == dict.fromkeys(range(5), 20)


def test_frames_are_those_of_dasks_own_scheduler():
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    import dask.dataframe as dd

    frame = pandas.DataFrame({"k": np.arange(300) % 7, "v": np.arange(300.0)})
    other = pandas.DataFrame({"k": range(7), "name": list("abcdefg")})
    parts = dd.from_pandas(frame, npartitions=5)
    for found in (
        parts.groupby("k").v.mean(),
        parts.merge(dd.from_pandas(other, npartitions=2), on="k").groupby("name").v.sum(),
        parts.sort_values("v", ascending=False).head(10, compute=False),
        parts.v.value_counts(),
        parts.set_index("k").v.sum(),
        parts[parts.v > 10].describe(),
    ):
        expected = found.compute(scheduler="sync")
        with enable_dask_on_ray():
            result = found.compute()
        if hasattr(expected, "sort_index"):
            expected, result = expected.sort_index(), result.sort_index()
        assert (result == expected).all(axis=None)


def test_many_dependencies():
    @dask.delayed
    def total(values):
        return sum(values)

    assert total([plus(i, 0) for i in range(1000)]).compute(scheduler=ray_dask_get) == 499_500


def test_errors_are_the_tasks_own():
    with pytest.raises(KeyError, match="lost"):
        plus(1, fail()).compute(scheduler=ray_dask_get)
    with pytest.raises(KeyError, match="lost"):
        plus(1, fail()).compute(scheduler=ray_dask_get_sync)


def test_enable_and_disable():
    with enable_dask_on_ray():
        assert where().compute() != os.getpid()
    assert where().compute(scheduler="sync") == os.getpid()
    enable_dask_on_ray()
    try:
        assert where().compute() != os.getpid()
    finally:
        disable_dask_on_ray()
    assert dask.config.get("scheduler") is None


def test_persist_leaves_results_in_the_store():
    array = da.ones((100, 100), chunks=50)
    kept = array.persist(scheduler=ray_dask_get, ray_persist=True)
    assert all(
        isinstance(getattr(value, "value", value), ray.ObjectRef)
        for value in dict(kept.__dask_graph__()).values()
    )
    assert kept.sum().compute(scheduler=ray_dask_get) == 10_000


def test_options_of_tasks():
    @dask.delayed
    def resources():
        return ray.get_runtime_context().get_assigned_resources()["CPU"]

    assert resources().compute(scheduler=ray_dask_get, ray_remote_args={"num_cpus": 2}) == 2
    with dask.annotate(ray_remote_args={"num_cpus": 3}):
        annotated = resources()
    assert annotated.compute(scheduler=ray_dask_get, optimize_graph=False) == 3


def test_callbacks():
    told = []

    class Told(RayDaskCallback):
        def _ray_presubmit(self, task, key, deps):
            told.append("presubmit")
            return 100 if key == "instead" else None

        def _ray_postsubmit(self, task, key, deps, object_ref):
            told.append("postsubmit")
            assert isinstance(object_ref, ray.ObjectRef)

        def _ray_pretask(self, key, object_refs):
            return "state"

        def _ray_posttask(self, key, result, pre_state):
            assert pre_state == "state" and result == 101

        def _ray_postsubmit_all(self, object_refs, dsk):
            told.append("all")

        def _ray_finish(self, result):
            told.append(result)

    graph = {"instead": (fail,), "b": (lambda x: x + 1, "instead")}
    with Told():
        assert ray_dask_get(graph, "b") == 101
    assert told == ["presubmit", "presubmit", "postsubmit", "all", 101]
    assert ray_dask_get({"b": (abs, -1)}, "b") == 1 and len(told) == 5
    with pytest.raises(AssertionError):
        ray_dask_get({"b": (abs, -1)}, "b", ray_callbacks=[Told()])


def test_dasks_own_callbacks():
    from dask.callbacks import Callback

    seen = []
    told = Callback(
        start=lambda dsk: seen.append("start"),
        pretask=lambda key, dsk, state: seen.append(("pre", key)),
        posttask=lambda key, result, dsk, state, worker: seen.append(("post", key, result)),
        finish=lambda dsk, state, failed: seen.append(("finish", failed)),
    )
    with told:
        ray_dask_get({"a": 1, "b": (abs, -2), "c": (sum, ["a", "b"])}, "c")
    assert seen[0] == "start" and seen[-1] == ("finish", False)
    assert ("pre", "b") in seen and ("post", "b", 2) in seen and ("post", "c", 3) in seen


def test_dasks_own_callbacks_hear_of_aliases():
    from dask.callbacks import Callback

    def seen(get):
        keys = {"pre": [], "post": []}
        with Callback(
            pretask=lambda key, dsk, state: keys["pre"].append(key),
            posttask=lambda key, value, dsk, state, worker: keys["post"].append((key, value)),
        ):
            get({"a": (abs, -2), "b": "a", "c": (abs, "b"), "d": "c"}, ["b", "d"])
        return sorted(keys["pre"]), sorted(keys["post"])

    assert seen(ray_dask_get) == seen(dask.get)


def test_a_generator_arrives_as_a_list():
    @dask.delayed
    def lines(n):
        return (f"line {i}" for i in range(n))

    first = lines(3)
    assert dask.delayed(len)(dask.delayed(list)(first)).compute(scheduler=ray_dask_get) == 3
    assert first.compute(scheduler=ray_dask_get) == ["line 0", "line 1", "line 2"]


def test_progress_bar(capsys):
    with ProgressBarCallback():
        assert plus(1, plus(1, 1)).compute(scheduler=ray_dask_get) == 3
    assert "100%" in capsys.readouterr().err


def test_references_as_arguments_arrive_as_values():
    @ray.remote
    def three():
        return 3

    @dask.delayed
    def total(*values, more=0):
        flat = [x for value in values for x in (value if isinstance(value, list) else [value])]
        return sum(flat) + more

    ref = three.remote()
    assert total(ref, 1).compute(scheduler=ray_dask_get) == 4
    assert total([ref, 1], more=ref).compute(scheduler=ray_dask_get) == 7
    assert total([ref, plus(1, 1)], ref).compute(scheduler=ray_dask_get) == 8
