"""joblib's backend "ray"."""

import os

import joblib
import numpy as np
import pytest

import ray
from ray.util.joblib import register_ray

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def backend():
    register_ray()
    with joblib.parallel_config(backend="ray", n_jobs=2):
        yield


def square(x):
    return x * x


def inverse(x):
    return 1 / x


def test_it_computes_in_order_elsewhere():
    found = joblib.Parallel()(joblib.delayed(square)(x) for x in range(500))
    assert found == [x * x for x in range(500)]
    pids = joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(20))
    assert os.getpid() not in pids and len(set(pids)) <= 2


def test_the_processes_are_kept_from_call_to_call():
    # A call may use one of the two.
    pids = set()
    for _ in range(5):
        pids |= set(joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(10)))
    assert len(pids) <= 2
    with joblib.Parallel() as parallel:
        for _ in range(3):
            assert parallel(joblib.delayed(square)(x) for x in (1, 2)) == [1, 4]


def test_different_functions_keywords_and_closures():
    offset = 3
    calls = [joblib.delayed(lambda x: x + offset)(1), joblib.delayed(dict)(a=1)]
    assert joblib.Parallel(batch_size=2)(calls) == [4, {"a": 1}]


def test_large_arguments_are_read_in_place():
    array = np.arange(1 << 20)

    def look(a, i):
        return int(a[i]), a.flags.writeable

    found = joblib.Parallel()(joblib.delayed(look)(array, i=i) for i in range(20))
    assert found == [(i, False) for i in range(20)]


def test_an_error_is_raised_and_the_next_call_works():
    with pytest.raises(ZeroDivisionError):
        joblib.Parallel()(joblib.delayed(inverse)(x) for x in (2, 0, 1))
    assert joblib.Parallel()(joblib.delayed(inverse)(x) for x in (2, 1)) == [0.5, 1]


def test_generators():
    found = joblib.Parallel(return_as="generator")(joblib.delayed(square)(x) for x in range(30))
    assert list(found) == [x * x for x in range(30)]
    found = joblib.Parallel(return_as="generator_unordered")(
        joblib.delayed(square)(x) for x in range(30)
    )
    assert sorted(found) == [x * x for x in range(30)]


def test_calls_inside_of_calls():
    def outer(x):
        inner = joblib.Parallel(n_jobs=2)(joblib.delayed(square)(x + i) for i in range(3))
        return sum(inner), type(joblib.parallel.get_active_backend()[0]).__name__

    found = joblib.Parallel()(joblib.delayed(outer)(x) for x in range(2))
    assert [total for total, _ in found] == [5, 14]
    assert all("Ray" not in name for _, name in found)


def test_n_jobs():
    from ray.util.joblib.ray_backend import RayBackend

    backend = RayBackend()
    assert [backend.effective_n_jobs(n) for n in (-1, -2, -100, 7, None)] == [4, 3, 1, 7, 1]
    with pytest.raises(ValueError):
        backend.effective_n_jobs(0)


def test_ray_remote_args():
    with joblib.parallel_config(backend="ray", n_jobs=2, ray_remote_args={"num_cpus": 2}):
        found = joblib.Parallel()(
            joblib.delayed(lambda: ray.get_runtime_context().get_assigned_resources())()
            for _ in range(2)
        )
    assert found[0]["CPU"] == 2
