"""References that cross nodes: inside of values and arguments, home again, cancelled from elsewhere,
and after the death of the node that they came from.
"""

import signal
import time

import drivers
import pytest
import support

import ray
from ray._private import sessions
from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.one_path("a task that leaves its node goes through the daemon"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
PATIENCE = 60  # seconds
FUNCTIONS = 20  # of the tests, which stay as long as they may be used


@pytest.fixture(scope="module")
def cluster():
    """A head, where the driver is, and nodes that alone have `there` and `far`."""
    assert sessions.live_nodes() == []
    made = Cluster()
    made.add_node(num_cpus=2)
    made.there = made.add_node(num_cpus=2, resources={"there": 100})
    made.add_node(num_cpus=2, resources={"far": 100})
    ray.init(address=made.address)
    yield made
    ray.shutdown()
    made.shutdown()
    drivers.command("stop", "--force")
    assert support.wait_until(lambda: not support.processes() and not support.sessions())


def there(function):
    return ray.remote(resources={"there": 1})(function)


def get(refs):
    return ray.get(refs, timeout=PATIENCE)


@there
def get_all(refs):
    return ray.get(refs), ray.get_runtime_context().get_node_id()


@there
def put_all(values):
    return [ray.put(value) for value in values]


@there
def ids_of(refs):
    return [ref.hex() for ref in refs]


@there
def same(refs):
    return refs


def test_references_in_an_argument(cluster):
    refs = [ray.put(i) for i in range(50)] + [ray.put("x" * 100_000)]
    values, node = get(get_all.remote(refs))
    assert values == [*range(50), "x" * 100_000]
    assert node != ray.get_runtime_context().get_node_id()


def test_references_in_a_result(cluster):
    values = [1, "two", [3], b"x" * 70_000]
    assert get(get(put_all.remote(values))) == values


def test_a_reference_that_comes_home_is_the_same(cluster):
    refs = [ray.put(1), ray.put(2)]
    back = get(same.remote(refs))
    assert back == refs and get(back) == [1, 2]


def test_an_id_is_the_same_on_all_nodes(cluster):
    refs = [ray.put(1), ray.put(2)]
    assert get(ids_of.remote(refs)) == [ref.hex() for ref in refs]


def test_references_of_there_go_back_there(cluster):
    refs = get(put_all.remote([1, 2, 3]))
    assert get(get_all.remote(refs))[0] == [1, 2, 3]


def test_references_in_references(cluster):
    deep = ray.put([ray.put([ray.put("deep")])])

    @there
    def dig(refs):
        return ray.get(ray.get(ray.get(refs[0])[0])[0])

    assert get(dig.remote([deep])) == "deep"


def objects_at(node):
    """How many objects the node has; functions are some."""
    return int(drivers.command("memory", "--address", node.folder).stdout.split()[0])


def wander(refs, hops):
    """Half of the references are replaced by new ones at each hop."""
    half = len(refs) // 2
    new = [ray.put(value + 1) for value in ray.get(refs[:half])]
    if not hops:
        return refs[half:] + new
    on = ray.remote(resources={hops[0]: 1})(wander)
    return ray.get(on.remote(refs[half:] + new, hops[1:]))


def test_references_wander_over_nodes_and_leave_nothing(cluster):
    for hops in (["there", "far"], ["far", "there", "far"], ["there"], ["far", "far", "there"]):
        refs = [ray.put(0) for _ in range(16)]
        on = ray.remote(resources={hops[0]: 1})(wander)
        found = get([on.remote(refs, hops[1:]) for _ in range(8)])
        for back in found:
            assert sum(get(back)) == 8 * len(hops)
    del refs, back, found, on
    nodes = sessions.live_nodes()
    assert support.wait_until(lambda: max(map(objects_at, nodes)) <= FUNCTIONS)


def test_a_value_that_is_made_later(cluster, tmp_path):
    flag = tmp_path / "flag"

    @ray.remote(num_cpus=1)
    def later():
        while not flag.exists():
            time.sleep(0.01)
        return "later"

    waits = get_all.remote([later.remote()])
    assert ray.wait([waits], timeout=0.2)[0] == []
    flag.touch()
    assert get(waits)[0] == ["later"]


def test_an_error_crosses_nodes(cluster):
    @ray.remote
    def fails():
        raise ValueError("of no use")

    with pytest.raises(ValueError, match="of no use"):
        get(get_all.remote([fails.remote()]))


def test_a_task_is_cancelled_from_another_node(cluster):
    @ray.remote(num_cpus=1)
    def endless():
        time.sleep(1000)

    @there
    def cancel(refs):
        ray.cancel(refs[0])

    ref = endless.remote()
    get(cancel.remote([ref]))
    with pytest.raises(ray.exceptions.TaskCancelledError):
        get(ref)


def test_nothing_stays_behind(cluster):
    refs = [ray.put("y" * 1000) for _ in range(20)]
    assert len(get(get_all.remote(refs))[0]) == 20
    before = len(ray.util.state.list_objects(limit=10_000))
    assert before >= 20
    del refs
    assert support.wait_until(lambda: len(ray.util.state.list_objects(limit=10_000)) <= before - 20)


def test_the_death_of_the_node_that_they_came_from(cluster):
    """The last of this file: it takes the node."""

    @ray.remote(num_cpus=0.1)
    def endless():
        time.sleep(1000)

    @there
    def submit():
        return [endless.remote(), ray.put("there")]

    pending, value = get(submit.remote())
    assert get(value) == "there"
    cluster.there.all_processes["raylet"][0].process.send_signal(signal.SIGKILL)
    with pytest.raises(ray.exceptions.OwnerDiedError, match="is dead"):
        get(pending)
    assert get(value) == "there"
