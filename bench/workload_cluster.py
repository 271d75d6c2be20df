"""One row about several nodes on this machine, against the API that Mobula and Ray share:
`python workload_cluster.py ROW COUNT`.

Prints its figure as JSON: {"value": ...}. Every node is a `ray.cluster_utils.Cluster`'s; what has
to run on the other node asks for the resource `other`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import procs

import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

MIB = 1 << 20
SECONDS = 1.5  # of a window
LIMIT = 120
IDLE_SECONDS = 10
OTHER = {"resources": {"other": 0.001}}
# Nothing that a node needs, of both systems: so many nodes need not fit this machine's CPUs.
SMALL = {"num_cpus": 1, "object_store_memory": 256 * MIB}


@ray.remote
def nothing(*_arguments):
    return None


@ray.remote
def parent():
    """Of the worker: another one on each node. It takes long enough to be worth sending."""
    time.sleep(1e-4)
    return os.getppid()


@ray.remote
def array(size):
    return np.ones(size, np.uint8)


@ray.remote
class Plain:
    def nothing(self):
        return None


def start(nodes: int, **arguments) -> Cluster:
    """A cluster of so many nodes; this program is on the head."""
    cluster = Cluster()
    arguments = {**SMALL, **arguments}
    cluster.add_node(**arguments)
    for _ in range(nodes - 1):
        cluster.add_node(**arguments, resources={"other": 1000})
    cluster.connect()
    if nodes > 1:
        get([nothing.options(**OTHER).remote()])
    return cluster


def get(refs):
    return ray.get(refs, timeout=LIMIT)


def rate(body: Callable[[], int]) -> float:
    """Of the things that the body does, by its own count; the first time is not counted."""
    body()
    done, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < SECONDS:
        done += body()
    return done / took


def one(call: Callable[[], object]) -> int:
    get(call())
    return 1


def many(call: Callable[[], object]) -> int:
    get([call() for _ in range(1000)])
    return 1000


def timed(body: Callable[[], object]) -> float:
    begin = time.perf_counter()
    body()
    return time.perf_counter() - begin


# ---- tasks and calls ----


def task_one(_count):
    start(2)
    task = nothing.options(**OTHER)
    return 1e6 / rate(lambda: one(task.remote))


def task_many(_count):
    start(2)
    task = nothing.options(**OTHER)
    return rate(lambda: many(task.remote))


def call_one(_count):
    start(2)
    actor = Plain.options(num_cpus=0, **OTHER).remote()
    return 1e6 / rate(lambda: one(actor.nothing.remote))


def call_many(_count):
    start(2)
    actor = Plain.options(num_cpus=0, **OTHER).remote()
    return rate(lambda: many(actor.nothing.remote))


def backlog(count):
    start(4)
    get([parent.remote() for _ in range(1000)])
    begin = time.perf_counter()
    parents = get([parent.remote() for _ in range(count)])
    took = time.perf_counter() - begin
    assert len(set(parents)) > 1, "all ran on one node"
    return count / took


def local_one(_count):
    start(2)
    return 1e6 / rate(lambda: one(nothing.remote))


def local_many(_count):
    start(2)
    return rate(lambda: many(nothing.remote))


def alone(call):
    ray.init(num_cpus=1, object_store_memory=256 * MIB, log_to_driver=False)
    return call()


def alone_one(_count):
    return alone(lambda: 1e6 / rate(lambda: one(nothing.remote)))


def alone_many(_count):
    return alone(lambda: rate(lambda: many(nothing.remote)))


# ---- data ----


def pull(_count):
    """GB/s of one value of 1 GiB that comes to this node; the best of three, into memory that was
    used before, as is the socket's that stands beside it.
    """
    size = 1 << 30
    start(2, object_store_memory=3 * size + 512 * MIB)
    best = 0.0
    for _ in range(3):
        ref = array.options(**OTHER).remote(size)
        ray.wait([ref], timeout=LIMIT, fetch_local=False)
        best = max(best, size / 1e9 / timed(lambda ref=ref: get(ref)))
        del ref
        time.sleep(0.5)
    return best


def to_nodes(count: int) -> float:
    """Seconds until 100 MiB of this node are the argument of a task on each of the others."""
    cluster = start(count + 1)
    here = ray.get_runtime_context().get_node_id()
    ids = [node["NodeID"] for node in ray.nodes() if node["NodeID"] != here]
    assert len(ids) == count == len(cluster.worker_nodes)
    tasks = [
        nothing.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, False))
        for node in ids
    ]
    best = float("inf")
    for _ in range(3):
        get([task.remote() for task in tasks])
        ref = ray.put(np.ones(100 * MIB, np.uint8))
        best = min(best, timed(lambda ref=ref: get([task.remote(ref) for task in tasks])))
        del ref
        time.sleep(0.5)
    return best


# ---- actors, groups, nodes ----


def actors(count):
    """Actors a second, each until it answers."""
    start(4)
    strategy = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
    begin = time.perf_counter()
    made = [Plain.options(**strategy).remote() for _ in range(count)]
    get([actor.nothing.remote() for actor in made])
    return count / (time.perf_counter() - begin)


def one_group() -> int:
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    assert group.wait(LIMIT)
    remove_placement_group(group)
    return 1


def groups(_count):
    start(2)
    return rate(one_group)


def join(_count):
    cluster = start(1)

    def body():
        cluster.add_node(wait=False, **SMALL, resources={"other": 1})
        get(nothing.options(**OTHER).remote())

    return timed(body)


@ray.remote(max_retries=1, resources={"mortal": 1})
def second_time(path):
    """The first time it does not end."""
    if os.path.exists(path):
        return
    open(path, "w").close()
    time.sleep(LIMIT)


def death(_count):
    """Seconds from kill -9 of a node until its task has run on another one."""
    cluster = start(1)
    dies = cluster.add_node(**SMALL, resources={"mortal": 1})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "begun")
        result = second_time.remote(path)
        while not os.path.exists(path):
            time.sleep(0.01)
        cluster.add_node(**SMALL, resources={"mortal": 1})
        time.sleep(10)  # young nodes are watched less closely
        begin = time.perf_counter()
        cluster.remove_node(dies, allow_graceful=False)
        get(result)
        return time.perf_counter() - begin


# ---- what it costs ----


# What a node says itself; what its scripts do inside of Redis is not counted.
SAID = ("eval", "evalsha", "wait", "ping", "role", "subscribe", "hello", "auth", "script")


def commands(cluster: Cluster) -> int:
    """That the nodes have given to Redis so far."""
    said = cluster.head_node._redis.ask("INFO", "commandstats")
    calls = 0
    for line in said.split():
        name, _, figures = line.removeprefix("cmdstat_").partition(":calls=")
        if name.partition("|")[0] in SAID:
            calls += int(figures.partition(",")[0])
    return calls


def commands_while(cluster: Cluster, body: Callable[[], object]) -> tuple[int, float]:
    before, begin = commands(cluster), time.perf_counter()
    body()
    return commands(cluster) - before - 1, time.perf_counter() - begin  # one: AUTH of the question


def redis_idle(_count):
    """Commands a second and node."""
    cluster = start(2)
    time.sleep(2)
    said, seconds = commands_while(cluster, lambda: time.sleep(IDLE_SECONDS))
    return said / seconds / 2


def commands_for(count: int, body: Callable[[], object]) -> float:
    """Commands for each of `count` things, beyond what is said when nothing is done."""
    cluster = start(2)
    time.sleep(2)
    idle, idle_seconds = commands_while(cluster, lambda: time.sleep(3))
    said, seconds = commands_while(cluster, body)
    return max(0.0, said - idle / idle_seconds * seconds) / count


def redis_tasks(_count):
    task = nothing.options(**OTHER)
    return commands_for(1000, lambda: many(task.remote))


def redis_actors(_count):
    def body():
        made = [Plain.options(num_cpus=0, **OTHER).remote() for _ in range(100)]
        get([actor.nothing.remote() for actor in made])

    return commands_for(100, body)


def redis_groups(_count):
    return commands_for(100, lambda: [one_group() for _ in range(100)])


def idle_cpu(_count):
    """Per cent of a CPU that an idle node's processes use."""
    start(2)
    names = procs.family(os.getpid(), os.environ[procs.MARK])
    time.sleep(5)
    before = procs.cpu_seconds(names)
    time.sleep(IDLE_SECONDS)
    return 100 * (procs.cpu_seconds(names) - before) / IDLE_SECONDS / 2


ROWS = {
    **{
        row.__name__: row
        for row in (
            *(task_one, task_many, call_one, call_many, backlog),
            *(local_one, local_many, alone_one, alone_many),
            *(pull, actors, groups, join, death),
            *(redis_idle, redis_tasks, redis_actors, redis_groups, idle_cpu),
        )
    },
    "to_one": lambda _count: to_nodes(1),
    "to_eight": lambda _count: to_nodes(8),
}


if __name__ == "__main__":
    print(json.dumps({"value": ROWS[sys.argv[1]](int(sys.argv[2]))}), flush=True)
