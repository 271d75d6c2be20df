"""Modin on its ray engine, beside pandas."""

import pytest

pytest.importorskip("modin")

import numpy as np
import pandas
import pandas.testing

import ray


@pytest.fixture(scope="module")
def pd():
    """modin.pandas, which starts a session by itself."""
    import modin.config

    modin.config.Engine.put("Ray")
    modin.config.CpuCount.put(2)
    modin.config.Memory.put(500 << 20)
    import modin.pandas

    modin.pandas.DataFrame([1])
    modin.config.NPartitions.put(4)
    yield modin.pandas
    ray.shutdown()


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(5)
    n = 20_000
    return {
        "key": random.integers(0, 50, n),
        "kind": random.choice(["tea", "milk", "bread"], n),
        "value": random.normal(size=n),
        "count": random.integers(0, 1_000, n),
    }


@pytest.fixture(scope="module")
def both(pd, data):
    """A function of two frames, Modin's and pandas', that asserts that its results are equal."""

    def check(work, **options):
        found, expected = work(pd, pd.DataFrame(data)), work(pandas, pandas.DataFrame(data))
        assert type(found).__module__.startswith("modin.")
        found = found._to_pandas()
        if isinstance(expected, pandas.Series):
            pandas.testing.assert_series_equal(found, expected, **options)
        else:
            pandas.testing.assert_frame_equal(found, expected, **options)

    return check


def test_the_engine_is_ray_and_partitions_are_references(pd, data):
    import modin.config

    assert modin.config.Engine.get() == "Ray" and ray.is_initialized()
    frame = pd.DataFrame(data)
    partitions = frame._query_compiler._modin_frame._partitions
    assert partitions.size > 1
    assert all(isinstance(p._data, ray.ObjectRef) for p in partitions.flatten())


@pytest.mark.parametrize("how", ["sum", "mean", "count", "max", "std", "nunique"])
def test_groupby(both, how):
    both(lambda _, frame: getattr(frame.groupby("key")[["value", "count"]], how)())


def test_groupby_of_several_keys_and_aggregations(both):
    both(lambda _, f: f.groupby(["key", "kind"]).agg({"value": "mean", "count": ["sum", "max"]}))
    both(lambda _, f: f.groupby("kind")["value"].apply(lambda s: s.max() - s.min()))
    both(lambda _, f: f.groupby("key")[["value"]].transform(lambda s: s - s.mean()))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_merge(both, how):
    def work(pd, frame):
        right = pd.DataFrame({"key": range(25, 75), "weight": np.arange(50) / 3})
        found = frame.merge(right, on="key", how=how)
        return found.sort_values(["key", "value"], kind="stable").reset_index(drop=True)

    both(work)


def test_join_and_concat(both):
    def work(pd, frame):
        right = pd.DataFrame({"weight": np.arange(50) / 3})
        return frame.set_index("key").join(right).reset_index().sort_values(["key", "value"])

    both(lambda pd, f: work(pd, f).reset_index(drop=True))
    both(lambda pd, f: pd.concat([f, f * 2], ignore_index=True))


def test_apply_map_and_closures(both):
    offset = 3
    both(lambda _, f: f[["value", "count"]].apply(lambda column: column.max() + offset))
    both(lambda _, f: f.head(500).apply(lambda row: row["value"] * row["count"], axis=1))
    both(lambda _, f: f["value"].map(lambda x: x + offset))
    both(lambda _, f: f[["value", "count"]].map(lambda x: x * 2))


def test_sort_values(both):
    both(lambda _, f: f.sort_values("value"))
    both(lambda _, f: f.sort_values(["key", "value"], ascending=[False, True]))
    both(lambda _, f: f.sort_values("value", ignore_index=True, na_position="first"))


def test_reading_and_writing(both, data, tmp_path):
    csv, parquet = tmp_path / "data.csv", tmp_path / "data.parquet"
    pandas.DataFrame(data).to_csv(csv, index=False)
    pandas.DataFrame(data).to_parquet(parquet)
    both(lambda pd, _: pd.read_csv(csv))
    both(lambda pd, _: pd.read_csv(csv, usecols=["key", "value"], nrows=5_000))
    both(lambda pd, _: pd.read_csv(csv, index_col="key", dtype={"count": "float64"}))
    both(lambda pd, _: pd.read_parquet(parquet))
    made = tmp_path / "made.csv"

    def write_and_read(pd, frame):
        frame.to_csv(made, index=False)
        return pd.read_csv(made)

    both(write_and_read)


def test_selection_and_arithmetic(both):
    both(lambda _, f: f[f["value"] > 0.5])
    both(lambda _, f: f.loc[100:200, ["kind", "value"]])
    both(lambda _, f: f.iloc[::7])
    both(lambda _, f: f.query("key < 10 and count > 500"))
    both(lambda _, f: (f["value"] * 2 + f["count"]).rolling(5).mean())
    both(lambda _, f: f[["value", "count"]].describe())
    both(lambda _, f: f.drop_duplicates("key").reset_index(drop=True))
    both(lambda _, f: f.pivot_table(index="key", columns="kind", values="value"))
    both(lambda _, f: f["kind"].value_counts())


def test_missing_values_strings_and_dates(both):
    def work(pd, frame):
        frame["value"] = frame["value"].where(frame["value"] > 0)
        frame["day"] = pd.date_range("2024-01-01", periods=len(frame), freq="min")
        frame["KIND"] = frame["kind"].str.upper()
        frame["hour"] = frame["day"].dt.hour
        return frame.fillna({"value": -1.0})

    both(work)
    both(lambda pd, f: work(pd, f).groupby("hour")["value"].sum())


def test_a_chain_of_changes_in_place(both):
    def work(_, frame):
        frame["twice"] = frame["value"] * 2
        frame.loc[frame["key"] == 3, "value"] = 0.0
        frame.iloc[0, 3] = 77
        del frame["kind"]
        frame.rename(columns={"count": "n"}, inplace=True)
        return frame

    both(work)


def test_an_error_in_an_applied_function_keeps_its_class(pd, data):
    def fail(x):
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        pd.DataFrame(data)["value"].map(fail)._to_pandas()


def test_partitions_are_unwrapped_and_made(pd, data):
    from modin.distributed.dataframe.pandas import from_partitions, unwrap_partitions

    frame = pd.DataFrame(data)
    rows = unwrap_partitions(frame, axis=0)
    assert all(isinstance(ref, ray.ObjectRef) for ref in rows)
    assert sum(len(part) for part in ray.get(rows)) == len(frame)
    again = from_partitions(rows, axis=0)._to_pandas()
    pandas.testing.assert_frame_equal(again, pandas.DataFrame(data))
