"""A node keeps a process that zygotes are forked from: joining is quick, and makes no difference to
what a driver's workers see.
"""

import contextlib
import os
import signal
import sys

import drivers
import pytest
import support

import ray


@pytest.fixture(scope="module")
def node():
    with drivers.node() as started:
        yield started


@pytest.fixture
def driver(node, folder):
    with contextlib.ExitStack() as made:
        yield lambda env=None: made.enter_context(
            drivers.Driver(folder, {"address": node.address}, env=env)
        )


def mothers():
    return [pid for pid, title in support.processes() if "ray::mother" in title]


def look():
    @ray.remote
    def there():
        return os.getcwd(), dict(os.environ), sys.path, os.getpid()

    return (os.getcwd(), dict(os.environ), sys.path), ray.get(there.remote())


def variable(name):
    @ray.remote
    def there():
        return os.environ.get(name), os.popen(f"echo ${name}").read().strip()

    return ray.get(there.remote())


def test_workers_see_the_drivers_surroundings(driver):
    one = driver(env={"WHOSE": "the first's"})
    other = driver(env={"WHOSE": "the other's", "HOME": None})
    assert one.call(variable, "WHOSE") == ("the first's", "the first's")
    assert other.call(variable, "WHOSE") == ("the other's", "the other's")
    for each in (one, other):
        mine, theirs = each.call(look)
        added = {"OMP_NUM_THREADS"}
        assert theirs[0] == mine[0] and theirs[2] == mine[2]
        assert {k: v for k, v in theirs[1].items() if k not in added} == {
            k: v for k, v in mine[1].items() if k not in added
        }
    assert "HOME" not in other.call(look)[1][1]


def test_a_variable_that_only_a_start_reads(driver):
    def hashed(each):
        return each.call(hash_of, "text")

    plain = driver(env={"PYTHONHASHSEED": "1"})
    assert hashed(plain) == hashed(driver(env={"PYTHONHASHSEED": "1"}))
    assert hashed(plain) != hashed(driver(env={"PYTHONHASHSEED": "2"}))


def hash_of(text):
    @ray.remote
    def there():
        return hash(text)

    return ray.get(there.remote())


def test_nothing_but_the_mother_stays(node, driver):
    (mother,) = mothers()
    each = driver()
    each.call(hash_of, "x")
    assert support.wait_until(lambda: drivers.on_node(node))
    each.end()
    assert support.wait_until(lambda: not drivers.on_node(node))
    assert mothers() == [mother]


def test_a_mother_that_is_killed(node, driver):
    before = driver()
    before.call(hash_of, "x")
    for _ in range(3):
        for pid in mothers():
            os.kill(pid, signal.SIGKILL)
        after = driver()  # whether the next mother is there or not
        assert after.call(hash_of, "y") is not None
    assert before.call(hash_of, "x") is not None
    assert support.wait_until(lambda: len(mothers()) == 1)
