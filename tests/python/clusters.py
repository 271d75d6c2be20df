"""Nodes of `ray start` that make a cluster on this machine."""

import os
import signal

import drivers
import support

from ray._private import roster, sessions

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
    import ray

    ray.shutdown()
    drivers.command("stop", "--force")
    assert support.wait_until(lambda: not support.processes() and not support.sessions())
    assert support.redis_processes() == [] and support.redis_folders() == []
