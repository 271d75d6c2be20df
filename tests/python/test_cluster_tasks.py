"""Tasks that run on another node of a cluster than the one where they were submitted."""

import os
import signal
import subprocess
import sys
import time

import clusters
import numpy
import pytest
import support

import ray

pytestmark = [
    pytest.mark.one_path("tasks that go to other nodes leave queues and the scheduler alike"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture(scope="module")
def nodes():
    """The driver's node has one CPU; the second has two, and `blue`."""
    with clusters.joined({"num_cpus": 1}, {"resources": {"blue": 2}}) as made:
        yield made


cluster = clusters.empty


def node_id():
    return ray.get_runtime_context().get_node_id()


@ray.remote
def where(*args):
    return node_id()


@ray.remote(resources={"blue": 1})
def blue(x=None):
    return x


@ray.remote(resources={"blue": 1}, num_cpus=0)
def light(x=None):
    return x


@ray.remote
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def get(refs):
    return ray.get(refs, timeout=LIMIT)


def test_what_needs_another_nodes_resource_runs_there(nodes):
    here, there = nodes
    assert get(where.remote()) == here.node_id
    assert get(where.options(resources={"blue": 1}).remote()) == there.node_id


def test_values_go_there_and_come_back(nodes):
    for value in (None, 1, "text" * 5, b"x" * 1000, list(range(1000)), {"a": [1, 2.5]}):
        assert get(blue.remote(value)) == value


def test_large_values_go_there_and_come_back(nodes):
    array = numpy.arange(1 << 20)
    assert (get(blue.remote(array)) == array).all()
    ref = ray.put(array)
    assert (get(blue.remote(ref)) == array).all()


def test_references_are_arguments(nodes):
    first = blue.remote(20)
    assert get(blue.remote(first)) == 20
    assert get(where.remote(blue.remote(first))) == nodes[0].node_id
    assert get(blue.remote(ray.put(30))) == 30


def test_references_in_references(nodes):
    inner = ray.put("inner")
    outer = blue.remote([inner])
    (back,) = get(outer)
    assert get(back) == "inner"

    @ray.remote(resources={"blue": 1})
    def made():
        return [ray.put("there"), blue.options(num_cpus=0).remote("nested")]

    refs = get(made.remote())
    assert get(refs) == ["there", "nested"]

    @ray.remote(resources={"blue": 1})
    def read(refs):
        return ray.get(refs, timeout=LIMIT)

    assert get(read.remote([inner, *refs])) == ["inner", "there", "nested"]


def test_several_results(nodes):
    @ray.remote(num_returns=3, resources={"blue": 1})
    def three():
        return 1, "two", [3]

    assert get(three.remote()) == [1, "two", [3]]


def test_exceptions_come_back(nodes):
    @ray.remote(resources={"blue": 1})
    def fails():
        raise KeyError("there")

    with pytest.raises(KeyError, match="there"):
        get(fails.remote())


def test_an_exception_is_tried_again(nodes, tmp_path):
    @ray.remote(resources={"blue": 1}, max_retries=3, retry_exceptions=True)
    def third(folder):
        count = len(os.listdir(folder))
        (open(os.path.join(folder, str(count)), "w")).close()
        if count < 2:
            raise ValueError("again")
        return count

    assert get(third.remote(str(tmp_path))) == 2


def test_a_worker_that_dies_is_replaced(nodes, tmp_path):
    @ray.remote(resources={"blue": 1}, max_retries=2)
    def dies_once(folder):
        if not os.listdir(folder):
            open(os.path.join(folder, "first"), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return node_id()

    assert get(dies_once.remote(str(tmp_path))) == nodes[1].node_id


def test_a_worker_that_dies_without_retries(nodes):
    @ray.remote(resources={"blue": 1}, max_retries=0)
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        get(dies.remote())


@pytest.mark.parametrize("force", [False, True])
def test_a_running_task_is_cancelled(nodes, tmp_path, force):
    @ray.remote(resources={"blue": 1})
    def sleeps(path):
        open(path, "w").close()
        time.sleep(LIMIT)

    path = tmp_path / "begun"
    ref = sleeps.remote(str(path))
    assert support.wait_until(path.exists)
    ray.cancel(ref, force=force)
    with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)):
        get(ref)
    assert get(blue.remote(1)) == 1


def test_a_waiting_task_is_cancelled(nodes, tmp_path):
    @ray.remote(resources={"blue": 2})
    def sleeps(path, end):
        open(path, "w").close()
        while not os.path.exists(end):
            time.sleep(0.01)

    path, end = tmp_path / "begun", tmp_path / "end"
    first = sleeps.remote(str(path), str(end))
    assert support.wait_until(path.exists)
    second = blue.remote(1)
    time.sleep(0.3)  # so that it has been offered, and perhaps sent
    ray.cancel(second)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        get(second)
    end.touch()
    get(first)
    assert get(blue.remote(1)) == 1


def test_node_affinity(nodes):
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        assert get(where.options(scheduling_strategy=strategy).remote()) == node.node_id
    gone = NodeAffinitySchedulingStrategy("00" * 8, soft=False)
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        get(where.options(scheduling_strategy=gone).remote())


def test_soft_node_affinity(nodes):
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
        assert get(where.options(scheduling_strategy=strategy).remote()) == node.node_id
    gone = NodeAffinitySchedulingStrategy("00" * 8, soft=True)
    assert get(where.options(scheduling_strategy=gone).remote()) in {n.node_id for n in nodes}


def test_spread(nodes):
    @ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")
    def slow():
        time.sleep(0.1)
        return node_id()

    seen = get([slow.remote() for _ in range(8)])
    assert set(seen) == {node.node_id for node in nodes}


def test_a_backlog_is_shared(nodes):
    @ray.remote
    def slow():
        time.sleep(0.05)
        return node_id()

    seen = get([slow.remote() for _ in range(60)])
    assert {seen.count(node.node_id) > 10 for node in nodes} == {True}


def test_a_thousand_tasks(nodes):
    refs = [light.remote(i) for i in range(1000)]
    assert get(refs) == list(range(1000))
    refs = [blue.remote(i) for i in range(1000)]
    assert get(refs) == list(range(1000))


def test_short_tasks_do_not_wait_behind_a_long_one(nodes, tmp_path):
    """Those that were handed to its worker, or wait at its node, go on in the other one."""
    get([blue.remote() for _ in range(300)])  # short, so that they are sent ahead
    end = tmp_path / "end"
    before = [blue.remote(i) for i in range(50)]
    long = wait_for.options(resources={"blue": 1}).remote(str(end))
    after = [blue.remote(i) for i in range(300)]
    assert get(before) == list(range(50)) and get(after) == list(range(300))
    assert ray.wait([long], timeout=0)[0] == []
    end.touch()
    get(long)


def test_short_tasks_need_not_leave(nodes):
    assert {get(where.remote()) for _ in range(100)} == {nodes[0].node_id}


def test_tasks_that_submit_tasks(nodes):
    @ray.remote
    def leaf(x):
        return x, node_id()

    @ray.remote(resources={"blue": 1})
    def parent(count):
        return ray.get([leaf.remote(i) for i in range(count)], timeout=LIMIT)

    results = get(parent.remote(20))
    assert [x for x, _ in results] == list(range(20))
    # all CPUs there are held by parents that wait: they are lent
    results = get([parent.remote(3) for _ in range(4)])
    assert [[x for x, _ in each] for each in results] == [[0, 1, 2]] * 4


def test_tasks_go_back_to_where_they_came_from(nodes):
    here, there = nodes

    @ray.remote(num_cpus=0)
    def leaf():
        return node_id()

    @ray.remote(resources={"blue": 1})
    def parent(name):
        return node_id(), ray.get(leaf.options(resources={name: 0.1}).remote(), timeout=LIMIT)

    name = "node:__internal_head__"
    assert get(parent.remote(name)) == (there.node_id, here.node_id)


def test_what_no_node_has_is_told(nodes, capfd):
    said = []

    def is_told():
        said.append(capfd.readouterr().err)
        return "green" in "".join(said)

    ref = where.options(resources={"green": 1}).remote()
    assert support.wait_until(is_told), said
    ray.cancel(ref)


def test_a_job_ends(nodes, tmp_path):
    path = tmp_path / "begun"
    code = f"""
import ray, time
ray.init(address={nodes[0].address!r})
@ray.remote(resources={{"blue": 1}})
def sleeps(path):
    open(path, "w").close()
    time.sleep({LIMIT})
refs = [sleeps.remote({str(path)!r}) for _ in range(4)]
while not __import__("os").path.exists({str(path)!r}): time.sleep(0.01)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=LIMIT)
    assert result.returncode == 0, result.stderr
    assert get([blue.remote(i) for i in range(4)]) == [0, 1, 2, 3]


def test_a_node_dies_while_tasks_run(cluster, tmp_path):
    here = cluster.add_node(num_cpus=1)
    dies = cluster.add_node(num_cpus=2, resources={"blue": 2}, node_name="mortal")
    ray.init(address=cluster.address)

    @ray.remote(resources={"blue": 1}, max_retries=3)
    def first_waits(folder):
        with open(os.path.join(folder, node_id()), "w"):
            pass
        while len(os.listdir(folder)) < 2:
            time.sleep(0.01)
        return node_id()

    @ray.remote(resources={"blue": 1}, max_retries=0)
    def waits():
        time.sleep(LIMIT)

    again, once = first_waits.remote(str(tmp_path)), waits.remote()
    assert support.wait_until(lambda: os.listdir(tmp_path) == [dies.node_id])
    stays = cluster.add_node(num_cpus=2, resources={"blue": 2})
    dies.kill_raylet()
    assert get(again) == stays.node_id
    with pytest.raises(ray.exceptions.NodeDiedError) as info:
        get(once)
    for words in ("waits", "mortal (127.0.0.1:", dies.node_id):
        assert words in str(info.value)
    assert get(where.remote()) == here.node_id


def test_a_nodes_death_is_told_once_for_many_tasks(cluster, capfd):
    cluster.add_node(num_cpus=1)
    dies = cluster.add_node(num_cpus=2, resources={"blue": 9}, node_name="mortal")
    ray.init(address=cluster.address)

    @ray.remote(resources={"blue": 1}, num_cpus=0, max_retries=1)
    def waits(of):
        while node_id() == of:
            time.sleep(0.01)
        return node_id()

    refs = [waits.remote(dies.node_id) for _ in range(9)]
    assert ray.wait(refs, timeout=1)[0] == []
    stays = cluster.add_node(num_cpus=2, resources={"blue": 9})
    dies.kill_raylet()
    assert get(refs) == [stays.node_id] * 9
    said = []

    def is_told():
        said.append(capfd.readouterr().err)
        return "more like this" in "".join(said)

    assert support.wait_until(is_told), said
    text = "".join(said)
    told = [line for line in text.splitlines() if "its node died: mortal (127.0.0.1:" in line]
    assert len(told) == 2 and dies.node_id in told[0] and "8 more like this" in told[1], text


def test_short_tasks_behind_long_ones_leave_their_node(cluster, tmp_path):
    """All CPUs of a node are busy with long tasks: what was sent ahead goes elsewhere."""
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1, resources={"blue": 1000})
    ray.init(address=cluster.address)
    small = blue.options(resources={"blue": 1})
    get([small.remote() for _ in range(300)])
    end = tmp_path / "end"
    long = wait_for.options(resources={"blue": 1}).remote(str(end))
    after = [small.remote(i) for i in range(300)]
    cluster.add_node(num_cpus=1, resources={"blue": 1000})
    assert get(after) == list(range(300))
    assert ray.wait([long], timeout=0)[0] == []
    end.touch()
    get(long)


def test_results_that_come_go_to_disk(cluster):
    """The node where they were submitted has less memory than they need."""
    cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    cluster.add_node(num_cpus=2, resources={"blue": 2})
    ray.init(address=cluster.address)

    @ray.remote(resources={"blue": 0.001}, num_cpus=0.01)
    def made(i):
        return i.to_bytes(2, "big") * 30_000

    refs = [made.remote(i) for i in range(2500)]
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=LIMIT, fetch_local=False)
    assert len(ready) == len(refs)
    assert all(get(ref)[:2] == i.to_bytes(2, "big") for i, ref in enumerate(refs))
