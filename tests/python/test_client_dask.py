"""dask's graphs and dask.dataframe through ray_dask_get."""

import os

import pytest

pytest.importorskip("dask.dataframe")

import dask
import dask.array
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
from pandas.testing import assert_frame_equal, assert_series_equal

import ray
from ray.util.dask import enable_dask_on_ray, ray_dask_get

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def on_ray():
    with enable_dask_on_ray():
        yield


@pytest.fixture(scope="module")
def sales():
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "shop": random.integers(0, 20, 10_000),
            "kind": random.choice(["tea", "milk", "bread"], 10_000),
            "paid": random.normal(10, 3, 10_000),
        }
    )


@pytest.fixture
def pieces(sales):
    return dd.from_pandas(sales, npartitions=8)


def test_a_graph_by_hand():
    graph = {
        "a": 1,
        "b": (lambda x: x + 1, "a"),
        "c": (sum, ["a", "b", 10]),
        "where": (os.getpid,),
    }
    b, c, where = ray_dask_get(graph, ["b", "c", "where"])
    assert (b, c) == (2, 13) and where != os.getpid()


def test_groupby(pieces, sales):
    found = pieces.groupby("shop").paid.mean().compute().sort_index()
    assert_series_equal(found, sales.groupby("shop").paid.mean())
    found = pieces.groupby(["shop", "kind"]).agg({"paid": ["sum", "max"]}).compute().sort_index()
    expected = sales.groupby(["shop", "kind"]).agg({"paid": ["sum", "max"]})
    assert_frame_equal(found, expected, check_index_type=False)


def test_merge_by_shuffling(pieces, sales):
    shops = pd.DataFrame({"shop": range(20), "town": [f"town {i % 3}" for i in range(20)]})
    found = pieces.merge(dd.from_pandas(shops, npartitions=3), on="shop").compute()
    expected = sales.merge(shops, on="shop")
    order = ["shop", "kind", "paid"]
    assert_frame_equal(
        found.sort_values(order).reset_index(drop=True),
        expected.sort_values(order).reset_index(drop=True),
        check_dtype=False,
    )


def test_set_index_and_sort_values(pieces, sales):
    found = pieces.set_index("paid").compute()
    assert found.index.is_monotonic_increasing and len(found) == len(sales)
    found = pieces.sort_values("paid").compute().paid.to_numpy()
    np.testing.assert_array_equal(found, np.sort(sales.paid.to_numpy()))


def test_map_partitions_apply_and_quantiles(pieces, sales):
    found = pieces.map_partitions(lambda part: part[part.paid > 12]).compute()
    assert_frame_equal(found, sales[sales.paid > 12], check_dtype=False)
    found = pieces.apply(lambda row: row.shop * 2, axis=1, meta=("x", "i8")).compute()
    assert_series_equal(found, sales.shop * 2, check_names=False)
    assert abs(pieces.paid.quantile(0.5).compute() - sales.paid.median()) < 0.2


def test_files(pieces, sales, tmp_path):
    pieces.to_csv(str(tmp_path / "part-*.csv"), index=False)
    found = dd.read_csv(str(tmp_path / "part-*.csv")).compute().reset_index(drop=True)
    assert_frame_equal(found, sales, check_dtype=False)
    pieces.to_parquet(str(tmp_path / "parquet"))
    found = dd.read_parquet(str(tmp_path / "parquet")).compute()
    assert_frame_equal(found, sales, check_dtype=False)


def test_persist_keeps_references(pieces, sales):
    kept = pieces.persist(scheduler=ray_dask_get)
    values = list(kept.__dask_graph__().values())
    assert kept.shop.sum().compute() == sales.shop.sum()
    assert len(values) >= 8


def test_arrays_and_bags():
    x = dask.array.random.default_rng(1).random((2_000, 300), chunks=(500, 100))
    local = x.compute(scheduler="synchronous")
    np.testing.assert_allclose((x.T @ x).compute(), local.T @ local)
    words = dask.bag.from_sequence(["a b", "b c", "c c"], npartitions=2)
    assert dict(words.str.split().flatten().frequencies().compute()) == {"a": 1, "b": 2, "c": 3}


def test_references_as_arguments():
    @ray.remote
    def three():
        return 3

    @dask.delayed
    def double(x):
        return 2 * x

    assert double(three.remote()).compute() == 6


def test_an_error_keeps_its_class():
    @dask.delayed
    def fail():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        fail().compute()
