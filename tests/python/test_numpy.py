"""numpy arrays: read where they lie, read-only, and valid as long as anybody looks at them."""

import copyreg
import gc
import pickle

import numpy as np
import pytest
import support

import ray

INIT = {"num_cpus": 4, "object_store_memory": 256 << 20}
pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.one_path("values, and what holds them"),
]

MIB = 1 << 20


@ray.remote
def echo(x):
    return x


def address(array):
    return array.__array_interface__["data"][0]


ARRAYS = {
    "floats": np.arange(100_000, dtype=float),
    "small": np.arange(3),
    "matrix": np.arange(120_000, dtype=np.int32).reshape(300, 400),
    "fortran": np.asfortranarray(np.arange(120_000).reshape(300, 400)),
    "strided": np.arange(200_000)[::2],
    "transposed": np.arange(120_000).reshape(300, 400).T,
    "empty": np.empty((0, 5)),
    "scalar": np.array(5.0),
    "bool": np.ones(10_000, dtype=bool),
    "complex": np.full(10_000, 1 + 2j),
    "text": np.array(["a", "bcd"] * 5000),
    "structured": np.zeros(5000, dtype=[("a", "i4"), ("b", "f8", 3)]),
    "dates": np.array(["2020-01-01"] * 5000, dtype="datetime64[D]"),
    "objects": np.array([1, "two", None], dtype=object),
    "big endian": np.arange(5000, dtype=">i8"),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_come_back_as_they_were(array):
    for found in (
        ray.get(ray.put(array)),
        ray.get(echo.remote(array)),
        ray.get(ray.put({"a": [array]}))["a"][0],
    ):
        assert found.dtype == array.dtype and found.shape == array.shape
        assert np.array_equal(found, array)


def test_arrays_of_a_kind_that_was_met_before():
    """The second of a kind is not pickled: what it takes from the first must be all that they have
    in common.
    """

    @ray.remote
    def tell(array):
        return array, array.flags.c_contiguous, array.flags.f_contiguous

    kinds = {
        "one axis": np.zeros(100),
        "read-only": np.zeros(100),
        "two axes": np.zeros((10, 10)),
        "the other order": np.zeros((10, 10), order="F"),
        "other axes": np.zeros((4, 25)),
        "no axis": np.array(0.0),
        "another type": np.zeros(100, dtype=np.float32),
        "the other end first": np.zeros(100, dtype=">f8"),
        "with a note": np.zeros(100, dtype=np.dtype(float, metadata={"unit": "m"})),
        "large": np.zeros(100_000),
        "many axes": np.zeros((1,) * 20),
        "nothing": np.zeros((0, 3)),
    }
    for round_ in range(3):
        for name, kind in kinds.items():
            array = kind + round_ if name != "nothing" else kind
            array = np.asarray(
                array, dtype=kind.dtype, order="F" if name == "the other order" else "C"
            )
            array.flags.writeable = name != "read-only"
            for found, c_order, f_order in (
                ray.get(tell.remote(array)),
                ray.get(tell.remote(ray.put(array))),
            ):
                assert np.array_equal(found, array) and found.shape == array.shape, name
                assert (
                    found.dtype == array.dtype and found.dtype.byteorder == array.dtype.byteorder
                ), name
                assert (c_order, f_order) == (array.flags.c_contiguous, array.flags.f_contiguous), (
                    name
                )


def test_a_record_whose_fields_get_other_names():
    @ray.remote
    def rename(array):
        names = array.dtype.names
        array.dtype.names = ("e", "f")
        return names

    array = np.zeros(100, dtype=[("a", "i4"), ("b", "f8")])
    assert ray.get(ray.put(array)).dtype.names == ("a", "b")
    array.dtype.names = ("c", "d")
    assert ray.get(ray.put(array)).dtype.names == ("c", "d")
    assert [ray.get(rename.remote(array)) for _ in range(4)] == [("c", "d")] * 4


def test_what_is_noted_in_a_dtype_goes_along():
    array = np.zeros(100, dtype=np.dtype(float, metadata={"unit": ["m"], "ref": [ray.put("kept")]}))
    for unit in ("m", "km", "ft"):
        array.dtype.metadata["unit"][0] = unit
        found = ray.get(ray.put(array))
        assert found.dtype.metadata["unit"] == [unit]
        assert ray.get(found.dtype.metadata["ref"][0]) == "kept"


def test_arrays_that_the_user_pickles_in_a_way_of_his_own():
    def with_sum(array):
        return rebuilt, (pickle.PickleBuffer(array), float(array.sum()))

    assert ray.get(ray.put(np.full(4, 1.0))).shape == (4,)
    copyreg.pickle(np.ndarray, with_sum)
    try:
        assert [ray.get(ray.put(np.full(4, float(i))))[1] for i in range(3)] == [0, 4, 8]
    finally:
        del copyreg.dispatch_table[np.ndarray]
    assert [ray.get(ray.put(np.full(4, float(i))))[1] for i in range(3)] == [0, 1, 2]


def rebuilt(buffer, total):
    return np.array([len(buffer) / 8, total])


class Frame:
    """Comes back as an array, of which its pickle does not say how long it is."""

    def __init__(self, data):
        self.data = data

    def __reduce_ex__(self, protocol):
        return np.frombuffer, (pickle.PickleBuffer(self.data), "u1")


def test_other_things_that_come_back_as_arrays():
    for size in (5000, 9000, 100_000):
        assert ray.get(ray.put(Frame(bytes(size)))).shape == (size,)


def test_small_arrays_that_are_kept_keep_nothing_in_the_store():
    before = support.store_free_settled()
    kept = [ray.get(ray.put(np.full(400, i))) for i in range(20_000)]  # 64 MiB
    assert support.store_free_settled() > before - 16 * MIB
    assert all((array == i).all() for i, array in enumerate(kept))


def test_subclasses_stay_what_they_are():
    for _ in range(3):
        records = ray.get(ray.put(np.rec.array([(1, 2.5)], dtype=[("a", int), ("b", float)])))
        assert type(records) is np.recarray and records.b[0] == 2.5
        masked = ray.get(ray.put(np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])))
        assert masked.sum() == 4


def test_get_copies_nothing():
    ref = ray.put(np.ones(MIB))
    first, second = ray.get(ref), ray.get(ref)
    assert address(first) == address(second)
    assert address(ray.get([ref])[0]) == address(first)


def test_arrays_are_aligned():
    for offset in range(5):
        arrays = ray.get(ray.put([b"x" * offset, np.ones(5000), b"y" * offset, np.ones(5001)]))
        assert address(arrays[1]) % 64 == 0 and address(arrays[3]) % 64 == 0


def test_arrays_are_read_only():
    arrays = [np.zeros(100_000), np.zeros(3)]
    for array in ray.get(
        [ray.put(array) for array in arrays] + [echo.remote(array) for array in arrays]
    ):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError):
            array.flags.writeable = True
        writable = array.copy()
        writable[0] = 1


def test_arrays_are_read_only_in_tasks():
    @ray.remote
    def write(array):
        array += 1

    ref = ray.put(np.zeros(100_000))
    with pytest.raises(ValueError, match="read-only"):
        ray.get(write.remote(ref))
    assert not ray.get(ref).any()


def test_a_task_reads_what_was_put():
    @ray.remote
    def total(array, again):
        assert address(array) == address(again)
        return array.sum()

    ref = ray.put(np.arange(MIB))
    assert ray.get(total.remote(ref, ref)) == MIB * (MIB - 1) // 2


def churn():
    """Uses up what is free several times over."""
    for value in range(12):
        ray.put(np.full(8 * MIB, value))


def test_a_view_outlives_its_ref():
    array = ray.get(ray.put(np.full(MIB, 7)))
    slice_of_it = array[10:20]
    churn()
    assert (array == 7).all()
    del array
    gc.collect()
    churn()
    assert (slice_of_it == 7).all()


def test_views_of_many_objects_outlive_their_refs():
    arrays = [ray.get(ray.put(np.full(2000, i))) for i in range(500)]
    churn()
    assert all((array == i).all() for i, array in enumerate(arrays))


def test_a_result_outlives_its_ref():
    @ray.remote
    def make(value):
        return np.full(MIB, value)

    array = ray.get(make.remote(3))
    churn()
    assert (array == 3).all()


def test_memory_comes_back_when_the_last_view_goes():
    before = support.store_free_settled()
    array = ray.get(ray.put(np.ones(4 * MIB)))
    gc.collect()
    assert support.store_free() <= before - 32 * MIB
    view = array[:1]
    del array
    gc.collect()
    assert support.store_free() <= before - 32 * MIB
    del view
    assert support.wait_until(lambda: support.store_free() >= before - 4 * MIB), (
        before,
        support.store_free(),
    )


def test_a_view_kept_by_an_actor():
    @ray.remote
    class Keeper:
        def keep(self, array):
            self.array = array

        def check(self):
            return bool((self.array == 5).all())

        def drop(self):
            del self.array

    before = support.store_free()
    keeper = Keeper.remote()
    ref = ray.put(np.full(MIB, 5))
    ray.get(keeper.keep.remote(ref))
    del ref
    churn()
    assert ray.get(keeper.check.remote())
    ray.get(keeper.drop.remote())
    assert support.wait_until(lambda: support.store_free() >= before - 4 * MIB), (
        before,
        support.store_free(),
    )


def test_a_view_kept_by_a_workers_module():
    @ray.remote
    def keep(array):
        import sys

        sys.modules["math"].kept = array

    @ray.remote
    def check():
        import math

        return not hasattr(math, "kept") or bool((math.kept == 9).all())

    ray.get([keep.remote(np.full(MIB, 9)) for _ in range(4)])
    churn()
    assert all(ray.get([check.remote() for _ in range(8)]))


def test_an_array_that_was_got_can_be_put_again():
    array = ray.get(ray.put(np.arange(MIB)))
    again = ray.get(ray.put(array[5:]))
    assert np.array_equal(again, array[5:])
    assert np.array_equal(ray.get(echo.remote(array)), array)


def test_a_hundred_megabytes():
    array = np.arange(13 * MIB, dtype=float)
    found = ray.get(ray.put(array))
    assert found[0] == 0 and found[-1] == 13 * MIB - 1 and found.nbytes == array.nbytes


def test_many_arrays_in_one_object():
    arrays = [np.full(1000, i) for i in range(300)]
    assert all((found == i).all() for i, found in enumerate(ray.get(ray.put(arrays))))


def test_a_changed_source_does_not_change_the_object():
    array = np.zeros(MIB)
    ref = ray.put(array)
    task = echo.remote(array)
    array += 1
    assert not ray.get(ref).any() and not ray.get(task).any()


def test_scalars():
    for value in (np.float64(1.5), np.int32(3), np.bool_(True)):
        found = ray.get(echo.remote(value))
        assert type(found) is type(value) and found == value


@pytest.mark.parametrize("kind", ["M8[us]", "m8[s]", ">M8[D]", "M8"])
@pytest.mark.parametrize("count", [0, 6, 6000])
def test_times_and_spans(kind, count):
    array = np.arange(count).view(kind).reshape(2, -1)
    if count:
        array[0, 0] = "NaT"
    for value in (array, array.T, array[:, ::2], array[0]):
        came, boxed = ray.get(ray.put(value)), ray.get(ray.put([value, len]))[0]
        for found in (came, boxed):
            assert found.dtype == value.dtype
            assert found.shape == value.shape
            assert np.array_equal(found.astype("i8"), value.astype("i8"))


def test_times_are_read_in_place():
    reference = ray.put(np.arange(6000).view("M8[us]"))
    first, second = ray.get(reference), ray.get(reference)
    assert first.ctypes.data == second.ctypes.data
    assert not first.flags.writeable
