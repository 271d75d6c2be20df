"""ray.wait, and the timeouts of get."""

import threading
import time

import numpy as np
import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(x):
    return x


@pytest.fixture
def gated(folder):
    """A task that ends when its file is there, and the call that makes it."""

    @ray.remote(num_cpus=0)
    def wait_for(name):
        support.wait_for_file(f"{folder}/{name}")
        return name

    opened = []

    def release(name):
        opened.append(name)
        support.touch(f"{folder}/{name}")

    started = []

    def begin(name):
        started.append(name)
        return wait_for.remote(name)

    yield begin, release
    for name in started:
        support.touch(f"{folder}/{name}")


def test_one_ready_is_enough_by_default(gated):
    begin, release = gated
    a, b = begin("a"), begin("b")
    release("b")
    assert ray.wait([a, b]) == ([b], [a])
    release("a")
    assert ray.wait([a]) == ([a], [])


def test_no_more_than_num_returns_are_ready():
    refs = [ray.put(i) for i in range(5)]
    assert ray.wait(refs) == (refs[:1], refs[1:])
    assert ray.wait(refs, num_returns=3) == (refs[:3], refs[3:])
    assert ray.wait(refs, num_returns=5) == (refs, [])


def test_both_lists_keep_the_order(gated):
    begin, release = gated
    refs = [begin(str(i)) for i in range(5)]
    for name in "42":
        release(name)
        assert support.wait_until(lambda name=name: ray.wait([refs[int(name)]], timeout=0)[0])
    assert ray.wait(refs, num_returns=2) == ([refs[2], refs[4]], [refs[0], refs[1], refs[3]])


def test_a_timeout_returns_what_there_is(gated):
    begin, release = gated
    slow, done = begin("slow"), ray.put(1)
    assert ray.wait([slow, done], num_returns=2, timeout=0.05) == ([done], [slow])
    assert ray.wait([slow], timeout=0) == ([], [slow])
    release("slow")
    assert ray.wait([slow, done], num_returns=2, timeout=30) == ([slow, done], [])


def test_a_timeout_is_in_seconds(gated):
    begin, _ = gated
    ref = begin("never")
    begin_time = time.monotonic()
    assert ray.wait([ref], timeout=0.3) == ([], [ref])
    assert 0.29 <= time.monotonic() - begin_time < 10


def test_whole_and_fractional_timeouts():
    ref = ray.put(1)
    for timeout in (0, 0.0, 1, 0.5, None, 10**6):
        assert ray.wait([ref], timeout=timeout) == ([ref], [])


def test_a_failed_task_is_ready():
    @ray.remote
    def fail():
        raise ValueError("no")

    ref = fail.remote()
    assert ray.wait([ref], timeout=30) == ([ref], [])
    with pytest.raises(ValueError):
        ray.get(ref)


def test_one_by_one():
    waiting = [echo.remote(i) for i in range(300)]
    seen = []
    while waiting:
        (ready,), waiting = ray.wait(waiting)
        seen.append(ray.get(ready))
    assert sorted(seen) == list(range(300))


def test_wait_in_a_task():
    @ray.remote
    def waits(refs):
        ready, rest = ray.wait(refs, num_returns=len(refs), timeout=30)
        return len(ready), len(rest)

    assert ray.get(waits.remote([echo.remote(i) for i in range(10)])) == (10, 0)


def test_fetch_local_is_taken():
    ref = ray.put(1)
    assert ray.wait([ref], num_returns=1, timeout=5, fetch_local=False) == ([ref], [])


def test_results_of_one_task_together():
    @ray.remote(num_returns=3)
    def three():
        return 1, 2, 3

    refs = three.remote()
    assert ray.wait(refs, num_returns=3, timeout=30) == (refs, [])


@pytest.mark.parametrize("count", [0, -1, 3], ids=str)
def test_num_returns_out_of_range(count):
    refs = [ray.put(1), ray.put(2)]
    with pytest.raises(ValueError, match="num_returns"):
        ray.wait(refs, num_returns=count)


def test_duplicates():
    ref = ray.put(1)
    with pytest.raises(ValueError, match="(?i)duplicate|twice|unique"):
        ray.wait([ref, ref])
    (copy,) = ray.get(echo.remote([ref]))
    with pytest.raises(ValueError, match="(?i)duplicate|twice|unique"):
        ray.wait([ref, copy], num_returns=2)


@pytest.mark.parametrize("bad", ["text", 5, None, [5], ["a"], [None]], ids=str)
def test_no_refs(bad):
    name = type(bad[0] if isinstance(bad, list) else bad).__name__
    with pytest.raises(TypeError, match=name):
        ray.wait(bad)


def test_a_single_ref_is_no_list():
    with pytest.raises(TypeError, match="list"):
        ray.wait(ray.put(1))


def test_wrong_options():
    refs = [ray.put(1)]
    with pytest.raises(TypeError):
        ray.wait(refs, num_returns="1")
    with pytest.raises(TypeError):
        ray.wait(refs, timeout="soon")
    with pytest.raises((TypeError, ValueError)):
        ray.wait(refs, timeout=-1)
    with pytest.raises((TypeError, ValueError)):
        ray.wait(refs, timeout=float("nan"))
    with pytest.raises(TypeError):
        ray.wait(refs, patience=1)


def test_options_that_are_almost_the_usual():
    refs = [ray.put(1), ray.put(2)]
    assert ray.wait(refs, num_returns=np.int64(2), timeout=float("inf")) == (refs, [])


def test_get_with_a_timeout(gated):
    begin, release = gated
    ref = begin("late")
    for timeout in (0, 0.05):
        with pytest.raises(ray.exceptions.GetTimeoutError) as info:
            ray.get(ref, timeout=timeout)
        assert isinstance(info.value, TimeoutError)
        assert f"waited {timeout} s: 0 of 1 objects are there, and {ref!r} is not" in str(
            info.value
        )
    with pytest.raises(ray.exceptions.GetTimeoutError, match="1 of 3 objects"):
        ray.get([ray.put(1), ref, ref], timeout=0.05)
    release("late")  # the task went on all the while
    assert ray.get(ref, timeout=30) == "late"


def test_get_with_a_timeout_of_what_is_there():
    assert ray.get(ray.put(1), timeout=0) == 1
    assert ray.get([ray.put(1), ray.put(2)], timeout=0) == [1, 2]
    assert ray.get(echo.remote(5), timeout=1000.5) == 5


def test_a_wrong_timeout_of_get():
    for timeout, error in [("soon", TypeError), (float("nan"), ValueError)]:
        with pytest.raises(error):
            ray.get(ray.put(1), timeout=timeout)


def test_an_early_error_ends_a_get_of_many(gated):
    begin, _ = gated

    @ray.remote
    def fail():
        raise KeyError("early")

    with pytest.raises(KeyError):
        ray.get([begin("never-a"), fail.remote(), begin("never-b")], timeout=30)


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("before", [True, False], ids=["before", "during"])
@pytest.mark.parametrize("place", ["last", "middle", "behind"])
def test_an_error_ends_a_get_wherever_it_is(gated, folder, place, before, timeout):
    begin, _ = gated

    @ray.remote(num_cpus=0)
    def fail():
        support.wait_for_file(f"{folder}/fail")
        raise KeyError("early")

    failing, there = fail.remote(), ray.put(1)
    refs = {
        "last": [there, begin("a"), failing],
        "middle": [begin("a"), there, failing, begin("b")],
        "behind": [begin("a"), failing, there, there],
    }[place]
    if before:
        support.touch(f"{folder}/fail")
        ray.wait([failing])
    else:
        threading.Timer(0.3, support.touch, [f"{folder}/fail"]).start()
    with pytest.raises(KeyError, match="early"):
        ray.get(refs, timeout=timeout)


def test_an_error_that_is_there_is_no_timeout(gated):
    begin, _ = gated

    @ray.remote
    def fail():
        raise KeyError("early")

    failed = fail.remote()
    ray.wait([failed])
    for timeout in (0, 0.05):
        with pytest.raises(KeyError, match="early"):
            ray.get([begin("a"), failed], timeout=timeout)
        with pytest.raises(KeyError, match="early"):
            ray.get([begin("a"), failed, begin("b")], timeout=timeout)


def test_an_error_among_many_that_arrive(gated):
    begin, _ = gated

    @ray.remote
    def maybe(i):
        if i == 1500:
            raise KeyError("early")
        return i

    with pytest.raises(KeyError, match="early"):
        ray.get([begin("a"), *[maybe.remote(i) for i in range(2000)]], timeout=30)
