"""Calls of an actor whose node is not heard, and is not dead: Redis stands still with it, so nobody
buries it.
"""

import os
import signal

import clusters
import drivers
import pytest
import support

from ray.exceptions import ActorUnavailableError, RayError

pytestmark = [
    pytest.mark.one_path("calls between nodes go through the daemons in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


no_nodes = clusters.none_left


# ---- in the drivers ----


def get(ref):
    import ray

    return ray.get(ref, timeout=LIMIT)


class Keeper(drivers.Keeper):
    def numbers(self):
        yield from range(1000)


def actors_make():
    import ray

    global final, lasting
    keeper = ray.remote(num_cpus=0, resources={"silent": 1})(Keeper)
    final = keeper.options(name="final", namespace="silence").remote()
    lasting = keeper.options(max_restarts=1, max_task_retries=-1).remote()
    return get([final.pid.remote(), lasting.pid.remote()])


def actor_find():
    import ray

    global final
    final = ray.get_actor("final", "silence")
    return final_pid()


def final_put(value):
    return get(final.put.remote(value))


def final_pid():
    return get(final.pid.remote())


def lasting_put():
    import ray

    global ref
    ref = lasting.put.remote("kept")
    return ray.wait([ref], timeout=1)[0]


def lasting_get():
    get(ref)
    return get(lasting.get.remote())


def limited_begin():
    import ray

    global generator
    options = {"num_returns": "streaming", "_generator_backpressure_num_objects": 1}
    generator = final.numbers.options(**options).remote()
    first = get(next(generator))
    ray.wait([generator], timeout=LIMIT)  # its next item is there, and the method waits
    return first


def limited_end():
    get(generator.completed())


# ---- the test ----


def pid_of(driver):
    try:
        return driver.call(final_pid)
    except RayError:
        return None


def test_calls_of_an_actor_whose_node_is_silent(folder):
    home = clusters.head()
    silent = clusters.join(home, '--resources={"silent": 4}', "--node-name=quiet")
    third = clusters.join(home)
    clusters.await_all(home, silent, third)
    with (
        drivers.Driver(folder, {"address": home.folder}) as driver,
        drivers.Driver(folder, {"address": third.folder}) as other,
    ):
        pids = driver.call(actors_make)
        assert other.call(actor_find) == pids[0]
        (server,) = support.redis_processes()
        stopped = [server, silent.pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            named = rf"quiet \(127.0.0.1:\d+, node_id {silent.node_id}\).*may or may not"
            for value in range(2):  # before it is known to be silent, and after that
                for caller in (driver, other):
                    with pytest.raises(ActorUnavailableError, match=named):
                        caller.call(final_put, value)
            assert driver.call(lasting_put) == []
        finally:
            for pid in reversed(stopped):
                os.kill(pid, signal.SIGCONT)
        assert driver.call(lasting_get) == "kept"
        # it was never dead; a call that comes too early finds it silent
        assert support.wait_until(lambda: pid_of(driver) == pids[0], LIMIT)
        assert support.wait_until(lambda: pid_of(other) == pids[0], LIMIT)


def test_a_generator_of_an_actor_whose_node_is_silent(folder):
    """It fails here; there the method, which waits for its reader, is told so, and the actor goes
    on.
    """
    home = clusters.head()
    silent = clusters.join(home, '--resources={"silent": 4}', "--node-name=quiet")
    clusters.await_all(home, silent)
    with drivers.Driver(folder, {"address": home.folder}) as driver:
        pids = driver.call(actors_make)
        assert driver.call(limited_begin) == 0
        (server,) = support.redis_processes()
        stopped = [server, silent.pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ActorUnavailableError):
                driver.call(limited_end)
        finally:
            for pid in reversed(stopped):
                os.kill(pid, signal.SIGCONT)
        assert support.wait_until(lambda: pid_of(driver) == pids[0], LIMIT)
