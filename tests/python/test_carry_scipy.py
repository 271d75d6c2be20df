"""scipy's sparse matrices through the store."""

import pytest

sparse = pytest.importorskip("scipy.sparse")
import numpy  # noqa: E402

import ray  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")


def matrix(form):
    return sparse.random(300, 200, density=0.1, format=form, random_state=7)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_every_format_arrives_as_it_was(form):
    value = matrix(form)
    came = ray.get(ray.put(value))
    assert type(came) is type(value)
    assert came.dtype == value.dtype
    assert numpy.array_equal(came.toarray(), value.toarray())


def test_it_is_read_in_place_and_read_only():
    reference = ray.put(matrix("csr"))
    first, second = ray.get(reference), ray.get(reference)
    for name in ("data", "indices"):
        assert getattr(first, name).ctypes.data == getattr(second, name).ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        first.data[0] = 1
    x = numpy.ones(200)
    assert numpy.allclose(first @ x, matrix("csr") @ x)
    assert (first.T @ first).shape == (200, 200)
    changed = first.copy()
    changed.data[:] = 0
    assert changed.sum() == 0


def test_sparse_arrays_and_tasks():
    @ray.remote
    def product(a, x):
        return a @ x

    value = sparse.csr_array(matrix("csr"))
    x = numpy.ones(200)
    assert numpy.allclose(ray.get(product.remote(value, x)), value @ x)
    assert type(ray.get(ray.put(value))) is type(value)
