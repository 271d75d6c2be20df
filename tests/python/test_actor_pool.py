"""ray.util.ActorPool."""

import os
import time

import pytest
import support

import ray
from ray.util import ActorPool

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
class Doubler:
    def double(self, x):
        if x < 0:
            raise ValueError("negative")
        return 2 * x

    @ray.method(num_returns=2)
    def both(self, x):
        return x, -x

    def until(self, path, x):
        while not os.path.exists(path):
            time.sleep(0.005)
        return x


def double(actor, x):
    return actor.double.remote(x)


def pool(count=2):
    return ActorPool([Doubler.remote() for _ in range(count)])


def test_map_keeps_the_order():
    assert list(pool().map(double, range(20))) == [2 * x for x in range(20)]


def test_map_unordered_has_all():
    assert sorted(pool().map_unordered(double, range(20))) == [2 * x for x in range(20)]


def test_submit_and_get_next():
    p = pool(1)
    for x in (1, 2, 3):
        p.submit(double, x)
    assert [p.get_next() for _ in range(3)] == [2, 4, 6]
    assert not p.has_next()
    with pytest.raises(StopIteration):
        p.get_next()
    with pytest.raises(StopIteration):
        p.get_next_unordered()


def test_methods_with_two_results():
    assert list(pool().map(lambda a, x: a.both.remote(x), [1, 2, 3])) == [[1, -1], [2, -2], [3, -3]]


def test_an_error_comes_in_its_place_and_the_actor_goes_on():
    p = pool(1)
    for x in (1, -1, 2):
        p.submit(double, x)
    assert p.get_next() == 2
    with pytest.raises(ValueError):
        p.get_next()
    assert p.get_next() == 4


def test_timeouts(folder):
    gate = os.path.join(folder, "gate")
    p = pool(1)
    p.submit(lambda actor, x: actor.until.remote(gate, x), 1)
    with pytest.raises(TimeoutError):
        p.get_next(timeout=0.01)
    with pytest.raises(TimeoutError):
        p.get_next_unordered(timeout=0.01)
    assert p.get_next_unordered(timeout=0.01, ignore_if_timedout=True) is None
    assert p.has_next()
    open(gate, "w").close()
    assert p.get_next(timeout=60) == 1


def test_what_comes_first_is_first_and_no_actor_waits_for_the_order(folder):
    gate = os.path.join(folder, "gate")
    p = pool(2)
    p.submit(lambda actor, x: actor.until.remote(gate, x), 0)
    for x in (1, 2, 3):
        p.submit(double, x)
    assert [p.get_next_unordered() for _ in range(3)] == [2, 4, 6]
    open(gate, "w").close()
    assert p.get_next_unordered() == 0


def test_get_next_after_unordered_may_be_refused(folder):
    gate = os.path.join(folder, "gate")
    p = pool(2)
    p.submit(lambda actor, x: actor.until.remote(gate, x), 0)
    p.submit(double, 1)
    assert p.get_next_unordered() == 2
    with pytest.raises(ValueError, match="get_next_unordered"):
        p.get_next()
    open(gate, "w").close()
    assert p.get_next_unordered() == 0


def test_idle_actors_go_out_and_in():
    p = pool(2)
    first, second = p.pop_idle(), p.pop_idle()
    assert p.pop_idle() is None and not p.has_free()
    p.submit(double, 4)  # waits for an actor
    p.push(first)
    assert p.get_next() == 8
    with pytest.raises(ValueError, match="already belongs"):
        p.push(first)
    p.push(second)
    assert p.has_free()


def test_a_new_map_drops_what_was_not_fetched():
    p = pool(2)
    p.map(double, range(10))
    assert list(p.map(double, [7, 8])) == [14, 16]


def test_a_function_that_raises_keeps_its_actor():
    p = pool(1)
    with pytest.raises(ZeroDivisionError):
        p.submit(lambda actor, x: 1 / 0, 1)
    assert p.has_free()


def test_a_dead_actor_is_an_error_at_its_work():
    p = pool(1)
    actor = p.pop_idle()
    ray.kill(actor)
    p.push(actor)
    p.submit(double, 1)
    with pytest.raises(ray.exceptions.RayActorError):
        p.get_next()
    assert support.wait_until(p.has_free)
