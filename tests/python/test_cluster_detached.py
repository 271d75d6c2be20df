"""Detached actors whose home, the node on which they were made, dies."""

import os

import clusters
import pytest
import support

import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

pytestmark = [
    pytest.mark.one_path("calls between nodes go through the daemons in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


no_nodes = clusters.none_left


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    ray.shutdown()
    made.shutdown()


def get(refs):
    return ray.get(refs, timeout=LIMIT)


class Counter:
    def __init__(self, total=0):
        self.total = total

    def add(self, n):
        self.total += n
        return self.total

    def where(self):
        return ray.get_runtime_context().get_node_id()

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed

    def identity(self):
        return ray.get_runtime_context().get_actor_id()

    def itself(self):
        return ray.get_runtime_context().current_actor

    def pid(self):
        return os.getpid()

    def task(self, x):
        return ray.get(twice.remote(x), timeout=LIMIT)

    def leave(self):
        os._exit(3)


@ray.remote(num_cpus=0)
def twice(x):
    return 2 * x


@ray.remote(num_cpus=0, resources={"home": 0.1})
class Maker:
    """Makes detached actors whose home is the node of `home`, and keeps no handle."""

    def make(self, name, total, group=None, **options):
        options = {"num_cpus": 0, "lifetime": "detached", **options}
        if group is not None:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(group, 0)
        made = ray.remote(Counter).options(name=name, **options).remote(total)
        ray.get(made.add.remote(1), timeout=LIMIT)
        return made


@pytest.fixture
def nodes(cluster):
    """The driver's node, one on which actors are made, and one with `blue`."""
    here = cluster.add_node(num_cpus=2)
    home = cluster.add_node(num_cpus=2, resources={"home": 1})
    blue = cluster.add_node(num_cpus=2, resources={"blue": 2})
    ray.init(address=cluster.address, namespace="ours")
    return here, home, blue


def make(name, total, **options):
    """The handle, as the home's maker has given it."""
    return get(Maker.remote().make.remote(name, total, **options))


def has_name(name):
    try:
        ray.get_actor(name)
    except ValueError:
        return False
    return True


def calls(actor, method, *args):
    """What a call gives as soon as it can be made."""

    def tried():
        try:
            found.append(get(getattr(actor, method).remote(*args)))
        except ActorUnavailableError:
            return False
        return True

    found = []
    assert support.wait_until(tried, LIMIT)
    return found[0]


def test_one_that_lives_elsewhere_goes_on(nodes):
    """With its state, for those who have a handle and for those who look for it."""
    actor = make("counter", 5, resources={"blue": 1})
    pid, identity = get([actor.pid.remote(), actor.identity.remote()])
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    assert calls(actor, "add", 1) == 7
    found = ray.get_actor("counter")
    assert found._actor_id == actor._actor_id
    assert get([found.add.remote(1), found.pid.remote()]) == [8, pid]
    assert get(found.identity.remote()) == identity == get(found.itself.remote())._actor_id.hex()
    assert get(found.task.remote(4)) == 8
    assert ray.util.list_named_actors() == ["counter"]
    with pytest.raises(ValueError, match="there already"):
        Maker.options(name="counter", resources={}).remote()


def test_a_later_job_and_another_node_find_it(nodes):
    make("counter", 5, resources={"blue": 1})
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)

    @ray.remote(num_cpus=0, resources={"blue": 0.1})
    def finds():
        return ray.get(ray.get_actor("counter").add.remote(1), timeout=LIMIT)

    assert get(finds.remote()) == 7
    ray.shutdown()
    ray.init(address=nodes[0].address, namespace="ours")
    assert get(ray.get_actor("counter").add.remote(1)) == 8


def test_kill_ends_it_for_good(nodes):
    actor = make("counter", 5, resources={"blue": 1}, max_restarts=-1)
    pid = get(actor.pid.remote())
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    ray.kill(ray.get_actor("counter"))
    assert support.wait_until(lambda: not support.alive(pid))
    assert support.wait_until(lambda: not has_name("counter"))
    with pytest.raises(ActorDiedError):
        calls(actor, "add", 1)
    again = ray.remote(Counter).options(name="counter", num_cpus=0).remote(1)
    assert get(again.add.remote(1)) == 2


def test_its_process_dies_after_its_home(nodes):
    actor = make("counter", 5, resources={"blue": 1}, max_restarts=1)
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    pid = calls(actor, "pid")
    with pytest.raises(RayError):
        get(actor.leave.remote())
    assert calls(actor, "add", 1) == 6 and calls(actor, "pid") != pid
    assert calls(actor, "restarted")
    with pytest.raises(RayError):
        get(actor.leave.remote())
    with pytest.raises(ActorDiedError):
        calls(actor, "add", 1)
    assert support.wait_until(lambda: not has_name("counter"))


def test_one_that_lives_at_its_home_is_made_again(nodes):
    actor = make("counter", 5, max_restarts=2)
    assert get(actor.where.remote()) == nodes[1].node_id
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    assert calls(actor, "add", 1) == 6
    found = ray.get_actor("counter")
    assert get(found.add.remote(1)) == 7 and get(found.restarted.remote())
    assert get(found.where.remote()) in (nodes[0].node_id, nodes[2].node_id)
    assert get(found.task.remote(4)) == 8


def test_both_of_its_nodes_die(nodes, cluster):
    actor = make("counter", 5, resources={"blue": 1}, max_restarts=1)
    last = cluster.add_node(num_cpus=1, resources={"blue": 1})
    nodes[1].kill_raylet()
    nodes[2].kill_raylet()
    clusters.await_all(nodes[0]._node, last._node)
    assert calls(actor, "add", 1) == 6
    assert calls(actor, "where") == last.node_id


def test_one_that_waits_for_room_is_made_when_there_is(nodes, cluster):
    actor = make("counter", 5, resources={"home": 0.1}, max_restarts=1)
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    late = actor.add.remote(1)
    assert ray.wait([late], timeout=1)[0] == []
    cluster.add_node(num_cpus=1, resources={"home": 1})
    assert calls(actor, "add", 1) in (6, 7)


@pytest.mark.parametrize("place", [0, 2])
def test_one_in_a_placement_group_is_made_again_in_it(nodes, place):
    """The bundle has all CPUs of its node; the group was made on the leader's node, or there."""

    @ray.remote(num_cpus=0)
    def group():
        made = ray.util.placement_group([{"CPU": 2, "blue": 1}])
        assert made.wait(LIMIT)
        return made

    strategy = NodeAffinitySchedulingStrategy(nodes[place].node_id, soft=False)
    made = group.options(scheduling_strategy=strategy).remote()
    actor = make("counter", 5, group=made, num_cpus=1, max_restarts=-1)
    assert get(actor.where.remote()) == nodes[2].node_id
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    pid = calls(actor, "pid")
    with pytest.raises(RayError):
        get(actor.leave.remote())
    assert calls(actor, "add", 1) == 6 and calls(actor, "pid") != pid
    assert calls(actor, "where") == nodes[2].node_id
    ray.util.remove_placement_group(get(made))
    with pytest.raises(ActorDiedError):
        for _ in range(1000):  # until that is known
            calls(actor, "add", 1)
    assert support.wait_until(lambda: not has_name("counter"))


def test_without_restarts_it_ends_with_its_node(nodes):
    actor = make("counter", 5)
    nodes[1].kill_raylet()
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    with pytest.raises(ActorDiedError):
        calls(actor, "add", 1)
    assert support.wait_until(lambda: not has_name("counter"))
    again = ray.remote(Counter).options(name="counter", num_cpus=0).remote(1)
    assert get(again.add.remote(1)) == 2


def test_its_home_leaves_in_peace(nodes, cluster):
    actor = make("counter", 5, resources={"blue": 1})
    other = make("other", 5, max_restarts=1)
    cluster.remove_node(nodes[1])
    clusters.await_all(nodes[0]._node, nodes[2]._node)
    assert calls(actor, "add", 1) == 7
    assert get(ray.get_actor("counter").add.remote(1)) == 8
    assert calls(other, "add", 1) == 6


def test_the_leader_dies_too(cluster):
    """The head leads; the others find another leader, which goes on with the actor."""
    head = cluster.add_node(num_cpus=1)
    home = cluster.add_node(num_cpus=1, resources={"home": 1})
    here = cluster.add_node(num_cpus=1)
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]  # most of the cluster lives on
    ray.init(address=here.get_session_dir_path(), namespace="ours")
    actor = make("counter", 5, max_restarts=-1)
    home.kill_raylet()
    head.kill_raylet()
    clusters.await_all(here._node, *[node._node for node in others])
    assert calls(actor, "add", 1) >= 6
    assert has_name("counter")
