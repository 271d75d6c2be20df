"""Rows about a `ray start` node and the drivers that join it; and about names and restarts.

Run by either system's Python, as a part of workload.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import procs

import ray

HERE = Path(__file__).resolve().parent
NODE_MARK = "MOBULA_BENCH_NODE"


class Plain:
    def pid(self):
        return os.getpid()


class StartedNode:
    """A `ray start --head` node of its own. It is ended by its processes' marks: Ray's `ray stop`
    would end every system on the machine.
    """

    def __init__(self, cpus: int) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        host, port = self.address.split(":")
        command = [str(Path(sys.executable).parent / "ray"), "start", "--head"]
        command += [f"--node-ip-address={host}", f"--port={port}", f"--num-cpus={cpus}"]
        command += ["--include-dashboard=false", f"--temp-dir={self.folder}"]
        start = time.perf_counter()
        subprocess.run(command, check=True, env=self.environment(), stdout=subprocess.DEVNULL)
        self.seconds = time.perf_counter() - start

    def environment(self) -> dict[str, str]:
        return {**os.environ, NODE_MARK: self.mark, "RAY_ADDRESS": ""}

    def second_driver(self) -> dict[str, float]:
        """Joins it in a fresh process and runs one task; the seconds of both, and of the whole."""
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(HERE / "second_driver.py")],
            check=True,
            env={**self.environment(), "RAY_ADDRESS": self.address},
            capture_output=True,
            timeout=60,
        )
        whole = time.perf_counter() - start
        return {**json.loads(done.stdout.splitlines()[-1]), "whole": whole}

    def end(self) -> None:
        procs.end(procs.with_variable(NODE_MARK, self.mark), 0)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_node(cpus):
    def row():
        def measure(_seconds):
            node = StartedNode(cpus)
            node.end()
            return node.seconds

        yield measure

    return row


def second_driver(cpus, what):
    """`what`: "join"; "first", its first task; "whole", its program from start to end."""

    def row():
        node = StartedNode(cpus)
        node.second_driver()  # so that the next one is not the node's first
        yield lambda _seconds: node.second_driver()[what]
        node.end()

    return row


def named():
    name = uuid.uuid4().hex
    actor = ray.remote(Plain).options(name=name).remote()
    ray.get(actor.pid.remote())

    def measure(seconds):
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(20):
                ray.get_actor(name)
            done += 20
        return done / (time.perf_counter() - start)

    yield measure
    ray.kill(actor)


def restart():
    """Seconds from kill -9 of an actor's process to its first answer; the middle of several."""
    actor = ray.remote(Plain).options(max_restarts=-1, max_task_retries=-1).remote()
    ray.get(actor.pid.remote())

    def measure(_seconds):
        times = []
        for _ in range(5):
            time.sleep(0.2)
            pid = ray.get(actor.pid.remote())
            start = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            while ray.get(actor.pid.remote()) == pid:  # it was answered before the kill
                pass
            times.append(time.perf_counter() - start)
        return sorted(times)[len(times) // 2]

    yield measure
    ray.kill(actor)


def rows(cpus: int) -> dict:
    return {
        "start_node": start_node(cpus),
        "join": second_driver(cpus, "join"),
        "join_first": second_driver(cpus, "first"),
        "driver": second_driver(cpus, "whole"),
        "named": named,
        "restart": restart,
    }
