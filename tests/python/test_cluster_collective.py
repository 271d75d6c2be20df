"""Collective operations of actors on several nodes."""

import drivers
import numpy as np
import pytest
import support

import ray
from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.one_path("calls that leave their node go through the daemon"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
PATIENCE = 60  # seconds
MANY = 500_000  # numbers: more than go along with a message


@ray.remote(num_cpus=0)
class Member:
    def __init__(self, size, rank):
        import ray.util.collective as collective

        self.rank = rank
        self.collective = collective
        collective.init_collective_group(size, rank, "gloo", "group")

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def allreduce(self):
        array = np.full(MANY, self.rank + 1.0)
        self.collective.allreduce(array, "group")
        return float(array[0]), float(array[-1])

    def broadcast(self):
        array = np.full(MANY, float(self.rank))
        self.collective.broadcast(array, 2, "group")
        return float(array.sum())

    def hand_on(self):
        array = np.full(3, float(self.rank))
        if self.rank == 0:
            self.collective.send(array, 1, "group")
        elif self.rank == 1:
            self.collective.recv(array, 0, "group")
        return array.tolist()


@pytest.fixture(scope="module")
def members():
    """One each on three nodes."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    for name in ("there", "far"):
        made.add_node(num_cpus=2, resources={name: 1})
    made.connect()
    needs = [None, {"there": 1}, {"far": 1}]
    yield [Member.options(resources=need).remote(3, rank) for rank, need in enumerate(needs)]
    ray.shutdown()
    made.shutdown()
    drivers.command("stop", "--force")


def every(members, method):
    return ray.get([getattr(member, method).remote() for member in members], timeout=PATIENCE)


def test_the_members_are_on_three_nodes(members):
    assert len(set(every(members, "node"))) == 3


def test_allreduce(members):
    assert every(members, "allreduce") == [(6.0, 6.0)] * 3


def test_broadcast(members):
    assert every(members, "broadcast") == [2.0 * MANY] * 3


def test_send_and_receive(members):
    assert every(members, "hand_on") == [[0.0] * 3, [0.0] * 3, [2.0] * 3]
