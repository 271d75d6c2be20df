"""Hosts that are cut off from others, and daemons that stand still: who is dead then, and who is
not. Hosts are network namespaces, so this needs root.

Times are the design's, many times over where the machine is busy; a test says which it means.
"""

import contextlib
import os
import signal
import subprocess

import drivers
import hosts
import pytest
import support
import test_cluster_pause

from ray._private import redis_server, roster

pytestmark = [
    pytest.mark.one_path("nodes only"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
    pytest.mark.skipif(hosts.why_not() is not None, reason=str(hosts.why_not())),
]
DEAD = (
    120  # seconds until a death is known: 5 in the design, if no renewal is late for want of a CPU
)
STAYS = 6  # seconds in which somebody would have been declared dead wrongly


@pytest.fixture
def net(folder):
    with hosts.Hosts(4, folder) as made:
        yield made
        for pid in [pid for pid, _ in support.processes()] + support.redis_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert support.wait_until(lambda: not support.processes() and not support.redis_processes())


def cluster(net, *options):
    """A node on each host; the first has the Redis that it has started."""
    first = net.all[0].start("--head", "--port=0", *options)
    return [first] + [host.start(f"--address={first.address}") for host in net.all[1:]]


def living(node) -> set:
    """The nodes that this one takes for alive; None if it has ended."""
    try:
        return {row.node_id for row in roster.seen_by(node.socket) if row.alive}
    except OSError:
        return None


def ids(*nodes) -> set:
    return {node.node_id for node in nodes}


def await_living(seen_by, *nodes, seconds=DEAD):
    """Until each of `seen_by` takes just these nodes for alive."""
    assert support.wait_until(
        lambda: all(living(node) == ids(*nodes) for node in seen_by), seconds
    ), [living(node) for node in seen_by]


def stays(condition, seconds=STAYS) -> bool:
    return not support.wait_until(lambda: not condition(), seconds)


def has_ended(node) -> bool:
    return not support.alive(node.pid)


def test_a_node_that_is_cut_off_is_dead_to_the_others_and_ends_when_it_hears_of_it(net):
    nodes = cluster(net)
    await_living(nodes, *nodes)
    lone, others = net.all[3], net.all[:3]
    net.cut([lone], others)
    await_living(nodes[:3], *nodes[:3])
    assert not has_ended(nodes[3])  # it can't know
    net.heal([lone], others)
    assert support.wait_until(lambda: has_ended(nodes[3]), DEAD)
    await_living(nodes[:3], *nodes[:3])


def test_a_node_that_is_cut_off_begins_no_more_calls_and_ends_with_them(net, folder):
    nodes = cluster(net)
    await_living(nodes, *nodes)
    lone, others = net.all[3], net.all[:3]
    with drivers.Driver(folder, {"address": nodes[3].folder}, lone.env) as driver:
        driver.call(test_cluster_pause.actor_make, folder)
        net.cut([lone], others)
        assert support.wait_until(lambda: "paused" in test_cluster_pause.words(nodes[3]), DEAD)
        paths = [f"{folder}/call-{i}" for i in range(4)]
        driver.call(test_cluster_pause.calls_send, paths)
        driver.call(test_cluster_pause.tasks_send, [f"{folder}/task"], 0)
        assert stays(lambda: not any(map(os.path.exists, [*paths, f"{folder}/task"])))
        await_living(nodes[:3], *nodes[:3])
        net.heal([lone], others)
        assert support.wait_until(lambda: has_ended(nodes[3]), DEAD)
    assert not any(map(os.path.exists, [*paths, f"{folder}/task"]))


def test_of_two_halves_the_one_without_redis_is_dead(net):
    nodes = cluster(net)
    await_living(nodes, *nodes)
    net.cut(net.all[:2], net.all[2:])
    await_living(nodes[:2], *nodes[:2])
    net.heal(net.all[:2], net.all[2:])
    for node in nodes[2:]:
        assert support.wait_until(lambda node=node: has_ended(node), DEAD)


def test_without_redis_nobody_dies(net):
    """Its host is cut off from all that have no node there."""
    lone, rest = net.all[0], net.all[1:]
    with redis(lone) as address:
        first = rest[0].start("--head", "--port=0", f"--redis={address}")
        nodes = [first] + [host.start(f"--address={first.address}") for host in rest[1:]]
        await_living(nodes, *nodes)
        net.cut([lone], rest)
        assert stays(lambda: all(living(node) == ids(*nodes) for node in nodes), 2 * STAYS)
        net.heal([lone], rest)
        assert stays(lambda: all(living(node) == ids(*nodes) for node in nodes))
        os.kill(nodes[2].pid, signal.SIGKILL)
        await_living(nodes[:2], *nodes[:2])


def test_of_a_pair_that_is_cut_one_goes(net):
    """Both renew, and complain of each other: the leader condemns one of them."""
    nodes = cluster(net)
    await_living(nodes, *nodes)
    net.cut([net.all[2]], [net.all[3]])
    assert support.wait_until(lambda: has_ended(nodes[2]) or has_ended(nodes[3]), 2 * DEAD)
    left = [node for node in nodes if not has_ended(node)]
    assert len(left) == 3
    await_living(left, *left)


def test_without_the_head_the_others_go_on_and_more_join(net):
    nodes = cluster(net)
    await_living(nodes, *nodes)
    os.kill(nodes[0].pid, signal.SIGKILL)
    await_living(nodes[1:], *nodes[1:])
    newcomer = net.all[0].start(f"--address={nodes[2].address}")
    left = [*nodes[1:], newcomer]
    await_living(left, *left)


def test_a_daemon_that_stands_still_is_dead_and_ends_when_it_goes_on(net):
    nodes = cluster(net)
    await_living(nodes, *nodes)
    os.kill(nodes[1].pid, signal.SIGSTOP)
    others = [nodes[0], *nodes[2:]]
    await_living(others, *others)
    os.kill(nodes[1].pid, signal.SIGCONT)
    assert support.wait_until(lambda: has_ended(nodes[1]), DEAD)


def test_redis_that_stands_still_for_a_while_kills_nobody(net):
    nodes = cluster(net)
    await_living(nodes, *nodes)
    (server,) = support.redis_processes()
    os.kill(server, signal.SIGSTOP)
    try:
        assert stays(lambda: all(living(node) == ids(*nodes) for node in nodes))
    finally:
        os.kill(server, signal.SIGCONT)
    assert stays(lambda: all(living(node) == ids(*nodes) for node in nodes))


class redis:
    """One that is on a host by itself."""

    def __init__(self, host, *options):
        self.address = f"{host.address}:6400"
        program = redis_server.program()
        folder = f"{host.folder}/redis"
        os.mkdir(folder)
        self.server = subprocess.Popen(
            host.command(program, "--port", "6400", "--bind", host.address, "--save", "", "--dir",
                         folder, "--protected-mode", "no", *options),
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self):
        return self.address

    def __exit__(self, *exc):
        self.server.kill()
        self.server.wait()
