"""Arrow's tables and arrays through the store."""

import pytest

pyarrow = pytest.importorskip("pyarrow")
import numpy  # noqa: E402

import ray  # noqa: E402
from ray._private import serialization  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")

ROWS = 10_000
ARRAYS = {
    "int": pyarrow.array(numpy.arange(ROWS)),
    "nulls": pyarrow.array([1, None] * (ROWS // 2)),
    "bool": pyarrow.array([True, None] * (ROWS // 2)),
    "string": pyarrow.array([f"row {i}" for i in range(ROWS)]),
    "large_string": pyarrow.array([f"row {i}" for i in range(ROWS)], pyarrow.large_string()),
    "list": pyarrow.array([[i] * (i % 3) for i in range(ROWS)]),
    "struct": pyarrow.array([{"a": i, "b": str(i)} for i in range(ROWS)]),
    "dictionary": pyarrow.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
    "time": pyarrow.array(numpy.arange(ROWS)).cast(pyarrow.timestamp("us", "UTC")),
    "null": pyarrow.nulls(ROWS),
}


def through(value):
    return ray.get(ray.put(value))


def stored_bytes(value):
    stream, buffers = serialization.dumps(value)
    return len(stream) + sum(buffer.raw().nbytes for buffer in buffers)


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_every_type_and_their_slices(kind):
    array = ARRAYS[kind]
    for part in (array, array[:0], array[7:20], array[1:], array[5:][:9000]):
        came = through(part)
        assert type(came) is type(part)
        assert came.equals(part)
        came.validate(full=True)


@pytest.mark.parametrize("kind", ["int", "string", "list", "struct", "dictionary", "nulls"])
def test_a_slice_takes_only_what_it_shows_along(kind):
    part = ARRAYS[kind][100:110]
    assert stored_bytes(part) < 2000
    table = pyarrow.table({"column": ARRAYS[kind], "other": ARRAYS["int"]})
    assert stored_bytes(table.slice(100, 10)) < 4000
    assert through(table.slice(100, 10)).equals(table.slice(100, 10))


def test_a_table_is_read_in_place():
    table = pyarrow.table(ARRAYS)
    reference = ray.put(table)
    first, second = ray.get(reference), ray.get(reference)
    assert first.equals(table)
    for name in ("int", "string", "list"):
        pieces = [came[name].chunk(0).buffers() for came in (first, second)]
        assert pieces[0][1].address == pieces[1][1].address
    del reference, second
    assert first.equals(table)


def test_tables_keep_their_chunks_and_metadata():
    table = pyarrow.table(ARRAYS).replace_schema_metadata({"from": "here"})
    whole = pyarrow.concat_tables([table, table.slice(0, 5)])
    came = through(whole)
    assert came.equals(whole)
    assert came.schema.metadata == {b"from": b"here"}
    assert came["int"].num_chunks == 2
    batch = table.to_batches()[0]
    assert through(batch).equals(batch)
    assert through(table.schema) == table.schema
    empty = pyarrow.table({})
    assert through(empty).equals(empty)


def test_tables_in_tasks():
    import pyarrow.compute

    @ray.remote
    def total(table):
        return pyarrow.compute.sum(table["int"]).as_py()

    table = pyarrow.table(ARRAYS)
    parts = [table.slice(start, 1000) for start in range(0, ROWS, 1000)]
    assert sum(ray.get([total.remote(part) for part in parts])) == sum(range(ROWS))
