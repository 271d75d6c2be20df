"""A tour of three nodes on this machine: where what runs, an object that moves, and a node that is
killed while work goes on. Run it with `make run-cluster`.
"""

import sys
import time
from collections import Counter

import numpy as np

import ray
from ray._private import redis_server
from ray.cluster_utils import Cluster

if redis_server.program() is None:
    sys.exit("A cluster needs redis-server or valkey-server: install Debian's redis-server.")

start = time.perf_counter()
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "node_name": "head"})
green = cluster.add_node(num_cpus=2, resources={"green": 2}, node_name="green")
blue = cluster.add_node(num_cpus=2, resources={"blue": 2}, node_name="blue")
cluster.connect()
print(f"Three nodes, and this program on the head, after {time.perf_counter() - start:.1f} s:")
names = {node["NodeID"]: node["NodeName"] for node in ray.nodes()}
for node in ray.nodes():
    print(f"  {node['NodeName']:6} {node['NodeManagerAddress']}:{node['NodeManagerPort']}")
print(f"Together they have {ray.cluster_resources()['CPU']:.0f} CPUs.")


@ray.remote
def where():
    time.sleep(0.05)
    return names[ray.get_runtime_context().get_node_id()]


print(
    f"A task that asks for blue runs on: {ray.get(where.options(resources={'blue': 1}).remote())}."
)
start = time.perf_counter()
counts = Counter(ray.get([where.remote() for _ in range(100)]))
print(
    f"100 tasks of 50 ms each, started on the head, took {time.perf_counter() - start:.1f} s: "
    + ", ".join(f"{count} on {name}" for name, count in sorted(counts.items()))
    + "."
)


@ray.remote(resources={"green": 1})
def make(count):
    return np.arange(count)


@ray.remote(resources={"blue": 1})
def add_up(array):
    return int(array.sum())


made = make.remote(8_000_000)
ray.wait([made], fetch_local=False)
start = time.perf_counter()
total = ray.get(add_up.remote(made))
print(
    f"An array of 61 MiB, made on green and added up on blue ({total}): "
    f"{time.perf_counter() - start:.2f} s. It never was on the head."
)


@ray.remote(resources={"green": 1})
class Account:
    def __init__(self):
        self.balance = 0

    def deposit(self, amount):
        self.balance += amount
        return self.balance, names[ray.get_runtime_context().get_node_id()]


account = Account.remote()
start = time.perf_counter()
balance, place = ray.get([account.deposit.remote(1) for _ in range(1000)])[-1]
print(
    f"An actor on {place}: 1,000 calls in {time.perf_counter() - start:.2f} s, balance {balance}."
)

refs = [where.remote() for _ in range(200)]
time.sleep(0.3)
print("Now blue is killed, with work on it.")
start = time.perf_counter()
blue.kill_raylet()
counts = Counter(ray.get(refs))
print(
    f"All 200 tasks are done {time.perf_counter() - start:.1f} s later: what had begun on blue ran "
    "again elsewhere, when blue was certainly dead."
)
for node in ray.nodes():
    if not node["Alive"]:
        print(f"  {node['NodeName']} is dead: {node['DeathReasonMessage']}.")
ray.shutdown()
cluster.shutdown()
