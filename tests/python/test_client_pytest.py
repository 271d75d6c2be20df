"""pytest as users have it: a session in a fixture, for each test, each module or the whole run."""

import os
import subprocess
import sys

import support

CONFTEST = """
import pytest
import ray


@pytest.fixture(scope="session")
def cluster():
    context = ray.init(num_cpus=2, include_dashboard=False)
    yield context
    ray.shutdown()


@pytest.fixture
def counter(cluster):
    @ray.remote
    class Counter:
        def __init__(self):
            self.n = 0

        def add(self, k):
            self.n += k
            return self.n

    actor = Counter.remote()
    yield actor
    ray.kill(actor)


@pytest.fixture
def own_cluster():
    ray.init(num_cpus=1)
    yield
    ray.shutdown()
"""

SHARED = """
import pytest
import ray


@ray.remote
def square(x):
    return x * x


@pytest.mark.parametrize("x", range(20))
def test_square(cluster, x):
    assert ray.get(square.remote(x)) == x * x


def test_counter(counter):
    assert ray.get([counter.add.remote(1) for _ in range(3)]) == [1, 2, 3]


def test_counter_again(counter):
    assert ray.get(counter.add.remote(1)) == 1


def test_an_error(cluster):
    @ray.remote
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ray.get(fail.remote())


def test_output(cluster, capfd):
    @ray.remote
    def say():
        print("a word from a worker")

    ray.get(say.remote())
    heard = ""
    for _ in range(100):
        heard += "".join(capfd.readouterr())
        if "a word from a worker" in heard:
            return
        __import__("time").sleep(0.05)
    raise AssertionError(heard)


def test_that_fails(cluster):
    assert ray.get(square.remote(3)) == 10
"""

OWN = """
import ray
import pytest


@pytest.mark.parametrize("x", range(3))
def test_each_has_a_session(own_cluster, x):
    assert ray.cluster_resources()["CPU"] == 1
    assert ray.get(ray.remote(lambda: x).remote()) == x


def test_none_is_left():
    assert not ray.is_initialized()
"""


def run(folder, **files):
    for name, text in files.items():
        with open(os.path.join(folder, name + ".py"), "w") as file:
            file.write(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_session_for_the_whole_run(folder):
    found = run(folder, conftest=CONFTEST, test_shared=SHARED)
    assert "1 failed, 24 passed" in found.stdout, found.stdout
    assert "assert 9 == 10" in found.stdout
    support.wait_until(lambda: not support.processes())


def test_a_session_for_each_test(folder):
    found = run(folder, conftest=CONFTEST, test_own=OWN)
    assert found.returncode == 0 and "4 passed" in found.stdout, found.stdout
    support.wait_until(lambda: not support.processes())
