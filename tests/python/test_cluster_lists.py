"""Lists of what all nodes of a cluster have: names of actors, and actors."""

import os
import signal

import clusters
import pytest
import support

import ray
from ray._private import state

pytestmark = [
    pytest.mark.one_path("the daemons make the lists in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture
def nodes():
    """The driver's node, one with `blue`, and one with `red`."""
    with clusters.joined(
        {}, {"resources": {"blue": 4}}, {"resources": {"red": 4}}, namespace="mine"
    ) as made:
        yield made


def get(refs):
    return ray.get(refs, timeout=LIMIT)


@ray.remote(num_cpus=0)
class Actor:
    def pid(self):
        return os.getpid()


Blue, Red = Actor.options(resources={"blue": 0.1}), Actor.options(resources={"red": 0.1})


@ray.remote(num_cpus=0, resources={"red": 0.1})
class Maker:
    """Makes actors whose home is the node of `red`."""

    def make(self, *names, **options):
        made = [Actor.options(name=name, **options).remote() for name in names]
        self.made = getattr(self, "made", []) + made
        return ray.get([actor.pid.remote() for actor in made], timeout=LIMIT)

    def names(self):
        return ray.util.list_named_actors(all_namespaces=True)

    def end(self):
        self.made = []


def test_names_of_all_nodes(nodes):
    maker = Maker.remote()
    assert ray.util.list_named_actors() == []
    get(maker.make.remote("there"))
    get(maker.make.remote("blue", resources={"blue": 0.1}))
    get(maker.make.remote("other", namespace="others"))
    here = Actor.options(name="here").remote()
    get(here.pid.remote())
    assert ray.util.list_named_actors() == ["blue", "here", "there"]
    everything = ray.util.list_named_actors(all_namespaces=True)
    assert everything == [
        {"name": "blue", "namespace": "mine"},
        {"name": "here", "namespace": "mine"},
        {"name": "there", "namespace": "mine"},
        {"name": "other", "namespace": "others"},
    ]
    assert get(maker.names.remote()) == everything
    with pytest.raises(ValueError, match="there is one in 'others'"):
        ray.get_actor("other")
    get(maker.end.remote())
    assert support.wait_until(lambda: ray.util.list_named_actors(all_namespaces=True)[1:] == [])
    assert ray.util.list_named_actors() == ["here"]


def test_more_than_one_message(nodes):
    maker = Maker.remote()
    pids = get(maker.make.remote(*[f"{i:03}" + "x" * 230 for i in range(20)]))
    assert len(set(pids)) == 20
    for i in range(30):  # of dead actors a node remembers many
        get(maker.make.remote(*[f"{i}-{k}" for k in range(10)]))
        get(maker.end.remote())
    assert support.wait_until(
        lambda: len([row for row in state.actors().values() if row["State"] == "DEAD"]) >= 300
    )


def test_actors_of_all_nodes(nodes):
    here, blue, red = nodes
    maker, actor = Maker.remote(), Blue.remote()
    (pid,) = get(maker.make.remote("there"))
    expected = {blue.node_id: get(actor.pid.remote()), red.node_id: pid}
    alive = state.actors(actor_state_name="ALIVE")
    for node, pid in expected.items():
        (row,) = [row for row in alive.values() if row["Pid"] == pid]
        assert row["Address"] == {"NodeID": node, "IPAddress": "127.0.0.1"}
        assert row["ActorClassName"].endswith("Actor")
    assert len(alive) == 3, "each stands there once"
    row = state.actors(actor._actor_id.hex())
    assert row["State"] == "ALIVE" and row["ActorID"] == actor._actor_id.hex()
    os.kill(row["Pid"], signal.SIGKILL)
    assert support.wait_until(lambda: state.actors(actor._actor_id.hex())["State"] == "DEAD")
    assert "signal 9" in state.actors(actor._actor_id.hex())["DeathCause"]


def test_a_node_that_dies_is_not_waited_for(nodes):
    maker = Maker.remote()
    get(maker.make.remote("there"))
    here = Actor.options(name="here").remote()
    get(here.pid.remote())
    nodes[2].kill_raylet()
    assert ray.util.list_named_actors() == ["here"]
