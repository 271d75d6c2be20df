"""polars' frames through the store."""

import datetime

import pytest

polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")
import numpy  # noqa: E402

import ray  # noqa: E402
from ray._private import serialization  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")

ROWS = 10_000


def frame():
    day = datetime.date(2024, 1, 1)
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    return polars.DataFrame(
        {
            "i": numpy.arange(ROWS),
            "small": polars.Series([1, None] * (ROWS // 2), dtype=polars.UInt8),
            "f": numpy.linspace(0, 1, ROWS),
            "b": [True, None] * (ROWS // 2),
            "s": [f"a text of some length, row {i}" for i in range(ROWS)],
            "bytes": [b"%d" % i for i in range(ROWS)],
            "day": [day] * ROWS,
            "moment": [moment] * ROWS,
            "span": [datetime.timedelta(seconds=3)] * ROWS,
            "list": [[i] * (i % 3) for i in range(ROWS)],
            "struct": [{"x": i, "y": str(i)} for i in range(ROWS)],
        }
    )


def through(value):
    return ray.get(ray.put(value))


def stored_bytes(value):
    stream, buffers = serialization.dumps(value)
    return len(stream) + sum(buffer.raw().nbytes for buffer in buffers)


def assert_same(came, value):
    assert type(came) is type(value)
    if isinstance(value, polars.DataFrame):
        assert came.schema == value.schema
    else:
        assert (came.name, came.dtype) == (value.name, value.dtype)
    assert came.equals(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f,
        lambda f: f["i"],
        lambda f: f["s"],
        lambda f: f[:0],
        lambda f: f[7:20],
        lambda f: f.filter(polars.col("i") % 3 == 0),
        lambda f: f.select("i", "f").sort("f", descending=True),
        lambda f: polars.concat([f, f], rechunk=False),
        lambda f: polars.DataFrame(),
        lambda f: polars.Series("none", [None, None]),
        lambda f: f.select(polars.col("s").cast(polars.Categorical)),
        lambda f: f.select(polars.col("b").cast(polars.String).cast(polars.Enum(["true"]))),
        lambda f: f.select(polars.col("i").cast(polars.Decimal(10, 2))),
        lambda f: polars.DataFrame(
            {"any": polars.Series([(1,), object], dtype=polars.Object)}
        ).drop("any"),
    ],
)
def test_frames_of_every_kind_arrive_as_they_were(make):
    value = make(frame())
    assert_same(through(value), value)


def test_memory_goes_beside_the_pickle():
    value = frame().select("i", "f", "s")
    stream, buffers = serialization.dumps(value)
    assert len(stream) < 2000
    assert len(buffers) > 2


def test_a_frame_is_read_in_place():
    reference = ray.put(frame().select("i", "f"))
    first, second = ray.get(reference), ray.get(reference)
    addresses = [
        came["f"].to_numpy(allow_copy=False).__array_interface__["data"][0]
        for came in (first, second)
    ]
    assert addresses[0] == addresses[1]


def test_a_received_frame_can_be_changed():
    value = frame()
    reference = ray.put(value)
    came = ray.get(reference)
    came[0, "i"] = 77
    came = came.with_columns(polars.col("f") * 2)
    assert came[0, "i"] == 77
    assert_same(ray.get(reference), value)


def test_a_slice_takes_only_what_it_shows_along():
    assert stored_bytes(frame()[100:110]) < 20_000
    assert stored_bytes(frame()["s"][100:110]) < 5_000


def test_polars_still_knows_what_is_sorted():
    value = frame().select("i", "f").sort("f", descending=True)
    came = through(value)
    assert came["f"].flags == value["f"].flags
    assert through(value["f"]).flags["SORTED_DESC"]


def test_lazy_frames_and_expressions():
    lazy = frame().lazy().filter(polars.col("i") < 5).select("i")
    assert through(lazy).collect().equals(lazy.collect())
    expression = polars.col("i") * 2
    assert frame().select(through(expression)).equals(frame().select(expression))


def test_frames_in_tasks():
    @ray.remote
    def total(part):
        return part["i"].sum()

    parts = [frame()[start : start + 1000] for start in range(0, ROWS, 1000)]
    assert sum(ray.get([total.remote(part) for part in parts])) == sum(range(ROWS))
