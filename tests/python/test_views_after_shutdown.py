"""A view of an object is ordinary memory to its user: it may not vanish, not even with the session."""

import gc

import numpy as np
import pytest
import support

import ray

pytestmark = pytest.mark.one_path("what the driver has got, after the session")


def test_a_view_outlives_the_session(start):
    start(num_cpus=1)
    array = ray.get(ray.put(np.full(100_000, 3)))
    small = ray.get(ray.put(np.full(2000, 4)))
    ray.shutdown()
    assert (array == 3).all() and (small == 4).all()
    start(num_cpus=1)
    ray.put(np.full(100_000, 5))
    assert (array == 3).all() and (small == 4).all()
    ray.shutdown()
    del array, small
    gc.collect()


def test_the_memory_goes_with_the_last_view(start):
    def segments():
        with open("/proc/self/maps") as file:
            return sum("memfd" in line for line in file)

    gc.collect()
    before = segments()
    start(num_cpus=1)
    array = ray.get(ray.put(np.full(100_000, 3)))
    ray.shutdown()
    assert segments() > before
    del array
    gc.collect()
    assert segments() == before


def test_a_view_outlives_the_daemon(folder):
    code = """
import os, signal, ray, numpy as np
ray.init(num_cpus=1, _temp_dir=os.path.dirname(__file__))
array = ray.get(ray.put(np.full(100_000, 3)))
os.kill(ray._private.worker._core.session()["daemon_pid"], signal.SIGKILL)
try:
    ray.get(ray.remote(abs).remote(1), timeout=20)
except ray.exceptions.RayError as error:
    assert not isinstance(error, ray.exceptions.GetTimeoutError), error
assert (array == 3).all()
print("fine")
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.strip() == "fine", result.stderr
