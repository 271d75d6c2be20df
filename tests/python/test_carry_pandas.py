"""pandas' frames through the store."""

import pytest

pandas = pytest.importorskip("pandas")
import numpy  # noqa: E402

import ray  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")

ROWS = 10_000


def numeric():
    return pandas.DataFrame(
        {
            "i": numpy.arange(ROWS),
            "j": numpy.arange(ROWS)[::-1],
            "f": numpy.linspace(0, 1, ROWS),
            "b": numpy.arange(ROWS) % 2 == 0,
            "t": pandas.date_range("2024-01-01", periods=ROWS, freq="min"),
        }
    )


def address(column):
    return column.to_numpy().__array_interface__["data"][0]


def test_numeric_columns_are_read_in_place():
    frame = numeric()
    reference = ray.put(frame)
    first, second = ray.get(reference), ray.get(reference)
    pandas.testing.assert_frame_equal(first, frame)
    for name in frame:
        assert address(first[name]) == address(second[name]), name
    del reference
    pandas.testing.assert_frame_equal(second, frame)  # the frame holds its object


def test_a_received_frame_is_read_only_as_its_arrays_are():
    frame = numeric()
    came = ray.get(ray.put(frame))
    with pytest.raises(ValueError, match="read-only"):
        came.iloc[0, 0] = 5
    came["i"] = came["i"] + 1  # a new column
    copy = ray.get(ray.put(frame)).copy()
    copy.iloc[0, 0] = 5
    assert (came["i"][0], copy["i"][0], frame["i"][0]) == (1, 5, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame[["f"]],
        lambda frame: frame["f"],
        lambda frame: frame[frame["i"] > 77],
        lambda frame: frame.iloc[::3],
        lambda frame: frame.iloc[:0],
        lambda frame: frame.set_index("t"),
        lambda frame: frame.set_index(["i", "j"]),
        lambda frame: frame.assign(kind=pandas.Categorical(["a", "b"] * (ROWS // 2))),
        lambda frame: frame.assign(text=[f"row {i}" for i in range(ROWS)]),
        lambda frame: frame.assign(any=[(i,) for i in range(ROWS)]),
        lambda frame: frame.assign(maybe=pandas.array([1, None] * (ROWS // 2), dtype="Int64")),
        lambda frame: pandas.DataFrame(),
        lambda frame: frame.index,
    ],
)
def test_frames_of_every_kind_arrive_as_they_were(make):
    value = make(numeric())
    came = ray.get(ray.put(value))
    check = {
        pandas.DataFrame: pandas.testing.assert_frame_equal,
        pandas.Series: pandas.testing.assert_series_equal,
    }.get(type(value), pandas.testing.assert_index_equal)
    check(came, value)


def test_frames_in_tasks():
    @ray.remote
    def doubled(frame, column):
        return frame.assign(**{column: frame[column] * 2})

    frame = numeric()
    came = ray.get(doubled.remote(ray.put(frame), "f"))
    pandas.testing.assert_frame_equal(came, frame.assign(f=frame["f"] * 2))


def test_columns_that_arrow_holds():
    pyarrow = pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "i": pandas.array(range(ROWS), dtype=pandas.ArrowDtype(pyarrow.int64())),
            "s": pandas.array(
                [f"row {i}" for i in range(ROWS)], dtype=pandas.ArrowDtype(pyarrow.string())
            ),
        }
    )
    reference = ray.put(frame)
    first, second = ray.get(reference), ray.get(reference)
    pandas.testing.assert_frame_equal(first, frame)
    for name in frame:
        buffers = [pyarrow.array(came[name]).buffers() for came in (first, second)]
        assert buffers[0][-1].address == buffers[1][-1].address
    part = ray.put(frame.iloc[:5])
    pandas.testing.assert_frame_equal(ray.get(part), frame.iloc[:5])
