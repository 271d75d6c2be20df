"""Arguments of tasks that lie on another node of a cluster than the one where the tasks were
submitted, or run.
"""

import contextlib
import os
import signal
import time

import clusters
import numpy
import pytest
import support

import ray

pytestmark = [
    pytest.mark.one_path("what has large arguments elsewhere is the daemons' business"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60
LARGE = 32 << 20


@pytest.fixture(scope="module")
def nodes():
    """The driver's, one with `blue`, one with `green`; two CPUs each."""
    with clusters.joined({}, *({"resources": {name: 2}} for name in ("blue", "green"))) as made:
        yield made


cluster = clusters.empty


def get(refs):
    return ray.get(refs, timeout=LIMIT)


def at(name):
    return {"resources": {name: 0.01}}


def in_time(refs):
    """Waits until all have values, wherever those are."""
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=LIMIT, fetch_local=False)
    assert len(ready) == len(refs)
    return refs


@ray.remote
def make(size, log=None):
    """`log` is told where it was made."""
    if log is not None:
        with open(log, "a") as file:
            file.write(ray.get_runtime_context().get_node_id() + "\n")
    return numpy.ones(size, numpy.uint8)


@ray.remote
def make_by_put(size):
    return [ray.put(numpy.ones(size, numpy.uint8))]


@ray.remote
def where(*args):
    return ray.get_runtime_context().get_node_id()


@ray.remote
def size_of(array, path=None):
    if path is not None:
        open(path, "w").close()
    return len(array)


@ray.remote
def sleeps(path):
    with open(os.path.join(path, str(os.getpid())), "w"):
        pass
    while os.path.exists(path):
        time.sleep(0.01)


def goes(node, make_args):
    """Whether a task with such arguments goes to that node, as soon as it is known to have room.
    They are made anew for each try, for a task that runs here brings them here.
    """
    return support.wait_until(lambda: get(where.remote(*make_args())) == node)


def lie_at(*names, size=LARGE):
    """Values that were made there."""
    return in_time([make.options(**at(name)).remote(size) for name in names])


@contextlib.contextmanager
def stopped(node):
    """Its daemon stands still, for less time than others wait until they think it dead."""
    pid = node.all_processes["raylet"][0].process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_no_worker_waits_for_arguments_from_elsewhere(nodes, tmp_path):
    _, blue, green = nodes
    value = lie_at("green")[0]
    get([where.options(num_cpus=2, **at("blue")).remote() for _ in range(2)])
    begun = tmp_path / "begun"
    with stopped(green):
        late = size_of.options(num_cpus=2, **at("blue")).remote(value, str(begun))
        assert ray.wait([late], timeout=0.5)[0] == []
        # it has no CPU there
        assert get(where.options(num_cpus=2, **at("blue")).remote()) == blue.node_id
        assert not begun.exists()
    assert get(late) == LARGE


def test_a_task_is_cancelled_while_its_arguments_come(nodes, tmp_path):
    value = lie_at("green")[0]
    begun = tmp_path / "begun"
    with stopped(nodes[2]):
        late = size_of.options(**at("blue")).remote(value, str(begun))
        assert ray.wait([late], timeout=0.3)[0] == []
        ray.cancel(late)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            get(late)
    assert get(size_of.options(**at("blue")).remote(value)) == LARGE
    assert not begun.exists()


def test_a_task_goes_to_its_large_arguments(nodes):
    _, blue, green = (node.node_id for node in nodes)
    assert goes(blue, lambda: lie_at("blue")) and goes(green, lambda: lie_at("green"))
    assert goes(green, lambda: lie_at("blue") + lie_at("green", size=2 * LARGE))


def test_a_task_goes_to_an_argument_that_was_not_there_when_it_was_submitted(nodes):
    assert goes(nodes[1].node_id, lambda: [make.options(**at("blue")).remote(LARGE)])


def test_a_task_goes_to_what_was_put_elsewhere(nodes):
    assert goes(nodes[2].node_id, lambda: get(make_by_put.options(**at("green")).remote(LARGE)))


def test_small_arguments_are_no_reason_to_leave(nodes):
    here = nodes[0].node_id
    small = lie_at("blue", size=500_000)[0]
    large = lie_at("blue")[0]
    own = ray.put(numpy.ones(2 * LARGE, numpy.uint8))
    assert get(where.remote(small)) == here
    assert get(where.remote(own)) == here
    assert get(where.remote(large, own)) == here
    get(large)  # it is here, too, from now on
    assert get(where.remote(large)) == here


def test_a_task_does_not_wait_for_the_node_of_its_arguments(nodes, tmp_path):
    here, blue, green = nodes
    large = lie_at("blue")[0]
    busy = [sleeps.options(**at("blue")).remote(str(tmp_path)) for _ in range(2)]
    assert support.wait_until(lambda: len(os.listdir(tmp_path)) == 2)
    assert get(where.remote(large)) in (here.node_id, green.node_id)
    for name in os.listdir(tmp_path):
        os.remove(tmp_path / name)
    tmp_path.rmdir()
    get(busy)


def test_what_must_be_here_stays(nodes):
    large = lie_at("blue")[0]
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(nodes[0].node_id, False)
    assert get(where.options(scheduling_strategy=here).remote(large)) == nodes[0].node_id


def test_what_was_lost_with_its_node(cluster, tmp_path):
    cluster.add_node(num_cpus=2)
    dies = cluster.add_node(num_cpus=2, resources={"blue": 2}, node_name="mortal")
    ray.init(address=cluster.address)
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(dies.node_id, True)
    log = tmp_path / "made"
    bound = in_time([make.options(**at("blue")).remote(LARGE, str(log))])[0]
    for _ in range(10):  # that node may look full for a moment
        log.write_text("")
        anywhere = make.options(scheduling_strategy=there).remote(LARGE, str(log))
        in_time([anywhere])
        if log.read_text().split() == [dies.node_id]:
            break
    else:
        pytest.fail("no value was made where its task would rather run")
    heir = cluster.add_node(num_cpus=2, resources={"blue": 2})
    dies.kill_raylet()
    assert get(size_of.remote(anywhere)) == LARGE  # it was made again, here or there
    log.write_text("")
    assert get(size_of.options(**at("blue")).remote(bound)) == LARGE
    assert log.read_text().split() == [heir.node_id]  # it was made again there
    assert get(bound).all()
    again = lie_at("blue")[0]
    heir.kill_raylet()
    with pytest.raises(ray.exceptions.ObjectLostError, match="blue: 0.01, but this node has 0"):
        get(again)
    with pytest.raises(ray.exceptions.ObjectLostError):
        get(size_of.remote(again))
