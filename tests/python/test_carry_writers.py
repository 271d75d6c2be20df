"""Buffers that are made in the store itself (serialization.written), as reducers use them."""

import os
import signal

import pytest

import ray
from ray._private import serialization

INIT = {"num_cpus": 2, "object_store_memory": 64 << 20}
pytestmark = pytest.mark.usefixtures("cluster")


class Pattern:
    """`size` bytes that exist nowhere before they are written."""

    def __init__(self, size, write=None):
        self.size = size
        self.write = write or (lambda view: fill(view, 7))

    def __reduce__(self):
        return bytes, (serialization.written(self.size, self.write),)


def fill(view, value):
    view[:] = bytes([value]) * len(view)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 100_000, 5 << 20])
def test_what_is_written_is_what_arrives(size):
    assert ray.get(ray.put(Pattern(size))) == b"\7" * size
    assert ray.get(ray.put([Pattern(size), "between", Pattern(3)])) == [
        b"\7" * size,
        "between",
        b"\7" * 3,
    ]


def test_from_a_task_and_as_an_argument():
    @ray.remote
    def made(size):
        return Pattern(size)

    @ray.remote
    def length(value, beside):
        return len(value), len(beside)

    assert ray.get(made.remote(1 << 20)) == b"\7" * (1 << 20)
    assert ray.get(length.remote(Pattern(1 << 20), beside=Pattern(5))) == (1 << 20, 5)


def refuse(view):
    view[0] = 1
    raise ArithmeticError("no more digits")


def test_an_error_while_writing_is_the_callers_and_leaves_nothing():
    for _ in range(20):  # more than the store would hold
        with pytest.raises(ArithmeticError, match="no more digits"):
            ray.put(Pattern(8 << 20, refuse))
    assert ray.get(ray.put(Pattern(40 << 20))) == b"\7" * (40 << 20)


def test_an_error_while_a_result_is_written_is_the_tasks():
    @ray.remote
    def spoilt():
        return Pattern(8 << 20, refuse)

    @ray.remote(num_returns=2)
    def half():
        return Pattern(8 << 20), Pattern(8 << 20, refuse)

    for _ in range(5):
        with pytest.raises(ArithmeticError, match="no more digits"):
            ray.get(spoilt.remote())
        with pytest.raises(ArithmeticError, match="no more digits"):
            ray.get(half.remote()[1])


def test_a_worker_that_is_killed_while_it_writes_leaves_nothing():
    @ray.remote(max_retries=0)
    def killed():
        return Pattern(16 << 20, lambda view: os.kill(os.getpid(), signal.SIGKILL))

    @ray.remote(max_retries=0)
    def killed_in_put():
        ray.put(Pattern(16 << 20, lambda view: os.kill(os.getpid(), signal.SIGKILL)))

    for _ in range(4):  # twice what the store holds
        for task in (killed, killed_in_put):
            with pytest.raises(ray.exceptions.WorkerCrashedError):
                ray.get(task.remote())
    assert ray.get(ray.put(Pattern(40 << 20))) == b"\7" * (40 << 20)


def test_a_writer_may_use_ray():
    def write(view):
        fill(view, ray.get(ray.put(9)))

    assert ray.get(ray.put(Pattern(1 << 20, write))) == b"\x09" * (1 << 20)


def test_a_view_that_a_writer_keeps_is_closed():
    kept = []
    ray.put(Pattern(1 << 20, kept.append))
    with pytest.raises(ValueError, match="released"):
        kept[0][0] = 1


def test_a_writer_of_a_negative_size_is_told():
    with pytest.raises((ValueError, TypeError)):
        ray.put(Pattern(-1))


def test_the_session_may_end_while_a_writer_runs():
    code = """
import ray
from ray._private import serialization
class Ending:
    def __reduce__(self):
        return bytes, (serialization.written(8 << 20, self.write),)
    def write(self, view):
        ray.shutdown()
        view[:] = bytes(len(view))
ray.init(num_cpus=1)
try:
    ray.put(Ending())
except Exception as error:
    print(type(error).__name__, error)
print(ray.get(ray.put(1)))
"""
    import subprocess
    import sys

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert "session" in first or "shut" in first, first
    assert second == "1"


def test_nothing_is_imported_for_a_value_that_does_not_need_it():
    code = """
import sys
import ray
class Own:
    pass
ray.init(num_cpus=1)
ray.get(ray.put([Own(), len, {1: Own}]))
libraries = {"PIL", "torch", "pyarrow", "polars", "pandas", "scipy", "numpy"}
print(sorted(name for name in sys.modules if name.partition(".")[0] in libraries))
print([name for name in sys.modules if name.startswith("ray._private.reducers.")])
"""
    import subprocess
    import sys

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "[]\n[]\n", ran.stdout + ran.stderr


def test_what_the_program_registered_goes_first():
    import copyreg

    class Fraction:
        def __init__(self, top):
            self.top = top

    copyreg.pickle(Fraction, lambda value: (int, (value.top,)))
    try:
        assert ray.get(ray.put([Fraction(5)])) == [5]
    finally:
        del copyreg.dispatch_table[Fraction]
