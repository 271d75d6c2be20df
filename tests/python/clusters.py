"""Nodes of `ray start`, or of cluster_utils.Cluster, that make a cluster on this machine.

The fixtures are for a test module that gives them a name: `cluster = clusters.empty`.
"""

import contextlib
import os
import signal

import drivers
import pytest
import support

import ray
from ray._private import roster, sessions
from ray.cluster_utils import Cluster

NOTICED = 30  # seconds from a node's death until all know it, on a busy machine


def start(*options, **env):
    """The node that `ray start` makes."""
    before = {node.node_id for node in sessions.live_nodes()}
    result = drivers.command("start", "--num-cpus=1", *options, env=env)
    assert result.returncode == 0, result.stderr
    (node,) = [node for node in sessions.live_nodes() if node.node_id not in before]
    return node


def head(*options, **env):
    return start("--head", "--port=0", "--node-ip-address=127.0.0.1", *options, **env)


def join(node, *options, **env):
    return start(f"--address={node.address}", *options, **env)


def refused(*options, **env):
    """The words of a `ray start` that fails."""
    before = len(sessions.live_nodes())
    result = drivers.command("start", *options, env=env)
    assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr
    assert len(sessions.live_nodes()) == before
    return result.stderr


def ids(node, alive=True):
    """The nodes that this one knows."""
    return {row.node_id for row in roster.seen_by(node.socket) if row.alive == alive}


def await_all(*nodes, seconds=NOTICED):
    """Until each of the nodes knows exactly these as alive."""
    wanted = {node.node_id for node in nodes}
    assert support.wait_until(lambda: all(ids(node) == wanted for node in nodes), seconds), [
        roster.seen_by(node.socket) for node in nodes
    ]


def kill(node):
    os.kill(node.pid, signal.SIGKILL)
    assert support.wait_until(lambda: not support.alive(node.pid))


def end_all():
    """Ends all nodes here; nothing of them is left."""
    ray.shutdown()
    drivers.command("stop", "--force")
    assert support.wait_until(lambda: not support.processes() and not support.sessions())
    assert support.redis_processes() == [] and support.redis_folders() == []


@contextlib.contextmanager
def joined(*arguments, **init):
    """The nodes of a Cluster, each with two CPUs and these arguments more; this process has joined
    the first one.
    """
    assert sessions.live_nodes() == []
    cluster = Cluster()
    try:
        nodes = [cluster.add_node(**{"num_cpus": 2, **each}) for each in arguments]
        ray.init(address=cluster.address, **init)
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
        drivers.command("stop", "--force")


@pytest.fixture
def empty():
    """A Cluster without a node, for a test that ends some. In a module whose tests have joined
    another cluster such tests come last, for they end the driver's part in that one.
    """
    ray.shutdown()
    made = Cluster()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(autouse=True)
def none_left():
    """Every test begins and ends without a node."""
    assert sessions.live_nodes() == []
    yield
    end_all()
