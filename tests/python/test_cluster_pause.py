"""A node that may be dead for the others begins nothing that may run only once, and goes on when it
knows that it is alive. Who is dead then: test_cluster_cuts.py.

A node pauses for as long as a test likes if Redis and all of its witnesses stand still: nobody is
left who could bury it.
"""

import contextlib
import os
import signal
import time

import clusters
import drivers
import pytest
import support

from ray._private import roster

pytestmark = [
    pytest.mark.one_path("nodes only"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60
STAYS = 3  # seconds in which something would have begun wrongly
TERM = 2.5  # seconds after which a daemon's last term is over: 1.5 in the design


no_nodes = clusters.none_left


def words(node) -> str:
    """What the node says of itself."""
    return roster.seen_by(node.socket)[0].reason


@contextlib.contextmanager
def stopped(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def paused(first, node):
    """The node has paused, until the end of the block: the first one and Redis stand still."""
    (server,) = support.redis_processes()
    with stopped(server, first.pid):
        assert support.wait_until(lambda: "paused" in words(node), LIMIT)
        yield


# ---- in the driver ----


def touch(path):
    with open(path, "a") as file:
        file.write("x")
    return os.getpid()


def actor_make(folder):
    """With a queue of its own for the calls of this driver."""
    import ray

    global handle, refs
    refs = []

    handle = ray.remote(num_cpus=0)(Actor).remote()
    for _ in range(3):
        ray.get(handle.touch.remote(f"{folder}/before"), timeout=LIMIT)
    # so that there are workers, and queues of tasks
    return ray.get([task_of(0).remote(f"{folder}/before") for _ in range(4)], timeout=LIMIT)[0]


def task_of(max_retries):
    import ray

    return ray.remote(num_cpus=1, max_retries=max_retries)(touch)


def calls_send(paths):
    refs.extend([handle.touch.remote(path) for path in paths])


def tasks_send(paths, max_retries):
    refs.extend([task_of(max_retries).remote(path) for path in paths])


def creation_send(path):
    import ray

    global made
    made = ray.remote(num_cpus=0)(Actor).remote(path)
    refs.append(made.ready.remote())


class Actor:
    def __init__(self, path=None):
        if path is not None:
            touch(path)

    def touch(self, path):
        return touch(path)

    def ready(self):
        return 0


def all_got():
    import ray

    return len(ray.get(refs, timeout=LIMIT))


def cancel_last():
    import ray

    ray.cancel(refs.pop())


# ---- tests ----


def test_a_paused_node_begins_nothing_that_may_run_only_once(folder):
    first = clusters.head()
    node = clusters.join(first, "--num-cpus=2")
    clusters.await_all(first, node)
    assert words(node) == ""
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(actor_make, folder)
        once = [f"{folder}/{name}" for name in ("call-0", "call-1", "task-0", "task-1", "made")]
        again = [f"{folder}/again-{i}" for i in range(4)]
        with paused(first, node):
            driver.call(calls_send, once[:2])
            driver.call(tasks_send, once[2:4], 0)
            driver.call(creation_send, once[4])
            driver.call(tasks_send, again, 3)
            assert support.wait_until(lambda: all(map(os.path.exists, again)), LIMIT)
            assert not support.wait_until(lambda: any(map(os.path.exists, once)), STAYS)
            shown = drivers.command("status", "--address", node.folder).stdout
            assert "paused" in shown
            assert support.wait_until(lambda: "This node has paused" in driver.told(), LIMIT)
        assert driver.call(all_got) == 9
        assert all(open(path).read() == "x" for path in once)
        assert support.wait_until(lambda: "goes on" in driver.told(), LIMIT)
    assert words(node) == ""
    log = open(f"{node.folder}/cluster.log").read()
    assert "this node has paused" in log and "this node goes on" in log


def test_tasks_that_wait_for_the_term_can_be_cancelled_and_end_with_their_job(folder):
    first = clusters.head()
    node = clusters.join(first, "--num-cpus=2")
    clusters.await_all(first, node)
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(actor_make, folder)
        with drivers.Driver(folder, {"address": node.folder}) as other:
            other.call(actor_make, folder)
            with paused(first, node):
                driver.call(tasks_send, [f"{folder}/kept", f"{folder}/cancelled"], 0)
                driver.call(cancel_last)
                other.call(tasks_send, [f"{folder}/ended"], 0)
                other.call(creation_send, f"{folder}/ended")
                assert other.end() == 0
        assert driver.call(all_got) == 1
    assert os.path.exists(f"{folder}/kept")
    assert not os.path.exists(f"{folder}/cancelled") and not os.path.exists(f"{folder}/ended")


def test_workers_of_a_daemon_that_stands_still_begin_no_calls_after_its_term(folder):
    first = clusters.head()
    node = clusters.join(first, "--num-cpus=2")
    clusters.await_all(first, node)
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(actor_make, folder)
        paths = [f"{folder}/call-{i}" for i in range(8)]
        with stopped(node.pid):
            time.sleep(TERM)
            driver.call(calls_send, paths)
            driver.call(tasks_send, [f"{folder}/task"], 0)
            assert not support.wait_until(lambda: any(map(os.path.exists, paths)), STAYS)
            clusters.await_all(first)
        assert support.wait_until(lambda: not support.alive(node.pid), LIMIT)
    assert not any(map(os.path.exists, [*paths, f"{folder}/task"]))
