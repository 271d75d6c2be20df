"""A daemon that is stopped (SIGSTOP): no call waits for ever, and all go on with it."""

import asyncio
import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
import support

import ray
from ray.exceptions import LocalRayletDiedError, LocalRayletStoppedError

pytestmark = pytest.mark.usefixtures("session")


@contextlib.contextmanager
def stopped():
    """The daemon is stopped, unless the test ends it."""
    daemon = support.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    assert support.wait_until(lambda: support.state(daemon) == "T")
    try:
        yield daemon
    finally:
        if support.alive(daemon):
            os.kill(daemon, signal.SIGCONT)


def told(call):
    """Runs a call that finds the daemon stopped."""
    with pytest.raises(LocalRayletStoppedError) as info:
        call()
    assert "is stopped" in str(info.value) and "kill -CONT" in str(info.value)


@ray.remote
def gate(path):
    support.wait_for_file(path)
    return "open"


@ray.remote
class Actor:
    def echo(self, x):
        return x


def all_told(*calls):
    """Runs all of them at once."""
    failures = []

    def run(call):
        try:
            told(call)
        except BaseException as error:  # for the test's own thread
            failures.append((call, error))

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []


def test_waits_are_told_and_go_on_with_the_daemon(folder):
    ref = gate.remote(f"{folder}/go")
    with stopped():
        all_told(
            lambda: ray.get(ref),
            lambda: ray.get([ref, ray.put(1)]),
            lambda: ray.get(ref, timeout=60),
            lambda: ray.wait([ref]),
            lambda: ref.future().result(60),
            lambda: asyncio.run(value(ref)),
        )
        told(lambda: ray.get(ref))
        told(lambda: ray.get(ref, timeout=0))
    support.touch(f"{folder}/go")
    assert ray.get(ref, timeout=60) == "open"
    assert asyncio.run(value(ref)) == "open"


async def value(ref):
    return await ref


def test_a_question_is_told_and_its_answer_is_not_taken_for_another():
    total = ray.cluster_resources()
    with stopped():
        told(ray.nodes)
        told(ray.available_resources)
        told(lambda: ray.remote(abs).options(num_cpus=0.25).remote(-3))
    assert ray.cluster_resources() == total
    assert ray.get(ray.remote(abs).options(num_cpus=0.25).remote(-3), timeout=60) == 3
    assert support.wait_until(lambda: ray.available_resources()["CPU"] == total["CPU"])


def test_a_demand_that_was_asked_for_in_vain():
    with stopped():
        told(lambda: ray.remote(abs).options(num_cpus=0.25).remote(-3))
    assert ray.get(ray.remote(abs).options(num_cpus=0.25).remote(-3), timeout=60) == 3


def test_a_call_of_an_actor_and_its_order():
    actor = Actor.remote()
    with stopped():
        # Through the daemon nothing is asked before the call: the get is told.
        told(lambda: ray.get(actor.echo.remote(1)))
        told(lambda: ray.get(actor.echo.remote(2)))
    assert ray.get([actor.echo.remote(i) for i in range(100)], timeout=60) == list(range(100))


def test_kill():
    actor = Actor.remote()
    assert ray.get(actor.echo.remote(1), timeout=60) == 1
    with stopped():
        told(lambda: ray.kill(actor))
    ray.kill(actor)  # what was asked before has been answered then
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.echo.remote(2), timeout=60)


@pytest.mark.init(num_cpus=1, object_store_memory=64 << 20)
def test_puts_are_told_and_lose_nothing():
    block = np.arange(1 << 20, dtype=np.uint8)

    def put_many(kept):
        for _ in range(200):
            kept.append(ray.put(block))

    kept = []
    with stopped():
        told(lambda: put_many(kept))
        told(lambda: put_many(kept))
    kept.append(ray.put(block))
    assert all((ray.get(ref) == block).all() for ref in kept)
    kept.clear()
    assert support.wait_until(lambda: support.store_free() > 60 << 20)


def test_submits_are_told(folder):
    """Also when the ring to the daemon is as full as it may be."""
    waits = gate.remote(f"{folder}/go")
    refs = []

    def submit():
        while True:
            refs.append(support.echo.remote(waits))

    with stopped():
        told(submit)
        told(lambda: refs.append(support.echo.remote(waits)))
    support.touch(f"{folder}/go")
    assert ray.get(refs[-1], timeout=60) == "open"
    assert set(ray.get(refs, timeout=60)) == {"open"}


def test_a_worker_is_told_too(folder):
    @ray.remote
    def waits(refs):
        support.touch(f"{folder}/waits")
        return ray.get(refs[0])

    @ray.remote
    class Awaits:
        async def wait(self, refs):
            support.touch(f"{folder}/awaits")
            return await refs[0]

    ref, actor = gate.remote(f"{folder}/go"), Awaits.remote()
    results = waits.remote([ref]), actor.wait.remote([ref])
    support.wait_for_file(f"{folder}/waits")
    support.wait_for_file(f"{folder}/awaits")
    with stopped():
        told(lambda: ray.get(ref))
        time.sleep(3)  # the workers have looked, too, by then
    support.touch(f"{folder}/go")
    for result in results:
        told(lambda result=result: ray.get(result, timeout=60))


def test_a_short_stop_hurts_nobody(folder):
    ref = gate.remote(f"{folder}/go")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ray.get(ref))),
        threading.Thread(target=lambda: found.append(ray.wait([ref])[0] == [ref])),
        threading.Thread(target=lambda: found.append(asyncio.run(value(ref)))),
        threading.Thread(target=lambda: found.append(len(ray.nodes()))),
    ]
    with stopped():
        for thread in threads:
            thread.start()
        time.sleep(2)
    support.touch(f"{folder}/go")
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, found)) == ["1", "True", "open", "open"]


def test_what_workers_do_alone_goes_on():
    """A result that comes before the daemon counts as stopped."""
    ray.get([support.echo.remote(i) for i in range(100)], timeout=60)
    with stopped():
        if os.environ.get("MOBULA_FAST_PATH") != "0":
            assert ray.get([support.echo.remote(i) for i in range(10)]) == list(range(10))
    assert ray.get(support.echo.remote(1), timeout=60) == 1


def test_shutdown_ends_a_stopped_daemon_and_init_works_again(folder):
    @ray.remote
    def busy():
        support.touch(f"{folder}/busy")
        time.sleep(1000)

    ref = busy.remote()
    support.wait_for_file(f"{folder}/busy")
    daemon = support.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    ray.shutdown()
    assert not support.alive(daemon)
    assert support.wait_until(lambda: not support.processes() and not support.sessions())
    ray.init(num_cpus=2)
    assert ray.get(support.echo.remote(5), timeout=60) == 5
    with pytest.raises(Exception, match="session"):
        ray.get(ref)


def test_a_program_ends_though_its_daemon_is_stopped(folder):
    code = """
import os, ray, signal
ray.init(num_cpus=1, _temp_dir=os.path.dirname(__file__))
assert ray.get(ray.remote(abs).remote(-5)) == 5
os.kill(ray._private.worker._core.session()["daemon_pid"], signal.SIGSTOP)
try:
    ray.nodes()
except ray.exceptions.LocalRayletDiedError as error:
    print(type(error).__name__)
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.returncode, result.stdout) == (0, "LocalRayletStoppedError\n"), result.stderr
    assert issubclass(LocalRayletStoppedError, LocalRayletDiedError)
