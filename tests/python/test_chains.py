"""Tasks that take each other's results: a chain runs in one worker, and nothing of it is lost when
a link fails.
"""

import os
import signal

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def add(x, y=1):
    return x + y


def chain(first, length, step):
    ref = first
    for _ in range(length):
        ref = step(ref)
    return ref


def test_a_long_chain():
    assert ray.get(chain(0, 500, add.remote)) == 500


def test_many_chains_at_once():
    ends = [chain(start, 50, add.remote) for start in range(40)]
    assert ray.get(ends) == [start + 50 for start in range(40)]


def test_a_link_that_needs_the_same_result_twice():
    assert ray.get(chain(1, 20, lambda ref: add.remote(ref, ref))) == 2**20


def test_a_tree():
    level = [add.remote(i, 0) for i in range(64)]
    while len(level) > 1:
        level = [add.remote(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    assert ray.get(level[0]) == sum(range(64))


def test_links_of_several_results():
    @ray.remote(num_returns=2)
    def both(a, b):
        return b, a + b

    a, b = both.remote(0, 1)
    for _ in range(30):
        a, b = both.remote(a, b)
    assert ray.get([a, b]) == [1346269, 2178309]


def test_a_link_that_is_run_again_after_an_exception(folder):
    """What was handed out behind it finds its argument missing, and waits."""
    mark = os.path.join(folder, "tried")

    @ray.remote(max_retries=1, retry_exceptions=True)
    def stumble(x):
        if not os.path.exists(mark):
            support.touch(mark)
            raise ValueError("the first time")
        return x + 1

    end = chain(stumble.remote(chain(0, 20, add.remote)), 40, add.remote)
    assert ray.get(end) == 61


def test_a_link_whose_worker_dies(folder):
    mark = os.path.join(folder, "tried")

    @ray.remote(max_retries=1)
    def stumble(x):
        if not os.path.exists(mark):
            support.touch(mark)
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

    end = chain(stumble.remote(chain(0, 20, add.remote)), 40, add.remote)
    assert ray.get(end) == 61


def test_an_error_goes_through_to_the_end():
    @ray.remote
    def fail(x):
        raise KeyError(x)

    end = chain(fail.remote(chain(0, 5, add.remote)), 40, add.remote)
    with pytest.raises(KeyError):
        ray.get(end)


def test_a_link_that_waits_for_others():
    """It lends its CPU; what was handed out behind it goes elsewhere or waits for it."""

    @ray.remote
    def ask(x):
        return ray.get([add.remote(x, i) for i in range(10)])[1]

    assert ray.get(chain(0, 20, ask.remote)) == 20


def test_a_chain_beside_other_tasks():
    end = chain(0, 300, add.remote)
    others = [add.remote(i) for i in range(300)]
    wide = add.options(num_cpus=2).remote(1)
    assert ray.get(wide) == 2
    assert ray.get(others) == [i + 1 for i in range(300)]
    assert ray.get(end) == 300
