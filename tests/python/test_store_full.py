"""What can't fit is an error with the sizes; what is dropped makes room again."""

import gc

import numpy as np
import pytest
import support

import ray
from ray.exceptions import ObjectStoreFullError

MB = 1_000_000


@ray.remote
def make(size):
    return b"x" * size


@ray.remote
def put_many(count, size):
    return [ray.put(bytes([i]) * size) for i in range(count)]


@ray.remote
def echo(x):
    return x


@pytest.fixture(autouse=True)
def session(start):
    """One for each test: a full store is nothing to share."""
    start(num_cpus=2, object_store_memory=100 << 20)


@pytest.fixture
def in_use():
    """Most of the store is: 60 MB do not fit beside it, nor can anything be moved for them."""
    return [ray.get(ray.put(np.full(5 * MB, i, dtype=np.uint8))) for i in range(12)]


def test_a_store_that_is_full_of_what_is_in_use():
    kept = []
    with pytest.raises(ObjectStoreFullError):
        for i in range(100):
            kept.append(ray.get(ray.put(np.full(5 * MB, i, dtype=np.uint8))))
    assert 12 <= len(kept) <= 20
    assert all((view == i).all() for i, view in enumerate(kept))  # nothing is lost
    assert ray.get(ray.put(5)) == 5 and ray.get(echo.remote(6), timeout=30) == 6
    kept.pop()
    gc.collect()
    assert support.wait_until(lambda: support.store_free() >= 5 * MB)
    ray.put(b"x" * (5 * MB))


def test_room_of_dropped_small_objects_serves_large_ones():
    kept = [ray.put(b"x" * 5000) for _ in range(14_000)]
    del kept
    gc.collect()
    assert len(ray.get(ray.put(b"y" * (70 * MB)))) == 70 * MB
    kept = [ray.put(b"x" * 5000) for _ in range(14_000)]
    del kept
    gc.collect()
    assert len(ray.get(make.remote(70 * MB), timeout=30)) == 70 * MB


def test_room_of_one_process_serves_the_other():
    for _ in range(4):
        refs = ray.get(put_many.remote(7, 10 * MB), timeout=30)
        assert ray.get(refs[6])[:1] == b"\6"
        del refs
        gc.collect()
        assert support.wait_until(lambda: support.store_free() > 75 * MB)
        kept = [ray.put(b"x" * (10 * MB)) for _ in range(7)]
        del kept
        gc.collect()
        assert support.wait_until(lambda: support.store_free() > 75 * MB)


def test_a_result_that_does_not_fit(in_use):
    with pytest.raises(ObjectStoreFullError):
        ray.get(make.remote(60 * MB), timeout=40)
    assert ray.get(echo.remote(1), timeout=30) == 1


def test_one_of_several_results_does_not_fit(in_use):
    @ray.remote(num_returns=2)
    def two():
        return 1, b"x" * (60 * MB)

    for ref in two.remote():
        with pytest.raises(ObjectStoreFullError):
            ray.get(ref, timeout=40)


def test_an_argument_that_does_not_fit(in_use):
    with pytest.raises(ObjectStoreFullError):
        echo.remote(b"x" * (60 * MB))
    with pytest.raises(ObjectStoreFullError):
        echo.remote(np.zeros(60 * MB, dtype=np.uint8))
    assert ray.get(echo.remote(1), timeout=30) == 1


def test_a_put_in_a_task_that_does_not_fit(in_use):
    with pytest.raises(ObjectStoreFullError):
        ray.get(put_many.remote(1, 60 * MB), timeout=40)
    in_use.clear()
    gc.collect()
    assert support.wait_until(lambda: support.store_free() > 80 * MB), (
        "what the failed task had put is still there"
    )


def test_the_error_survives_the_way_through_a_task(in_use):
    @ray.remote
    def outer():
        try:
            ray.put(b"x" * (60 * MB))
        except ObjectStoreFullError:
            return "caught"

    assert ray.get(outer.remote(), timeout=40) == "caught"
