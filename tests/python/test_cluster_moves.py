"""Actors that live at their maker's node, and are made again elsewhere when their process dies and
something else has their room.
"""

import os
import signal
import time

import clusters
import pytest
import support

import ray
from ray._private import sessions
from ray.cluster_utils import Cluster
from ray.exceptions import ActorDiedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

pytestmark = [
    pytest.mark.one_path("restarts are the daemon's in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture(autouse=True)
def no_nodes():
    """Every test begins and ends without one."""
    assert sessions.live_nodes() == []
    yield
    clusters.end_all()


def get(refs):
    return ray.get(refs, timeout=LIMIT)


class Counter:
    """Can't be made again on this node while the file is there."""

    def __init__(self, total=0, file=None, node=None):
        self.total = total
        if file is not None and os.path.exists(file) and self.where() == node:
            os._exit(1)

    def add(self, n):
        self.total += n
        return self.total

    def where(self):
        return ray.get_runtime_context().get_node_id()

    def pid(self):
        return os.getpid()

    def note(self, path, what):
        """Once for each run, before it takes a while."""
        with open(path, "a") as file:
            file.write(f"{what}\n")
        time.sleep(0.01)
        return what


def runs_of(path):
    with open(path) as file:
        return [int(line) for line in file]


@pytest.fixture
def narrow():
    """A node with one CPU, where the driver is, and one with two."""
    ray.shutdown()
    made = Cluster()
    here = made.add_node(num_cpus=1)
    wide = made.add_node(num_cpus=2)
    ray.init(address=made.address)
    yield here, wide
    ray.shutdown()
    made.shutdown()


@ray.remote(num_cpus=1)
def takes_room(path, there):
    """Has its node's CPU until the file is there."""
    support.touch(there)
    support.wait_for_file(path)


def make(here, folder):
    """One that lives at home, and the file."""
    file = os.path.join(folder, "bad")
    kind = ray.remote(Counter).options(num_cpus=1, max_restarts=-1, max_task_retries=-1)
    actor = kind.remote(5, file, here.node_id)
    assert get(actor.where.remote()) == here.node_id
    return actor, get(actor.pid.remote()), file


def move(here, folder, pid, file):
    """Its process dies again and again; so there are pauses, in which a task gets its CPU."""
    pin = NodeAffinitySchedulingStrategy(here.node_id, soft=False)
    there, path = os.path.join(folder, "there"), os.path.join(folder, "open")
    task = takes_room.options(scheduling_strategy=pin).remote(path, there)
    support.touch(file)
    os.kill(pid, signal.SIGKILL)
    assert support.wait_until(lambda: os.path.exists(there), LIMIT)
    return task, path


def test_one_that_lives_at_home_is_made_again_elsewhere(narrow, folder):
    here, wide = narrow
    actor, pid, file = make(here, folder)
    task, path = move(here, folder, pid, file)
    assert get([actor.add.remote(1) for _ in range(100)]) == list(range(6, 106))
    assert get(actor.where.remote()) == wide.node_id
    pid = get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    assert get(actor.add.remote(1)) == 6 and get(actor.pid.remote()) != pid
    ray.kill(actor)
    with pytest.raises(ActorDiedError):
        get(actor.add.remote(1))
    support.touch(path)
    get(task)


def test_its_calls_go_along_in_order(narrow, folder):
    here, wide = narrow
    runs = os.path.join(folder, "runs")
    actor, pid, file = make(here, folder)
    refs = [actor.note.remote(runs, i) for i in range(300)]
    assert support.wait_until(lambda: os.path.exists(runs) and len(runs_of(runs)) > 3)
    task, path = move(here, folder, pid, file)
    assert get(refs) == list(range(300))
    assert get(actor.where.remote()) == wide.node_id
    ran = runs_of(runs)
    last = [max(i for i, run in enumerate(ran) if run == call) for call in range(300)]
    assert last == sorted(last), "as far as they ran last"
    support.touch(path)
    get(task)
