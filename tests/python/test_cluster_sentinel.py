"""A cluster whose Redis is looked after by Sentinels: its master is killed while work goes on."""

import contextlib
import os
import socket
import subprocess

import clusters
import drivers
import pytest
import support

import ray
from ray._private import redis_server

pytestmark = [
    pytest.mark.one_path("nodes; tasks only show that they work"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
PASSWORD = "a password of Redis"
BUSY = 120  # seconds, where a fail-over and a death take 15 by the design


def free_ports(count) -> list:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Replicated:
    """A master with two replicas, and three Sentinels. `is_open`: these want no password."""

    def __init__(self, folder, is_open=False):
        ports = free_ports(6)
        self.folder = folder
        self.is_open = is_open
        self.servers = [self._server(i, port, ports[0]) for i, port in enumerate(ports[:3])]
        for port in ports[:3]:
            assert support.wait_until(lambda port=port: "PONG" in self.ask(port, "PING"))
        assert support.wait_until(
            lambda: self.ask(ports[0], "INFO", "replication").count("state=online") == 2, 60
        )
        self.watchers = [self._sentinel(port, ports[0]) for port in ports[3:]]
        for port in ports[3:]:
            assert support.wait_until(lambda port=port: self._knows_all(port), 60)
        self.address = "ours@" + ",".join(f"127.0.0.1:{port}" for port in ports[3:])

    def _knows_all(self, port) -> bool:
        """Whether this Sentinel knows the others, and both replicas."""
        password = None if self.is_open else PASSWORD
        known = self.ask(port, "SENTINEL", "master", "ours", password=password)
        return "num-other-sentinels\n2" in known and "num-slaves\n2" in known

    def _start(self, *words):
        return subprocess.Popen([redis_server.program(), *words], stdout=subprocess.DEVNULL)

    def _server(self, i, port, master):
        folder = f"{self.folder}/redis-{i}"
        os.mkdir(folder)
        words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        words += ["--requirepass", PASSWORD, "--masterauth", PASSWORD, "--appendonly", "yes"]
        if port != master:
            words += ["--replicaof", "127.0.0.1", str(master)]
        return self._start(*words)

    def _sentinel(self, port, master):
        path = f"{self.folder}/sentinel-{port}.conf"
        with open(path, "w") as file:
            file.write(
                f"port {port}\nbind 127.0.0.1\ndir {self.folder}\n"
                f"sentinel monitor ours 127.0.0.1 {master} 2\n"
                f'sentinel auth-pass ours "{PASSWORD}"\n'
                "sentinel down-after-milliseconds ours 1000\n"
                "sentinel failover-timeout ours 5000\n"
                + ("" if self.is_open else f'requirepass "{PASSWORD}"\n')
            )
        return self._start(path, "--sentinel")

    def ask(self, port, *words, password=PASSWORD) -> str:
        """What redis-cli says."""
        done = subprocess.run(
            ["redis-cli", "-p", str(port), *words],
            capture_output=True,
            text=True,
            env=drivers.environment({"REDISCLI_AUTH": password}),
        )
        return done.stdout

    def end(self):
        for process in self.watchers + self.servers:
            process.kill()
            process.wait()


@pytest.fixture
def replicated(request, folder):
    made = Replicated(folder, **getattr(request, "param", {}))
    yield made
    made.end()
    clusters.end_all()


@ray.remote
def where():
    return ray.get_runtime_context().get_node_id()


def test_the_master_of_redis_dies_while_work_goes_on(replicated):
    env = {"RAY_REDIS_PASSWORD": PASSWORD}
    first = clusters.head(f"--redis-sentinel={replicated.address}", **env)
    nodes = [first] + [
        clusters.join(first, f'--resources={{"{resource}": 1000}}', **env) for resource in "bc"
    ]
    clusters.await_all(*nodes, seconds=BUSY)
    ray.init(address=first.address)
    remote = where.options(resources={"b": 1}, num_cpus=0)
    there = ray.get(remote.remote())
    assert there == nodes[1].node_id

    replicated.servers[0].kill()
    for _ in range(100):  # nobody needs Redis for these
        assert ray.get(remote.remote(), timeout=BUSY) == there

    clusters.kill(nodes[2])
    clusters.await_all(*nodes[:2], seconds=BUSY)  # it is the new master that knows of this death
    clusters.await_all(*nodes[:2], clusters.join(first, **env), seconds=BUSY)
    assert ray.get(remote.remote(), timeout=BUSY) == there


@pytest.mark.parametrize("replicated", [{"is_open": True}], indirect=True)
def test_sentinels_may_want_no_password(replicated):
    env = {"RAY_REDIS_PASSWORD": PASSWORD}
    first = clusters.head(f"--redis-sentinel={replicated.address}", **env)
    clusters.await_all(first, clusters.join(first, **env), seconds=BUSY)


def test_a_wrong_password_of_sentinels(replicated):
    words = clusters.refused(
        "--head", f"--redis-sentinel={replicated.address}", RAY_REDIS_PASSWORD="wrong"
    )
    assert "password" in words and "wrong" not in words
