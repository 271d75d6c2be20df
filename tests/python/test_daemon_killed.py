"""A daemon that is killed: every call that waits raises, and the program can begin again."""

import asyncio
import os
import signal
import threading

import numpy as np
import pytest
import support

import ray
from ray.exceptions import LocalRayletDiedError

pytestmark = pytest.mark.usefixtures("session")


@ray.remote
def gate(path):
    support.wait_for_file(path)


@ray.remote
class Actor:
    def wait(self, path):
        support.wait_for_file(path)

    async def value(self, refs):
        return await refs[0]


async def value(ref):
    return await ref


def submit_for_ever(ref):
    while True:
        support.echo.remote(ref)


def ask_for_ever():
    while True:
        ray.nodes()


def put_for_ever():
    """Waits for space: what is put stays."""
    kept = []
    while True:
        kept.append(ray.put(np.zeros(1 << 20, np.uint8)))


@pytest.mark.init(num_cpus=2, object_store_memory=64 << 20)
def test_every_call_that_waits_raises(folder):
    ref, actor = gate.remote(f"{folder}/never"), Actor.remote()
    called = actor.wait.remote(f"{folder}/never")
    calls = [
        lambda: ray.get(ref),
        lambda: ray.get([called, ref], timeout=90),
        lambda: ray.wait([ref, called]),
        lambda: ref.future().result(90),
        lambda: asyncio.run(value(called)),
        lambda: submit_for_ever(ref),
        ask_for_ever,
        put_for_ever,
    ]
    found = [None] * len(calls)

    def run(i):
        try:
            calls[i]()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    daemon = support.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    assert [type(error) for error in found] == [LocalRayletDiedError] * len(calls), found
    assert all("mobulad is gone" in str(error) for error in found)
    for call in (lambda: ray.get(ref), lambda: ray.kill(actor), lambda: ray.put(1), ray.nodes):
        with pytest.raises(LocalRayletDiedError):
            call()
    ray.shutdown()
    assert support.wait_until(lambda: not support.processes() and not support.sessions())
    ray.init(num_cpus=2)
    assert ray.get(support.echo.remote(5), timeout=60) == 5


def test_init_works_again_as_often_as_one_likes():
    for i in range(3):
        assert ray.get(support.echo.remote(i), timeout=60) == i
        os.kill(support.daemon_pid(), signal.SIGKILL)
        with pytest.raises(LocalRayletDiedError):
            ask_for_ever()
        ray.shutdown()
        ray.init(num_cpus=1)


def test_a_process_that_only_starts_ends_too(folder):
    """It has not come so far as to ask the kernel for that: its interpreter takes long to start."""
    path, note = f"{folder}/python", f"{folder}/pid"
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\necho $$ > {note}~ && mv {note}~ {note} && exec sleep 600\n")
    os.chmod(path, 0o755)
    support.echo.options(runtime_env={"py_executable": path}).remote(1)
    support.wait_for_file(note)
    with open(note) as file:
        pid = int(file.read())
    os.kill(support.daemon_pid(), signal.SIGKILL)
    try:
        assert support.wait_until(lambda: not support.alive(pid))
    finally:
        if support.alive(pid):
            os.kill(pid, signal.SIGKILL)
