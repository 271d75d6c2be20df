"""ray.cancel of calls of actors that live on another node than their caller."""

import asyncio
import os
import time

import clusters
import pytest
import support

import ray
from ray.exceptions import ActorDiedError, TaskCancelledError

pytestmark = [
    pytest.mark.one_path("calls between nodes go through the daemons in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture(scope="module")
def nodes():
    """The driver's node, one with `blue`, and one with `red`."""
    with clusters.joined({}, {"resources": {"blue": 4}}, {"resources": {"red": 4}}) as made:
        yield made


@ray.remote(num_cpus=0, resources={"blue": 1})
class Holder:
    """Runs until it is let go, or asked to stop."""

    def hold(self, folder, name="hold"):
        support.touch(f"{folder}/{name}.runs")
        while not os.path.exists(f"{folder}/{name}.open"):
            if ray.get_runtime_context().is_canceled():
                support.touch(f"{folder}/{name}.asked")
                return "asked"
            time.sleep(0.01)
        return name

    def mark(self, path, *waits_for):
        support.touch(path)
        return path

    def nested(self, folder):
        return ray.get(late.options(num_cpus=0).remote(folder), timeout=LIMIT)

    def leave(self):
        os._exit(3)


@ray.remote(num_cpus=0, resources={"blue": 1})
class Async:
    async def hold(self, folder):
        try:
            support.touch(f"{folder}/async.runs")
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            support.touch(f"{folder}/async.broken")
            raise

    async def one(self):
        return 1


@ray.remote
def late(folder):
    support.touch(f"{folder}/late.runs")
    try:
        support.wait_for_file(f"{folder}/late.open")
    except BaseException:
        support.touch(f"{folder}/late.broken")
        raise


def get(refs):
    return ray.get(refs, timeout=LIMIT)


def has(folder, name):
    return support.wait_until(lambda: os.path.exists(f"{folder}/{name}"))


def is_cancelled(ref):
    with pytest.raises(TaskCancelledError):
        get(ref)
    return True


def test_what_waits_there_never_runs(nodes, folder):
    actor = Holder.remote()
    first = actor.hold.remote(folder)
    assert has(folder, "hold.runs")
    refs = [actor.mark.remote(f"{folder}/m{i}") for i in range(100)]
    for i in range(0, 100, 2):
        ray.cancel(refs[i])
    assert all(is_cancelled(ref) for ref in refs[::2])
    support.touch(f"{folder}/hold.open")
    assert get(first) == "hold"
    assert get(refs[1::2]) == [f"{folder}/m{i}" for i in range(1, 100, 2)]
    assert not any(os.path.exists(f"{folder}/m{i}") for i in range(0, 100, 2))


def test_what_waits_for_an_argument(nodes, folder):
    actor = Holder.remote()
    ref = actor.mark.remote(f"{folder}/marked", late.remote(folder))
    behind = actor.mark.remote(f"{folder}/behind")
    assert has(folder, "late.runs")
    ray.cancel(ref)
    assert is_cancelled(ref) and get(behind)
    support.touch(f"{folder}/late.open")
    assert not os.path.exists(f"{folder}/marked")


def test_what_waits_for_its_actor(nodes, folder):
    holders = [Holder.remote() for _ in range(4)]
    get([actor.mark.remote(f"{folder}/there") for actor in holders])
    fifth = Holder.remote()  # there is no room for it yet
    ref, behind = fifth.mark.remote(f"{folder}/marked"), fifth.mark.remote(f"{folder}/behind")
    ray.cancel(ref)
    assert is_cancelled(ref)
    del holders
    assert get(behind) and not os.path.exists(f"{folder}/marked")


def test_one_that_runs_is_asked(nodes, folder):
    actor = Holder.remote()
    ref = actor.hold.remote(folder)
    assert has(folder, "hold.runs")
    ray.cancel(ref)
    assert has(folder, "hold.asked") and get(ref) == "asked"
    assert get(actor.mark.remote(f"{folder}/marked"))


def test_what_it_has_submitted(nodes, folder):
    actor = Holder.remote()
    ref = actor.nested.remote(folder)
    assert has(folder, "late.runs")
    ray.cancel(ref)
    assert has(folder, "late.broken")
    with pytest.raises(TaskCancelledError):
        get(ref)


def test_an_async_one_is_broken_off(nodes, folder):
    actor = Async.remote()
    ref = actor.hold.remote(folder)
    assert has(folder, "async.runs")
    ray.cancel(ref)
    assert is_cancelled(ref) and has(folder, "async.broken")
    assert get(actor.one.remote()) == 1


def test_by_force_is_refused(nodes, folder):
    actor = Holder.remote()
    ref = actor.hold.remote(folder)
    with pytest.raises(ValueError, match="force"):
        ray.cancel(ref, force=True)
    support.touch(f"{folder}/hold.open")
    assert get(ref) == "hold"


def test_from_a_third_node(nodes, folder):
    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def cancels(refs):
        ray.cancel(refs[0])

    actor = Holder.remote()
    first = actor.hold.remote(folder)
    second = actor.mark.remote(f"{folder}/marked")
    get(cancels.remote([second]))
    assert is_cancelled(second)
    get(cancels.remote([first]))
    assert get(first) == "asked" and not os.path.exists(f"{folder}/marked")


def test_one_whose_process_dies_is_not_run_again(nodes, folder):
    actor = Holder.options(max_restarts=-1, max_task_retries=-1, max_concurrency=2).remote()
    late_ref = actor.nested.remote(folder)
    assert has(folder, "late.runs")
    ray.cancel(late_ref, recursive=False)
    with pytest.raises((ActorDiedError, TaskCancelledError)):
        get([late_ref, actor.leave.options(max_task_retries=0).remote()])
    assert is_cancelled(late_ref)


def test_its_caller_lives_elsewhere(nodes, folder):
    """The actor lives at its home; a task of another node calls it, and cancels."""

    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def calls(actor, folder):
        first = actor.hold.remote(folder)
        second = actor.mark.remote(f"{folder}/marked")
        support.wait_for_file(f"{folder}/hold.runs")
        ray.cancel(second)
        try:
            ray.get(second, timeout=LIMIT)
        except TaskCancelledError:
            ray.cancel(first)
            return ray.get(first, timeout=LIMIT)

    actor = Holder.options(resources={}).remote()
    assert get(calls.remote(actor, folder)) == "asked"
    assert not os.path.exists(f"{folder}/marked")
