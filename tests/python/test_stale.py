"""Refs and handles from before a shutdown: an error that says so, never somebody else's object."""

import pytest

import ray
from ray.exceptions import RayError


@ray.remote
def echo(x):
    return x


@ray.remote
class Counter:
    def add(self):
        return 1


@pytest.fixture
def old(start):
    start(num_cpus=1)
    ref, counter = ray.put("old"), Counter.remote()
    result = echo.remote(1)
    ray.get([result, counter.add.remote()])
    ray.shutdown()
    start(num_cpus=1)
    fresh = [ray.put(f"new {i}") for i in range(50)]  # which may have the same numbers inside
    yield ref, result, counter
    assert ray.get(fresh) == [f"new {i}" for i in range(50)]
    assert ray.get(echo.remote(2)) == 2


STALE = (RayError, ValueError, RuntimeError, TypeError)


def test_get(old):
    for ref in old[:2]:
        with pytest.raises(STALE, match="(?i)session|shutdown"):
            ray.get(ref, timeout=10)
        with pytest.raises(STALE, match="(?i)session|shutdown"):
            ray.get([ray.put(1), ref], timeout=10)


def test_wait(old):
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.wait([old[0]], timeout=10)


def test_as_an_argument(old):
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.get(echo.remote(old[0]), timeout=10)
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.get(echo.remote([old[0]]), timeout=10)
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.put([old[0]])


def test_call_of_an_old_handle(old):
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.get(old[2].add.remote(), timeout=10)
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.kill(old[2])
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.get(echo.remote(old[2]), timeout=10)


def test_dropping_old_refs_harms_nobody(old):
    fresh = [ray.put([i]) for i in range(200)]
    del old
    assert ray.get(fresh) == [[i] for i in range(200)]


def test_an_old_ref_is_still_a_thing(old):
    assert (
        len(old[0].hex()) == 40
        and old[0] == old[0]
        and old[0] != old[1]
        and hash(old[0]) is not None
    )
    assert "ObjectRef" in repr(old[0])


def test_old_and_new_refs_differ(old):
    assert old[0] not in {ray.put(i) for i in range(300)}


def test_get_of_an_old_ref_without_a_session(start):
    start(num_cpus=1)
    ref = ray.put(1)
    ray.shutdown()
    with pytest.raises(STALE):
        ray.get(ref, timeout=10)


def test_old_refs_and_handles_start_no_session(start):
    start(num_cpus=1)
    ref, counter, other = ray.put(1), Counter.remote(), Counter.remote()
    ray.get(counter.add.remote())
    ray.shutdown()
    calls = [
        lambda: ray.get([ref]),
        lambda: ray.wait([ref]),
        lambda: counter.add.remote(),
        lambda: other.add.remote(),
        lambda: ray.kill(counter),
    ]
    for call in calls:
        errors = (ray.exceptions.RaySystemError, ray.exceptions.ActorHandleNotFoundError)
        with pytest.raises(errors, match="shutdown"):
            call()
    assert not ray.is_initialized()


def test_closures_over_old_refs(start):
    start(num_cpus=1)
    ref = ray.put(1)

    @ray.remote
    def use():
        return ray.get(ref)

    assert ray.get(use.remote()) == 1
    ray.shutdown()
    start(num_cpus=1)
    with pytest.raises(STALE, match="(?i)session|shutdown"):
        ray.get(use.remote(), timeout=10)


def test_a_session_that_is_another_one_after_pickling(start):
    """A new client may lie where the old one lay: nothing of the call goes on in the new session."""
    start(num_cpus=1)

    class Restarts:
        def __reduce__(self):
            ray.shutdown()
            ray.init(num_cpus=1)
            return int, ()

    for call in (
        lambda ref: ray.put([ref, Restarts()]),
        lambda ref: echo.remote([ref, Restarts()]),
        lambda ref: echo.remote([ref, Restarts(), "x" * 100_000]),
        lambda ref: echo.remote(ref, [Restarts()]),
    ):
        with pytest.raises((RayError, TypeError)):
            call(ray.put(1))
    assert ray.get(echo.remote(5)) == 5
