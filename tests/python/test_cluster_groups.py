"""Placement groups whose bundles are on several nodes of a cluster."""

import os
import time

import clusters
import drivers
import pytest
import support

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    TaskPlacementGroupRemoved,
)
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

pytestmark = [
    pytest.mark.one_path("what goes to other nodes goes through the daemons in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture(scope="module")
def nodes():
    """The driver's node, one with `blue`, and one with `red`: their ids."""
    with clusters.joined(
        {}, {"resources": {"blue": 2}, "labels": {"color": "blue"}}, {"resources": {"red": 2}}
    ) as made:
        yield [node.node_id for node in made]


@pytest.fixture
def group():
    """Makes groups, and removes them after the test."""
    made = []

    def make(*args, **options):
        made.append(ray.util.placement_group(*args, **options))
        return made[-1]

    yield make
    for one in made:
        ray.util.remove_placement_group(one)
    assert support.wait_until(
        lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"], LIMIT
    ), ray.available_resources()


cluster = clusters.empty


def get(refs):
    return ray.get(refs, timeout=LIMIT)


def within(group, index=-1, **options):
    return PlacementGroupSchedulingStrategy(group, index, **options)


def places(group):
    return list(ray.util.placement_group_table(group)["bundles_to_node_id"].values())


@ray.remote
def where():
    return ray.get_runtime_context().get_node_id()


@ray.remote
def nap(seconds):
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()


def test_bundles_are_where_their_resources_are(nodes, group):
    here, blue, red = nodes
    made = group([{"CPU": 1}, {"CPU": 1, "blue": 1}, {"red": 2}])
    assert made.wait(LIMIT)
    table = ray.util.placement_group_table(made)
    assert table["state"] == "CREATED"
    assert table["bundles_to_node_id"][1] == blue and table["bundles_to_node_id"][2] == red
    assert support.wait_until(
        lambda: (
            ray.available_resources().get("CPU") == 4
            and ray.available_resources().get("blue") == 1
            and "red" not in {k for k, v in ray.available_resources().items() if v}
        ),
        LIMIT,
    ), ray.available_resources()


@pytest.mark.parametrize("strategy", ["SPREAD", "STRICT_SPREAD"])
def test_spread_bundles_are_on_nodes_of_their_own(nodes, group, strategy, capfd):
    made = group([{"CPU": 1}] * 3, strategy=strategy)
    assert get(made.ready()) == made
    assert sorted(places(made)) == sorted(nodes)
    assert "can't be placed" not in capfd.readouterr().err


def test_a_packed_group_that_fits_here_stays_here(nodes, group):
    for strategy in ("PACK", "STRICT_PACK"):
        made = group([{"CPU": 1}] * 2, strategy=strategy)
        assert made.wait(LIMIT)
        assert places(made) == [nodes[0]] * 2
        ray.util.remove_placement_group(made)


def test_a_packed_group_that_does_not_fit_here_is_elsewhere(nodes, group):
    made = group([{"CPU": 1}, {"CPU": 1, "blue": 1}], strategy="STRICT_PACK")
    assert made.wait(LIMIT)
    assert places(made) == [nodes[1]] * 2


def test_pack_takes_several_nodes_if_it_must(nodes, group):
    made = group([{"CPU": 2}] * 3)
    assert made.wait(LIMIT)
    assert sorted(places(made)) == sorted(nodes)


def test_a_bundle_asks_for_labels(nodes, group):
    made = group([{"CPU": 1}], bundle_label_selector=[{"color": "blue"}])
    assert made.wait(LIMIT)
    assert places(made) == [nodes[1]]


def test_tasks_run_where_their_bundle_is(nodes, group):
    made = group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    refs = [where.options(scheduling_strategy=within(made, i)).remote() for i in (0, 1, 2) * 4]
    assert get(refs) == places(made) * 4


def test_tasks_of_any_bundle_run_in_all_of_them(nodes, group):
    made = group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    refs = [nap.options(scheduling_strategy=within(made)).remote(0.5) for _ in range(6)]
    assert set(get(refs)) == set(nodes)


def test_tasks_wait_for_a_group_that_waits(nodes, group):
    first = group([{"blue": 2}])
    assert first.wait(LIMIT)
    second = group([{"blue": 1}, {"red": 1}])
    ref = where.options(num_cpus=0, scheduling_strategy=within(second, 0)).remote()
    assert not second.wait(0.3)
    assert ray.util.placement_group_table(second)["state"] == "PENDING"
    ray.util.remove_placement_group(first)
    assert get(ref) == nodes[1]
    assert second.wait(LIMIT)


def test_a_task_that_yields_runs_in_its_bundle(nodes, group):
    made = group([{"CPU": 1}, {"CPU": 1, "blue": 1}], strategy="SPREAD")

    @ray.remote(num_returns="streaming")
    def items():
        for _ in range(3):
            yield ray.get_runtime_context().get_node_id()

    found = items.options(scheduling_strategy=within(made, 1)).remote()
    assert [get(ref) for ref in found] == [nodes[1]] * 3


def test_many_tasks_in_one_bundle(nodes, group):
    made = group([{"CPU": 1}, {"CPU": 1, "blue": 1}], strategy="SPREAD")
    refs = [where.options(scheduling_strategy=within(made, 1)).remote() for _ in range(200)]
    assert set(get(refs)) == {nodes[1]}


def test_a_task_in_a_bundle_waits_for_another_one(nodes, group):
    """The second runs in the CPU that the first lends, in a bundle of another node than theirs."""
    made = group([{"blue": 1, "CPU": 1}], strategy="SPREAD")

    @ray.remote
    def outer(strategy):
        return ray.get(where.options(scheduling_strategy=strategy).remote())

    assert get(outer.options(scheduling_strategy=within(made)).remote(within(made, 0))) == nodes[1]


def test_children_go_into_the_group(nodes, group):
    made = group([{"CPU": 1}, {"CPU": 1, "blue": 1}, {"CPU": 1, "red": 1}], strategy="SPREAD")

    @ray.remote
    def child():
        current = get_current_placement_group()
        return current.id.hex(), current.bundle_count, places(current)

    @ray.remote
    def parent():
        return ray.get([child.remote() for _ in range(4)])

    strategy = within(made, 2, placement_group_capture_child_tasks=True)
    found = get(parent.options(scheduling_strategy=strategy).remote())
    assert found == [(made.id.hex(), 3, places(made))] * 4


def test_a_handle_works_on_a_node_without_bundles(nodes, group):
    made = group([{"CPU": 1, "blue": 1}], strategy="STRICT_PACK")
    local = group([{"CPU": 1}])
    assert local.wait(LIMIT) and places(local) == [nodes[0]]

    @ray.remote
    def use(groups):
        found = []
        for one in groups:
            assert one.wait(LIMIT)
            ref = where.options(scheduling_strategy=within(one, 0)).remote()
            found.append((ray.get(ref), places(one), one.bundle_specs))
        return found

    strategy = NodeAffinitySchedulingStrategy(nodes[2], soft=False)
    found = get(use.options(scheduling_strategy=strategy).remote([made, local]))
    assert found == [
        (nodes[1], [nodes[1]], [{"CPU": 1, "blue": 1}]),
        (nodes[0], [nodes[0]], [{"CPU": 1}]),
    ]


def test_what_runs_in_a_removed_group_is_killed(nodes, group):
    made = group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    running = [nap.options(scheduling_strategy=within(made, i)).remote(1000) for i in range(3)]
    waiting = [nap.options(scheduling_strategy=within(made, i)).remote(1000) for i in range(3)]
    assert made.wait(LIMIT)
    assert ray.wait(running, timeout=0.5) == ([], running)
    ray.util.remove_placement_group(made)
    for ref in running + waiting:
        with pytest.raises(TaskPlacementGroupRemoved):
            get(ref)
    with pytest.raises(TaskPlacementGroupRemoved):
        get(where.options(scheduling_strategy=within(made, 1)).remote())
    assert ray.util.placement_group_table(made)["state"] == "REMOVED"


def test_any_node_may_remove_it(nodes, group):
    made = group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    ref = nap.options(scheduling_strategy=within(made, 0)).remote(1000)
    assert made.wait(LIMIT)

    @ray.remote
    def remove(one):
        ray.util.remove_placement_group(one)
        late = where.options(scheduling_strategy=within(one, 0)).remote()
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(late)

    strategy = NodeAffinitySchedulingStrategy(nodes[2], soft=False)
    get(remove.options(num_cpus=0, scheduling_strategy=strategy).remote(made))
    with pytest.raises(TaskPlacementGroupRemoved):
        get(ref)


def test_a_group_that_can_never_be_placed_waits(nodes, group, capfd):
    made = group([{"green": 1}, {"CPU": 1}], strategy="SPREAD", name="impossible")
    assert not made.wait(0.5)
    table = ray.util.placement_group_table(made)
    assert table["stats"]["scheduling_state"] == "INFEASIBLE"
    assert support.wait_until(lambda: "impossible asks for what" in capfd.readouterr().err, LIMIT)
    assert "{'green': 1.0} * 1" in drivers.command("status").stdout


def test_what_is_removed_while_it_waits(nodes, group):
    made = group([{"blue": 2}, {"blue": 1}])
    ref = where.options(num_cpus=0, scheduling_strategy=within(made)).remote()
    assert not made.wait(0.3)
    ray.util.remove_placement_group(made)
    with pytest.raises(TaskPlacementGroupRemoved):
        get(ref)
    with pytest.raises(TaskPlacementGroupRemoved):
        get(made.ready())


def test_a_group_made_by_a_task_of_another_node(nodes, group):
    @ray.remote
    def make():
        made = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
        assert made.wait(LIMIT)
        return made

    strategy = NodeAffinitySchedulingStrategy(nodes[1], soft=False)
    made = get(make.options(num_cpus=0, scheduling_strategy=strategy).remote())
    found = [where.options(scheduling_strategy=within(made, i)).remote() for i in range(2)]
    assert get(found) == places(made)
    ray.util.remove_placement_group(made)


class Place:
    def __init__(self):
        self.calls = 0

    def where(self):
        self.calls += 1
        return ray.get_runtime_context().get_node_id(), self.calls

    def end(self):
        os._exit(1)

    def child(self):
        return ray.get(where.remote())


def at(actor):
    return get(actor.where.remote())[0]


def test_actors_are_made_where_their_bundle_is(nodes, group):
    made = group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    actors = [
        ray.remote(Place).options(num_cpus=1, scheduling_strategy=within(made, i)).remote()
        for i in range(3)
    ]
    assert [at(actor) for actor in actors] == places(made)
    assert [get(actor.where.remote())[1] for actor in actors] == [2, 2, 2]


def test_actors_of_any_bundle_fill_all_of_them(nodes, group):
    made = group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    assert made.wait(LIMIT)
    actors = [
        ray.remote(Place).options(num_cpus=1, scheduling_strategy=within(made)).remote()
        for _ in range(3)
    ]
    assert sorted([at(actor) for actor in actors]) == sorted(nodes)
    more = ray.remote(Place).options(num_cpus=1, scheduling_strategy=within(made)).remote()
    ref = more.where.remote()
    assert ray.wait([ref], timeout=0.5) == ([], [ref])
    ray.kill(actors[1])
    assert get(ref)[0] in nodes


def test_an_actor_is_restarted_in_its_bundle(nodes, group):
    made = group([{"CPU": 1, "blue": 1}, {"CPU": 1}], strategy="SPREAD")
    options = {"num_cpus": 1, "max_restarts": 1, "max_task_retries": 1}
    actor = ray.remote(Place).options(scheduling_strategy=within(made, 0), **options).remote()
    assert get(actor.where.remote()) == (nodes[1], 1)
    actor.end.options(max_task_retries=0).remote()
    assert get(actor.where.remote()) == (nodes[1], 1)


def test_children_of_an_actor_go_into_the_group(nodes, group):
    made = group([{"CPU": 2, "red": 1}])
    strategy = within(made, placement_group_capture_child_tasks=True)
    actor = ray.remote(Place).options(num_cpus=1, scheduling_strategy=strategy).remote()
    assert get([actor.child.remote() for _ in range(4)]) == [nodes[2]] * 4


def test_actors_in_a_removed_group_die(nodes, group):
    made = group([{"CPU": 1, "blue": 1}, {"CPU": 1, "red": 1}])
    options = {"num_cpus": 1, "max_restarts": -1}
    actors = [
        ray.remote(Place).options(scheduling_strategy=within(made, i), **options).remote()
        for i in range(2)
    ]
    assert [at(actor) for actor in actors] == list(nodes[1:])
    late = ray.remote(Place).options(scheduling_strategy=within(made, 1), **options).remote()
    ray.util.remove_placement_group(made)
    for actor in actors:
        with pytest.raises(ActorDiedError, match="placement group"):
            get(actor.where.remote())
    for actor in (late, ray.remote(Place).options(scheduling_strategy=within(made)).remote()):
        with pytest.raises(ActorPlacementGroupRemoved):
            get(actor.where.remote())


@ray.remote(num_cpus=0)
def asks(actors):
    return ray.get(actors[0].where.remote(), timeout=LIMIT / 2)


def test_all_nodes_hear_of_a_detached_actor_in_a_removed_group(nodes, group):
    made = group([{"CPU": 1, "blue": 1}])
    options = {"num_cpus": 1, "max_restarts": -1, "lifetime": "detached"}
    actor = ray.remote(Place).options(scheduling_strategy=within(made, 0), **options).remote()
    there = asks.options(scheduling_strategy=NodeAffinitySchedulingStrategy(nodes[2], soft=False))
    assert get(there.remote([actor]))[0] == nodes[1]
    ray.util.remove_placement_group(made)

    def died():
        try:
            return not get(there.remote([actor]))
        except ActorUnavailableError:  # it is about to
            return False
        except ActorDiedError:
            return True

    assert support.wait_until(died, LIMIT)


def test_the_end_of_a_job_ends_its_groups(nodes, tmp_path):
    ray.shutdown()
    code = """
import ray
ray.init()
made = ray.util.placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
assert made.wait(60)
"""
    assert support.run_driver(support.script(tmp_path, code)).returncode == 0
    ray.init()
    assert support.wait_until(
        lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"], LIMIT
    )


def started(cluster, *options):
    nodes = [cluster.add_node(**one) for one in options]
    ray.init(address=cluster.address)
    return nodes


def test_a_group_that_waits_is_placed_when_a_node_joins(cluster):
    (here,) = started(cluster, {"num_cpus": 2})
    made = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    other = ray.util.placement_group([{"CPU": 1, "blue": 1}])
    ref = where.options(scheduling_strategy=within(other)).remote()
    assert not made.wait(0.3)
    there = cluster.add_node(num_cpus=2, resources={"blue": 1})
    assert made.wait(LIMIT) and other.wait(LIMIT)
    assert sorted(places(made)) == sorted([here.node_id, there.node_id])
    assert get(ref) == there.node_id


def test_bundles_of_a_dead_node_are_placed_again(cluster, tmp_path):
    """Its task is run again there, and its actor restarted."""
    spare = {"num_cpus": 2, "resources": {"blue": 2}}
    here, first = started(cluster, {"num_cpus": 1}, spare)
    made = ray.util.placement_group([{"CPU": 1}, {"CPU": 2, "blue": 1}], strategy="SPREAD")
    assert made.wait(LIMIT)
    assert places(made) == [here.node_id, first.node_id]

    @ray.remote(max_retries=1)
    def report(folder):
        node = ray.get_runtime_context().get_node_id()
        with open(os.path.join(folder, node), "w"):
            pass
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.01)
        return node

    options = {"num_cpus": 1, "max_restarts": 1, "max_task_retries": 1}
    actor = ray.remote(Place).options(scheduling_strategy=within(made, 1), **options).remote()
    ref = report.options(scheduling_strategy=within(made, 1)).remote(str(tmp_path))
    assert at(actor) == first.node_id
    support.wait_for_file(tmp_path / first.node_id)
    cluster.remove_node(first, allow_graceful=False)
    state = lambda: ray.util.placement_group_table(made)["state"]  # noqa: E731
    assert support.wait_until(lambda: state() == "RESCHEDULING", LIMIT)
    again = actor.where.remote()
    assert ray.wait([again, ref], timeout=0.3)[0] == []
    second = cluster.add_node(**spare)
    assert get(again) == (second.node_id, 1)
    support.wait_for_file(tmp_path / second.node_id)
    (tmp_path / "go").touch()
    assert get(ref) == second.node_id
    assert state() == "CREATED" and places(made) == [here.node_id, second.node_id]


def test_a_group_ends_with_the_node_where_it_was_made(cluster):
    here, there = started(cluster, {"num_cpus": 2}, {"num_cpus": 2, "resources": {"blue": 1}})

    @ray.remote(num_cpus=0, resources={"blue": 1}, max_retries=0)
    def make():
        return ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")

    made = get(make.remote())
    assert made.wait(LIMIT)
    index = places(made).index(here.node_id)
    ref = nap.options(scheduling_strategy=within(made, index)).remote(1000)
    strategy = within(made, index)
    actor = ray.remote(Place).options(num_cpus=0, scheduling_strategy=strategy).remote()
    assert at(actor) == here.node_id
    cluster.remove_node(there, allow_graceful=False)
    with pytest.raises(TaskPlacementGroupRemoved):
        get(ref)
    with pytest.raises(ActorDiedError):
        get(actor.where.remote())
    with pytest.raises(TaskPlacementGroupRemoved):
        get(where.options(scheduling_strategy=within(made)).remote())
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2, LIMIT)


def test_while_redis_is_away(cluster):
    """What is placed goes on, and is removed; what needs several nodes waits."""
    here, there = started(cluster, {"num_cpus": 2}, {"num_cpus": 2, "resources": {"blue": 1}})
    made = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    assert made.wait(LIMIT)
    refs = [nap.options(scheduling_strategy=within(made, i)).remote(1000) for i in range(2)]
    cluster.head_node.kill_gcs_server()
    found = ray.util.placement_group([{"CPU": 1}])
    assert found.wait(LIMIT)
    waits = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ray.util.remove_placement_group(made)
    for ref in refs:
        with pytest.raises(TaskPlacementGroupRemoved):
            get(ref)
    assert not waits.wait(0.3)
    cluster.head_node.start_gcs_server()
    assert waits.wait(LIMIT)
    assert sorted(places(waits)) == sorted([here.node_id, there.node_id])
