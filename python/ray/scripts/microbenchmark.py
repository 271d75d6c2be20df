"""`ray microbenchmark`: the rows that Ray's own command prints, as far as Mobula has what they
measure.
"""

import argparse
import os
import sys
import time

import ray


@ray.remote
def small_value():
    return b"ok"


@ray.remote
def put_small_values(count):
    for _ in range(count):
        ray.put(0)


@ray.remote
def put_arrays(count, size):
    data = b"\0" * size
    for _ in range(count):
        ray.put(data)


@ray.remote
def submit_small_values(count):
    ray.get([small_value.remote() for _ in range(count)])


@ray.remote
def make_refs(count):
    return [ray.put(1) for _ in range(count)]


@ray.remote
class Server:
    def small_value(self):
        return b"ok"

    def small_value_arg(self, x):
        return b"ok"


@ray.remote
class Client:
    def __init__(self, servers):
        self.servers = servers

    def call(self, count):
        ray.get([server.small_value.remote() for server in self.servers for _ in range(count)])

    def call_with_argument(self, count):
        x = ray.put(0)
        ray.get([server.small_value_arg.remote(x) for server in self.servers for _ in range(count)])


def rows(cpus):
    """The rows: (name, what to do once, how much that counts for). Each is made when its turn
    comes.
    """
    value = ray.put(0)
    yield "single client get calls (Plasma Store)", lambda: ray.get(value), 1
    yield "single client put calls (Plasma Store)", lambda: ray.put(0), 1
    yield (
        "multi client put calls (Plasma Store)",
        lambda: ray.get([put_small_values.remote(100) for _ in range(10)]),
        1000,
    )
    size = 100 << 20
    data = os.urandom(1 << 20) * 100
    yield "single client put gigabytes", lambda: ray.put(data), size / 1e9
    yield (
        "single client tasks and get batch",
        lambda: ray.get([small_value.remote() for _ in range(1000)]),
        1,
    )
    yield (
        "multi client put gigabytes",
        lambda: ray.get([put_arrays.remote(2, size) for _ in range(cpus)]),
        2 * cpus * size / 1e9,
    )
    container = make_refs.remote(10000)
    yield "single client get object containing 10k refs", lambda: ray.get(container), 1
    yield "single client wait 1k refs", _wait_one_by_one, 1
    yield "single client tasks sync", lambda: ray.get(small_value.remote()), 1
    yield (
        "single client tasks async",
        lambda: ray.get([small_value.remote() for _ in range(1000)]),
        1000,
    )
    yield (
        "multi client tasks async",
        lambda: ray.get([submit_small_values.remote(2500) for _ in range(4)]),
        10000,
    )
    server = Server.remote()
    yield "1:1 actor calls sync", lambda: ray.get(server.small_value.remote()), 1
    yield (
        "1:1 actor calls async",
        lambda: ray.get([server.small_value.remote() for _ in range(1000)]),
        1000,
    )
    servers = [Server.remote() for _ in range(cpus)]
    client = Client.remote(servers)
    yield "1:n actor calls async", lambda: ray.get(client.call.remote(1000)), 1000 * cpus
    clients = [Client.remote([each]) for each in servers]
    yield (
        "n:n actor calls async",
        lambda: ray.get([each.call.remote(1000) for each in clients]),
        1000 * cpus,
    )
    yield (
        "n:n actor calls with arg async",
        lambda: ray.get([each.call_with_argument.remote(500) for each in clients]),
        500 * cpus,
    )


def _wait_one_by_one():
    waiting = [small_value.remote() for _ in range(1000)]
    while waiting:
        _, waiting = ray.wait(waiting)


def measure(act, amount, windows=4, seconds=1.0):
    """(mean, standard deviation) of the rate over several windows, after one to warm up."""
    _window(act, amount, seconds / 2)
    rates = [_window(act, amount, seconds) for _ in range(windows)]
    mean = sum(rates) / len(rates)
    return mean, (sum((rate - mean) ** 2 for rate in rates) / len(rates)) ** 0.5


def _window(act, amount, seconds):
    start = time.perf_counter()
    count, passed = 0, 0.0
    while passed < seconds:
        act()
        count += 1
        passed = time.perf_counter() - start
    return count * amount / passed


def main(argv) -> int:
    """Prints every row whose name contains the pattern that may be given."""
    parser = argparse.ArgumentParser("ray microbenchmark", description=__doc__)
    parser.add_argument(
        "pattern", nargs="?", default="", help="only rows with this in their name; all by default"
    )
    pattern = parser.parse_args(argv).pattern
    found = False
    ray.init()
    cpus = max(int(ray.cluster_resources()["CPU"]), 1)
    for name, act, amount in rows(cpus):
        if pattern in name:
            found = True
            mean, deviation = measure(act, amount)
            print(f"{name} per second {mean:.2f} +- {deviation:.2f}", flush=True)
    ray.shutdown()
    if not found:
        print(f"ray microbenchmark: no row has {pattern!r} in its name", file=sys.stderr)
    return 0 if found else 1
