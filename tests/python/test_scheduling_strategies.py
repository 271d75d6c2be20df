"""Where tasks and actors run: strategies, labels, accelerators; and what `ray status` says."""

import pytest
import support
from drivers import Driver, command, node

import ray
from ray.exceptions import ActorUnschedulableError, GetTimeoutError, TaskUnschedulableError
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

LABELS = {"region": "us-west4", "ray.io/accelerator-type": "A100"}
INIT = {"num_cpus": 2, "labels": LABELS, "resources": {"accelerator_type:A100": 1}}

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def one():
    return 1


@ray.remote
class One:
    def one(self):
        return 1


def runs(**options):
    """Whether a task and an actor with these options run."""
    task = ray.get(one.options(**options).remote(), timeout=30)
    actor = One.options(**options).remote()
    return task == ray.get(actor.one.remote(), timeout=30) == 1


def waits(**options):
    """Whether neither of them does."""
    actor = One.options(**options).remote()
    for reference in (one.options(**options).remote(), actor.one.remote()):
        with pytest.raises(GetTimeoutError):
            ray.get(reference, timeout=0.2)
    return True


def test_names_of_strategies():
    assert runs(scheduling_strategy="DEFAULT")
    assert runs(scheduling_strategy="SPREAD")
    assert runs(scheduling_strategy=None)
    with pytest.raises(ValueError, match="Invalid scheduling strategy type"):
        one.options(scheduling_strategy="PACK")
    with pytest.raises(TypeError, match="scheduling_strategy"):
        one.options(scheduling_strategy=3)


def test_affinity():
    here = ray.get_runtime_context().get_node_id()
    elsewhere = "ab" * 8
    assert runs(scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False))
    assert runs(scheduling_strategy=NodeAffinitySchedulingStrategy(here.upper(), soft=True))
    assert runs(scheduling_strategy=NodeAffinitySchedulingStrategy(elsewhere, soft=True))
    there = NodeAffinitySchedulingStrategy(elsewhere, soft=False)
    with pytest.raises(TaskUnschedulableError, match="NodeAffinity"):
        ray.get(one.options(scheduling_strategy=there).remote(), timeout=30)
    with pytest.raises(ActorUnschedulableError):
        ray.get(One.options(scheduling_strategy=there).remote().one.remote(), timeout=30)
    with pytest.raises(ValueError, match="hexadecimal"):
        NodeAffinitySchedulingStrategy("this one", soft=False)
    with pytest.raises(TypeError, match="soft"):
        NodeAffinitySchedulingStrategy(here, soft="no")


def test_labels_of_the_node():
    labels = ray.nodes()[0]["Labels"]
    assert labels == {**LABELS, "ray.io/node-id": ray.nodes()[0]["NodeID"]}

    @ray.remote
    def seen():
        return ray.get_runtime_context().get_node_labels()

    assert ray.get(seen.remote(), timeout=30) == labels


@pytest.mark.parametrize(
    "hard",
    [
        {"region": In("us-west4")},
        {"region": In("eu", "us-west4"), "other": NotIn("x")},
        {"region": NotIn("eu")},
        {"region": Exists()},
        {"other": DoesNotExist()},
    ],
)
def test_labels_that_match(hard):
    assert runs(scheduling_strategy=NodeLabelSchedulingStrategy(hard))


@pytest.mark.parametrize(
    "hard",
    [
        {"region": In("eu")},
        {"region": NotIn("us-west4")},
        {"region": DoesNotExist()},
        {"other": Exists()},
        {"region": Exists(), "other": In("x")},
    ],
)
def test_labels_that_do_not_match(hard):
    assert waits(scheduling_strategy=NodeLabelSchedulingStrategy(hard))


def test_soft_labels_and_bad_ones():
    soft = NodeLabelSchedulingStrategy(hard={}, soft={"region": In("eu")})
    assert runs(scheduling_strategy=soft)
    for wrong in (lambda: NodeLabelSchedulingStrategy({}), lambda: In(), lambda: NotIn(3)):
        with pytest.raises(ValueError):
            wrong()
    for wrong in ({"a": "b"}, {3: Exists()}, [1]):
        with pytest.raises(ValueError):
            NodeLabelSchedulingStrategy(hard=wrong)


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"region": "us-west4"},
        {"region": "!eu"},
        {"region": "in(eu, us-west4)"},
        {"x": "!in(y)"},
    ],
)
def test_selectors_that_match(selector):
    assert runs(label_selector=selector)


def test_a_selector_that_does_not_match_is_told(capfd):
    assert waits(label_selector={"region": "mars"})
    said = []
    assert support.wait_until(
        lambda: said.append(capfd.readouterr().err) or "labels region=mars" in "".join(said)
    )
    assert waits(label_selector={"region": "!in(us-west4)"})


def test_fallbacks():
    to = [{"label_selector": {"region": "asia"}}, {"label_selector": {"region": "us-west4"}}]
    assert runs(label_selector={"region": "eu"}, fallback_strategy=to)
    assert runs(label_selector={"region": "eu"}, fallback_strategy=[{"label_selector": {}}])
    assert waits(label_selector={"region": "eu"}, fallback_strategy=to[:1])


@pytest.mark.parametrize(
    "options",
    [
        {"label_selector": {"a b": "c"}},
        {"label_selector": {"a": "c d"}},
        {"label_selector": {"a": 3}},
        {"label_selector": "a"},
        {"fallback_strategy": {"label_selector": {}}},
        {"fallback_strategy": [{"other": 1}]},
        {"fallback_strategy": [{"label_selector": {"a": "&"}}]},
    ],
)
def test_bad_selectors(options):
    with pytest.raises((TypeError, ValueError)):
        one.options(**options)


def test_bundles_with_labels():
    group = placement_group([{"CPU": 1}], bundle_label_selector=[{"region": "us-west4"}])
    assert group.wait(30)
    remove_placement_group(group)
    other = placement_group([{"CPU": 1}] * 2, bundle_label_selector=[{}, {"region": "eu"}])
    assert not other.wait(0.2)
    remove_placement_group(other)


def test_accelerators():
    from ray.util.accelerators import NVIDIA_A100, NVIDIA_TESLA_V100

    assert runs(accelerator_type=NVIDIA_A100)
    assert waits(accelerator_type=NVIDIA_TESLA_V100)


def test_selectors_and_lanes():
    task = one.options(label_selector={"region": "us-west4"})
    assert ray.get([task.remote() for _ in range(300)], timeout=60) == [1] * 300


def ask():
    placement_group([{"CPU": 50}] * 2)
    placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD", name="apart")
    return [group.asdict() for group in states()]


def states():
    from ray.util.state import get_placement_group, list_placement_groups

    found = list_placement_groups(filters=[("state", "=", "PENDING")])
    assert get_placement_group(found[0].placement_group_id) == found[0]
    return found


def test_what_waits_is_shown(folder):
    with node(["--labels=zone=a,rack=7"]):
        driver = Driver(folder)
        apart, large = sorted(driver.call(ask), key=lambda group: group["strategy"], reverse=True)
        assert apart["name"] == "apart" and apart["strategy"] == "STRICT_SPREAD"
        assert [one["resources"] for one in large["bundles"]] == [{"CPU": 50}] * 2
        shown = command("status").stdout
        assert "{'CPU': 50.0} * 2 (PACK): 1+ pending placement groups" in shown
        assert "{'CPU': 1.0} * 2 (STRICT_SPREAD): 1+ pending placement groups" in shown
        assert driver.call(labels_there) == {"zone": "a", "rack": "7"}
        driver.end()
        assert "(no resource demands)" in command("status").stdout


def labels_there():
    labels = ray.nodes()[0]["Labels"]
    return {key: value for key, value in labels.items() if not key.startswith("ray.io")}
