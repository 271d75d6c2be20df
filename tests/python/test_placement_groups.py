"""Placement groups: bundles that are set aside together, and what runs in them."""

import os
import signal
import time

import pytest
import support
from drivers import Driver, command, node

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    GetTimeoutError,
    TaskPlacementGroupRemoved,
)
from ray.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

CPUS = 4


@pytest.fixture(autouse=True)
def session():
    ray.init(num_cpus=CPUS, num_gpus=4, resources={"disk": 2}, address="local")
    yield
    ray.shutdown()


def within(group, bundle=-1, capture=None):
    return PlacementGroupSchedulingStrategy(group, bundle, capture)


def placed(*bundles, **options):
    group = placement_group(list(bundles), **options)
    assert ray.get(group.ready(), timeout=30) == group
    return group


def available(name="CPU"):
    return ray.available_resources().get(name, 0)


def state(group):
    return placement_group_table(group)["state"]


@ray.remote
def where():
    context = ray.get_runtime_context()
    return get_current_placement_group(), context.get_placement_group_id()


@ray.remote
def hold(folder, name):
    support.touch(f"{folder}/{name}.runs")
    support.wait_for_file(f"{folder}/{name}.open")
    return name


@ray.remote
def pid():
    return os.getpid()


@ray.remote
class Member:
    def group(self):
        return get_current_placement_group()

    def pid(self):
        return os.getpid()

    def gpus(self):
        return ray.get_gpu_ids()


# ---- a group ----


def test_its_life():
    group = placement_group([{"CPU": 1}, {"CPU": 2, "disk": 1}], name="first")
    assert group.bundle_specs == [{"CPU": 1}, {"CPU": 2, "disk": 1}]
    assert group.bundle_count == 2
    assert not group.is_empty and PlacementGroup.empty().is_empty
    assert len(group.id.hex()) == 40
    assert ray.get(group.ready(), timeout=30) == group
    assert group.wait(30) is True
    assert available() == 1 and available("disk") == 1
    row = placement_group_table(group)
    assert row["placement_group_id"] == group.id.hex() and row["name"] == "first"
    assert row["bundles"] == {0: {"CPU": 1}, 1: {"CPU": 2, "disk": 1}}
    assert row["strategy"] == "PACK" and row["state"] == "CREATED"
    assert set(row["bundles_to_node_id"].values()) == {ray.nodes()[0]["NodeID"]}
    assert placement_group_table()[group.id.hex()] == row
    remove_placement_group(group)
    assert state(group) == "REMOVED"
    assert available() == CPUS and available("disk") == 2
    remove_placement_group(group)  # once more is harmless


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_strategies_of_one_node(strategy):
    placed({"CPU": 1}, {"CPU": 1}, strategy=strategy)
    assert available() == CPUS - 2


def test_strict_spread_of_two_waits(capfd):
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    with pytest.raises(GetTimeoutError):
        ray.get(group.ready(), timeout=0.3)
    assert group.wait(0.1) is False
    assert state(group) == "PENDING"
    row = placement_group_table(group)
    assert row["stats"]["scheduling_state"] == "INFEASIBLE"
    assert available() == CPUS
    assert support.wait_until(lambda: "STRICT_SPREAD" in capfd.readouterr().err)
    placed({"CPU": 1}, strategy="STRICT_SPREAD")


def test_one_that_never_fits_is_told(capfd):
    group = placement_group([{"CPU": 3}, {"CPU": 3}], name="large")
    assert not group.wait(0.1)
    said = []
    assert support.wait_until(
        lambda: (
            said.append(capfd.readouterr().err) or "CPU: 6, but this node has 4" in "".join(said)
        )
    )
    assert "placement group large" in "".join(said)


def test_it_waits_for_what_is_used(folder):
    first = placed({"CPU": 3})
    second = placement_group([{"CPU": 1}, {"CPU": 1}])
    assert not second.wait(0.2) and state(second) == "PENDING"
    assert available() == 1  # it holds nothing while it waits
    task = where.options(scheduling_strategy=within(second)).remote()
    remove_placement_group(first)
    assert second.wait(30)
    assert ray.get(task, timeout=30) == (second, second.id.hex())


def test_many_are_created_and_removed():
    for _ in range(2000):
        remove_placement_group(placement_group([{"CPU": 1}]))
    assert available() == CPUS
    groups = [placement_group([{"CPU": 1}]) for _ in range(20)]
    for group in groups:
        assert group.wait(30)
        remove_placement_group(group)
    assert available() == CPUS


# ---- tasks and actors in it ----


def test_tasks_run_in_bundles(folder):
    group = placed({"CPU": 1}, {"CPU": 1})
    tasks = [
        hold.options(scheduling_strategy=within(group, 0)).remote(folder, name) for name in "ab"
    ]
    support.wait_for_file(f"{folder}/a.runs")
    # the bundle is full, although the other one, and the node, are not
    other = hold.options(scheduling_strategy=within(group, 1)).remote(folder, "c")
    outside = hold.remote(folder, "d")
    support.wait_for_file(f"{folder}/c.runs")
    support.wait_for_file(f"{folder}/d.runs")
    assert not os.path.exists(f"{folder}/b.runs")
    for name in "abcd":
        support.touch(f"{folder}/{name}.open")
    assert ray.get([*tasks, other, outside], timeout=60) == ["a", "b", "c", "d"]


def test_any_bundle(folder):
    group = placed({"CPU": 1}, {"CPU": 1})
    tasks = [hold.options(scheduling_strategy=within(group)).remote(folder, name) for name in "abc"]
    support.wait_for_file(f"{folder}/a.runs")
    support.wait_for_file(f"{folder}/b.runs")
    time.sleep(0.1)
    assert not os.path.exists(f"{folder}/c.runs")
    for name in "abc":
        support.touch(f"{folder}/{name}.open")
    assert ray.get(tasks, timeout=60) == ["a", "b", "c"]


def test_many_small_tasks_in_a_bundle():
    group = placed({"CPU": 2})
    task = where.options(scheduling_strategy=within(group, 0))
    assert set(ray.get([task.remote() for _ in range(500)], timeout=60)) == {
        (group, group.id.hex())
    }
    assert ray.get(where.remote(), timeout=30) == (None, None)


def test_the_old_spelling():
    group = placed({"CPU": 1}, {"CPU": 1})
    task = where.options(placement_group=group, placement_group_bundle_index=1)
    assert ray.get(task.remote(), timeout=30)[0] == group
    actor = Member.options(placement_group=group, placement_group_bundle_index=0).remote()
    assert ray.get(actor.group.remote(), timeout=30) == group


def test_actors_live_in_bundles():
    group = placed({"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 2})
    first = Member.options(num_cpus=1, num_gpus=1, scheduling_strategy=within(group, 0)).remote()
    second = Member.options(num_cpus=1, num_gpus=2, scheduling_strategy=within(group, 1)).remote()
    assert ray.get([first.group.remote(), second.group.remote()], timeout=60) == [group] * 2
    ids = ray.get([first.gpus.remote(), second.gpus.remote()], timeout=60)
    assert sorted(ids[0] + ids[1]) == [0, 1, 2] and len(ids[1]) == 2
    assert available() == CPUS - 2 and available("GPU") == 1
    # the bundle is full: a third waits until the first is gone
    third = Member.options(num_cpus=1, scheduling_strategy=within(group, 0)).remote()
    waiting = third.group.remote()
    assert ray.wait([waiting], timeout=0.2)[0] == []
    ray.kill(first)
    assert ray.get(waiting, timeout=60) == group


def test_gpus_of_a_bundle():
    other = placed({"GPU": 1})
    group = placed({"GPU": 1, "CPU": 1})

    @ray.remote(num_gpus=1)
    def gpus():
        return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    assert ray.get(gpus.options(scheduling_strategy=within(group)).remote(), timeout=30) == (
        [1],
        "1",
    )
    remove_placement_group(other)


def test_a_task_that_waits_lends_within_its_bundle():
    group = placed({"CPU": 1})

    @ray.remote
    def parent(strategy):
        return ray.get(where.options(scheduling_strategy=strategy).remote())

    task = parent.options(scheduling_strategy=within(group, 0)).remote(within(group, 0))
    assert ray.get(task, timeout=30)[0] == group


def test_handles_travel():
    group = placed({"CPU": 2})

    @ray.remote
    def use(given):
        assert given.bundle_specs == [{"CPU": 2.0}] and given.bundle_count == 1
        assert ray.get(given.ready(), timeout=30) == given
        task = where.options(scheduling_strategy=PlacementGroupSchedulingStrategy(given))
        return given, ray.get(task.remote())[0]

    assert ray.get(use.remote(group), timeout=30) == (group, group)

    @ray.remote
    class Keeper:
        def __init__(self, given):
            self.given = given

        def make(self):
            self.own = placement_group([{"CPU": 1}])
            return self.own

        def remove(self):
            remove_placement_group(self.given)
            return self.given.wait(1)

    keeper = Keeper.remote(group)
    own = ray.get(keeper.make.remote(), timeout=30)
    assert own.wait(30) and own.bundle_specs == [{"CPU": 1}]
    assert ray.get(keeper.remove.remote(), timeout=30) is False
    assert state(group) == "REMOVED"


def test_a_group_of_another_process_is_used_at_once():
    @ray.remote(num_cpus=0)
    def make(n):
        return [placement_group([{"CPU": 0.01}]) for _ in range(n)]

    for group in ray.get(make.remote(100), timeout=30):
        task = where.options(num_cpus=0.01, scheduling_strategy=within(group)).remote()
        assert ray.get(task, timeout=30)[0] == group


def test_child_tasks_are_captured():
    group = placed({"CPU": 3})

    @ray.remote
    def child():
        return get_current_placement_group()

    @ray.remote
    def parent():
        captures = ray.get_runtime_context().should_capture_child_tasks_in_placement_group
        actor = Member.remote()
        return captures, ray.get(
            [
                child.remote(),
                child.options(scheduling_strategy="DEFAULT").remote(),
                child.options(placement_group=None).remote(),
                actor.group.remote(),
            ]
        )

    for _ in range(2):
        captured = parent.options(scheduling_strategy=within(group, 0, True)).remote()
        assert ray.get(captured, timeout=60) == (True, [group, None, None, group])
        free = parent.options(scheduling_strategy=within(group, 0)).remote()
        assert ray.get(free, timeout=60) == (False, [None] * 4)


# ---- names and lifetimes ----


def test_names():
    group = placement_group([{"CPU": 1}], name="known")
    found = get_placement_group("known")
    assert found == group and found.bundle_specs == [{"CPU": 1}] and found.wait(30)
    with pytest.raises(ValueError, match="already exists"):
        placement_group([{"CPU": 1}], name="known")
    Member.options(name="known").remote()  # of an actor it is another name
    assert (
        ray.get(where.options(scheduling_strategy=within(found)).remote(), timeout=30)[0] == group
    )
    remove_placement_group(found)
    with pytest.raises(ValueError, match="Failed to look up placement group"):
        get_placement_group("known")
    assert placement_group([{"CPU": 1}], name="known").wait(30)
    assert available() == CPUS - 1
    for wrong in ("", None, 3):
        with pytest.raises(ValueError, match="non-empty"):
            get_placement_group(wrong)


def make_groups(names):
    for name in names:
        lifetime = "detached" if name.startswith("detached") else None
        group = placement_group([{"CPU": 1}], name=name, lifetime=lifetime)
        assert group.wait(30)


def run_in(name):
    group = get_placement_group(name)
    actor = Member.options(num_cpus=1, scheduling_strategy=within(group)).remote()
    return ray.get(actor.pid.remote(), timeout=30)


def free():
    return available()


def test_a_job_takes_its_groups_along_unless_they_are_detached(folder):
    ray.shutdown()
    with node(num_cpus=4):
        first = Driver(folder, {"namespace": "shared"})
        first.call(make_groups, ["own", "detached"])
        second = Driver(folder, {"namespace": "shared"})
        assert second.call(free) == 2
        member = second.call(run_in, "own")  # of another job, in the group of the first
        first.end()
        assert support.wait_until(lambda: not support.alive(member))
        assert support.wait_until(lambda: second.call(free) == 3)
        assert second.call(run_in, "detached") > 0
        status = command("status").stdout
        assert "CPU" in status
        second.end()
        third = Driver(folder, {"namespace": "shared"})
        third.call(remove_by_name, "detached")
        assert support.wait_until(lambda: third.call(free) == 4)
        third.end()


def remove_by_name(name):
    remove_placement_group(get_placement_group(name))


def test_a_driver_that_is_killed(folder):
    ray.shutdown()
    with node(num_cpus=4):
        first = Driver(folder, {"namespace": "shared"})
        first.call(make_groups, ["own", "more", "detached"])
        member = first.call(run_in, "own")
        first.kill()
        second = Driver(folder, {"namespace": "shared"})
        assert support.wait_until(lambda: second.call(free) == 3)
        assert support.wait_until(lambda: not support.alive(member))
        second.call(remove_by_name, "detached")
        assert support.wait_until(lambda: second.call(free) == 4)
        second.end()


def test_actors_in_a_group_end_well_with_their_job(folder):
    @ray.remote
    class Careful:
        def __ray_shutdown__(self):
            support.touch(f"{folder}/ended")

        def ready(self):
            return True

    group = placed({"CPU": 1})
    actor = Careful.options(num_cpus=1, scheduling_strategy=within(group)).remote()
    assert ray.get(actor.ready.remote(), timeout=30)
    ray.shutdown()
    assert os.path.exists(f"{folder}/ended")


# ---- removal, and death ----


def test_removal_kills_what_runs_and_fails_what_waits(folder):
    group = placed({"CPU": 1}, {"CPU": 1})
    running = hold.options(scheduling_strategy=within(group, 0)).remote(folder, "a")
    support.wait_for_file(f"{folder}/a.runs")
    waiting = hold.options(scheduling_strategy=within(group, 0)).remote(folder, "b")
    actor = Member.options(
        num_cpus=1, max_restarts=5, scheduling_strategy=within(group, 1)
    ).remote()
    process = ray.get(actor.pid.remote(), timeout=30)
    pending = Member.options(num_cpus=1, scheduling_strategy=within(group, 1)).remote()
    call = pending.pid.remote()
    remove_placement_group(group)
    for task in (running, waiting):
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(task, timeout=30)
    with pytest.raises(ActorDiedError, match="has been removed"):
        ray.get(actor.pid.remote(), timeout=30)
    with pytest.raises(ActorPlacementGroupRemoved):
        ray.get(call, timeout=30)
    assert support.wait_until(lambda: not support.alive(process))
    assert support.wait_until(lambda: available() == CPUS)
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(where.options(scheduling_strategy=within(group)).remote(), timeout=30)
    with pytest.raises(ActorPlacementGroupRemoved):
        ray.get(Member.options(scheduling_strategy=within(group)).remote().pid.remote(), timeout=30)


def test_removal_before_it_is_placed():
    placed({"CPU": 4})
    group = placement_group([{"CPU": 1}])
    ready = group.ready()
    task = where.options(scheduling_strategy=within(group)).remote()
    remove_placement_group(group)
    for reference in (ready, task):
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(reference, timeout=30)
    assert group.wait(1) is False
    group._ready = None
    del ready, reference
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(group.ready(), timeout=30)


def test_a_worker_that_dies_gives_back_to_its_bundle(folder):
    group = placed({"CPU": 1})
    task = pid.options(scheduling_strategy=within(group, 0), max_retries=0)

    @ray.remote(max_retries=2)
    def die_first():
        if not os.path.exists(f"{folder}/died"):
            support.touch(f"{folder}/died")
            os.kill(os.getpid(), signal.SIGKILL)
        return get_current_placement_group()

    retried = die_first.options(scheduling_strategy=within(group, 0)).remote()
    assert ray.get(retried, timeout=60) == group
    actor = Member.options(
        num_cpus=1, max_restarts=1, scheduling_strategy=within(group, 0)
    ).remote()
    os.kill(ray.get(actor.pid.remote(), timeout=30), signal.SIGKILL)
    assert support.wait_until(lambda: alive_again(actor, group))
    ray.kill(actor)
    assert ray.get(task.remote(), timeout=60) > 0
    assert available() == CPUS - 1
    remove_placement_group(group)
    assert support.wait_until(lambda: available() == CPUS)


def alive_again(actor, group):
    try:
        return ray.get(actor.group.remote(), timeout=30) == group
    except ray.exceptions.RayActorError:
        return False


def test_deadlock_within_a_bundle_is_told(capfd):
    group = placed({"CPU": 1, "disk": 1})

    @ray.remote(resources={"disk": 1})
    def inner():
        return 1

    @ray.remote(resources={"disk": 1})
    def outer(strategy):
        return ray.get(inner.options(scheduling_strategy=strategy).remote())

    outer.options(scheduling_strategy=within(group)).remote(within(group))
    said = []
    assert support.wait_until(
        lambda: said.append(capfd.readouterr().err) or "in its placement group" in "".join(said), 40
    )


def test_deadlock_with_a_group_that_waits_is_told(capfd):
    @ray.remote(resources={"disk": 2})
    def outer():
        group = placement_group([{"disk": 1}, {"CPU": 1}], name="wanted")
        return ray.get(group.ready())

    outer.remote()
    said = []
    assert support.wait_until(
        lambda: said.append(capfd.readouterr().err) or "group wanted (" in "".join(said), 40
    )


# ---- bad input ----


@pytest.mark.parametrize(
    ("bundles", "options", "words"),
    [
        ({"CPU": 1}, {}, "must be a list"),
        ([], {}, "non-empty"),
        ([3], {}, "no dictionary"),
        ([{}], {}, "cannot be an empty dictionary"),
        ([{"CPU": 0}], {}, "only 0 values"),
        ([{"CPU": "1"}], {}, "must be numbers"),
        ([{"CPU": -1}], {}, "not negative"),
        ([{"GPU": 1.5}], {}, "whole"),
        ([{"": 1}], {}, "no name"),
        ([{"CPU": 1}], {"strategy": "TOGETHER"}, "Invalid strategy type TOGETHER"),
        ([{"CPU": 1}], {"lifetime": "long"}, "detached"),
        ([{"CPU": 1}], {"bundle_label_selector": [{}, {}]}, "length"),
        ([{"CPU": 1}], {"bundle_label_selector": [{"a b": "c"}]}, "key"),
    ],
)
def test_bad_groups(bundles, options, words):
    with pytest.raises(ValueError, match=words):
        placement_group(bundles, **options)
    assert placement_group_table() == {}


def test_bad_uses():
    group = placed({"CPU": 1})
    with pytest.raises(ValueError, match="bundle index 3 is invalid"):
        where.options(scheduling_strategy=within(group, 3)).remote()
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        where.options(num_cpus=2, scheduling_strategy=within(group)).remote()
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        Member.options(num_gpus=1, scheduling_strategy=within(group, 0)).remote()
    with pytest.raises(ValueError, match="must be -1"):
        where.options(placement_group_bundle_index=0).remote()
    with pytest.raises(ValueError, match="scheduling_strategy option"):
        where.options(placement_group=group, scheduling_strategy=within(group)).remote()
    with pytest.raises(TypeError, match="PlacementGroup"):
        where.options(placement_group=3)
    with pytest.raises(TypeError, match="PlacementGroup"):
        remove_placement_group("it")
    with pytest.raises(TypeError, match="str"):
        placement_group([{"CPU": 1}], name=3)
    with pytest.raises(ValueError, match="PlacementGroup"):
        PlacementGroupSchedulingStrategy(None)


# ---- the fast path ----


@ray.remote(max_retries=0)
def number(i):
    return i


def test_groups_come_and_go_under_many_small_tasks():
    for turn in range(12):
        group = placed({"CPU": 1}, {"CPU": 1})
        task = number.options(scheduling_strategy=within(group, -1 if turn % 2 else 0))
        assert ray.get([task.remote(i) for i in range(50)], timeout=60) == list(range(50))
        references = [task.remote(i) for i in range(500)]
        remove_placement_group(group)
        if turn % 3:  # else the daemon may not know of the removal yet
            assert state(group) == "REMOVED"
        references += [task.remote(i) for i in range(20)]
        removed = 0
        for i, reference in enumerate(references):
            try:
                assert ray.get(reference, timeout=60) == (i if i < 500 else i - 500)
            except TaskPlacementGroupRemoved:
                removed += 1
        assert removed >= 20 or turn % 3 == 0
        assert ray.get([number.remote(i) for i in range(20)], timeout=60) == list(range(20))
    assert support.wait_until(lambda: available() == CPUS)


def test_tasks_of_two_kinds_share_a_bundle():
    group = placed({"CPU": 1})
    small = number.options(num_cpus=0.5, scheduling_strategy=within(group))
    large = number.options(num_cpus=1, scheduling_strategy=within(group))
    outside = number.options()
    for task in (small, large):
        ray.get(task.remote(0), timeout=60)
    references = [task.remote(i) for i in range(200) for task in (small, large, outside)]
    assert ray.get(references, timeout=60) == [i for i in range(200) for _ in range(3)]


def test_nested_tasks_in_a_bundle_of_one_cpu():
    group = placed({"CPU": 1})

    @ray.remote
    def parent(strategy, depth):
        if depth == 0:
            return 1
        task = parent.options(scheduling_strategy=strategy)
        return 1 + sum(ray.get([task.remote(strategy, depth - 1) for _ in range(2)]))

    task = parent.options(scheduling_strategy=within(group, 0))
    for _ in range(3):
        assert ray.get(task.remote(within(group, 0), 4), timeout=100) == 31


def test_submitters_that_die_while_their_group_is_removed():
    @ray.remote(num_cpus=0, max_retries=0)
    def submit(group):
        task = number.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
        while True:
            [task.remote(i) for i in range(100)]

    for _ in range(4):
        group = placed({"CPU": 2})
        task = number.options(scheduling_strategy=within(group))
        ray.get([task.remote(i) for i in range(20)], timeout=60)
        submitters = [submit.remote(group) for _ in range(2)]
        time.sleep(0.1)
        ray.cancel(submitters[0], force=True)
        remove_placement_group(group)
        ray.cancel(submitters[1], force=True)
        for submitter in submitters:
            with pytest.raises(ray.exceptions.RayError):
                ray.get(submitter, timeout=60)
    assert support.wait_until(lambda: available() == CPUS)


# ---- what no user does ----


def send(spec):
    """Sends bytes as they are; what came of it."""
    from ray import _core

    try:
        ray.get(_core.create_group(spec, None), timeout=20)
    except Exception as error:
        return type(error).__name__
    return None


def bad_specs():
    import struct

    good = ray.util.placement_group.__globals__["_make_spec"](
        [{"CPU": 1, "disk": 1}], "PACK", None, None, None
    )[0]
    head = struct.Struct("<IIIIII")
    fields = head.unpack_from(good)
    yield b""
    yield good[:30]
    yield good[:-1]
    yield good + b"more"
    for at, value in ((0, 9), (2, 0), (2, 2**32 - 1), (3, 2**32 - 1)):
        changed = [*fields]
        changed[at] = value
        yield head.pack(*changed) + good[head.size :]
    for at in (head.size, head.size + 4):  # of the bundle: how many resources, and its size
        for value in (3, 2**32 - 1):
            yield good[:at] + struct.pack("<I", value) + good[at + 4 :]


def test_specs_that_make_no_sense(folder):
    ray.shutdown()
    with node(num_cpus=1) as started:
        drivers = [Driver(folder) for _ in bad_specs()]  # all at once: each is slow to end
        for driver, spec in zip(drivers, bad_specs()):
            driver.begin(send, spec)
        assert None not in [driver.result() for driver in drivers]
        for driver in drivers:
            driver.kill()
        assert support.alive(started.pid)
        with Driver(folder) as driver:
            assert driver.call(free) == 1


def test_a_value_whose_id_lies_nowhere(folder):
    import struct

    good = ray.util.placement_group.__globals__["_make_spec"](
        [{"CPU": 1}], "PACK", None, None, None
    )[0]
    for at in (2**32 - 1, 2**31, len(good)):
        spec = good[:16] + struct.pack("<I", at) + good[20:]
        assert ray.get(ray._core.create_group(spec, None), timeout=30).bundle_specs == [{"CPU": 1}]
