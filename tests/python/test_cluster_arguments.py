"""Arguments of tasks that lie on another node of a cluster than the one where the tasks were
submitted, or run.
"""

import contextlib
import os
import signal

import drivers
import numpy
import pytest
import support

import ray
from ray._private import sessions
from ray.cluster_utils import Cluster

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
    assert sessions.live_nodes() == []
    made = Cluster()
    all_nodes = [made.add_node(num_cpus=2)]
    all_nodes += [made.add_node(num_cpus=2, resources={name: 2}) for name in ("blue", "green")]
    ray.init(address=made.address)
    yield all_nodes
    ray.shutdown()
    made.shutdown()
    drivers.command("stop", "--force")


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
def make(size):
    return numpy.ones(size, numpy.uint8)


@ray.remote
def where(*args):
    return ray.get_runtime_context().get_node_id()


@ray.remote
def size_of(array, path=None):
    if path is not None:
        open(path, "w").close()
    return len(array)


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
    value = in_time([make.options(**at("green")).remote(LARGE)])[0]
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
    value = in_time([make.options(**at("green")).remote(LARGE)])[0]
    begun = tmp_path / "begun"
    with stopped(nodes[2]):
        late = size_of.options(**at("blue")).remote(value, str(begun))
        assert ray.wait([late], timeout=0.3)[0] == []
        ray.cancel(late)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            get(late)
    assert get(size_of.options(**at("blue")).remote(value)) == LARGE
    assert not begun.exists()
