"""Names of actors, of all nodes, where Redis has lost them or makes no sense of them."""

import contextlib

import clusters
import drivers
import pytest
import support
from test_cluster_attacks import Redis, noted

from ray._private import sessions

pytestmark = [
    pytest.mark.one_path("nodes and Redis"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture
def two(folder):
    """Two nodes with a program each, and their Redis."""
    assert sessions.live_nodes() == []
    nodes = [clusters.head()]
    nodes.append(clusters.join(nodes[0]))
    clusters.await_all(*nodes)
    with contextlib.ExitStack() as stack:
        programs = [
            stack.enter_context(drivers.Driver(folder, {"address": node.folder, "namespace": "n"}))
            for node in nodes
        ]
        yield nodes, programs, stack.enter_context(contextlib.closing(Redis(nodes[0])))
    clusters.end_all()


# ---- in the programs ----


def make(name):
    import ray

    global kept
    kept = ray.remote(num_cpus=0)(drivers.Keeper).options(name=name).remote(name)
    return ray.get(kept.get.remote(), timeout=LIMIT)


def find(name):
    import ray

    return ray.get(ray.get_actor(name).get.remote(), timeout=LIMIT)


# ---- tests ----


def found(program, name):
    try:
        return program.call(find, name)
    except Exception as error:
        return str(error)


def test_names_that_redis_has_lost_are_said_again(two):
    nodes, (here, there), redis = two
    assert here.call(make, "here") == "here" and there.call(make, "there") == "there"
    redis.ask("FLUSHALL")
    with pytest.raises(ValueError, match="here"):  # it waits until all have said what they have
        there.call(make, "here")
    with pytest.raises(ValueError, match="there"):
        here.call(make, "there")
    assert there.call(find, "here") == "here" and here.call(find, "there") == "there"
    assert there.call(make, "new") == "new"
    assert support.wait_until(lambda: len(redis.keys("an/")) == 2)  # "there" had one actor only
    clusters.await_all(*nodes)


def test_a_name_that_makes_no_sense_is_told(two):
    nodes, (here, there), redis = two
    assert here.call(make, "here") == "here"
    (key,) = redis.keys("an/")
    for value in (b"", b"garbage", b"g" * 1000):
        redis.ask("SET", key, value)
        assert found(there, "here") != "here"
    assert support.wait_until(lambda: noted("the name here of an actor", *nodes))
    redis.ask("DEL", key)
    assert there.call(make, "here") == "here"
