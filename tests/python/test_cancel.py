"""ray.cancel: what waits never runs, what runs is broken off, and nothing else is."""

import asyncio
import os
import random
import threading
import time

import pytest
import support

import ray
from ray.exceptions import GetTimeoutError, RayTaskError, TaskCancelledError

INIT = {"num_cpus": 2, "resources": {"special": 1}}

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(x):
    return x


@ray.remote
def mark(path):
    support.touch(path)


@ray.remote
def hold(folder, name="hold"):
    """Tells that it runs, and does so until release(); tells too how it ended."""
    try:
        support.touch(f"{folder}/{name}.runs")
        support.wait_for_file(f"{folder}/{name}.open")
    except BaseException as error:
        support.touch(f"{folder}/{name}.{type(error).__name__}")
        raise
    support.touch(f"{folder}/{name}.ended")
    return name


def has(folder, name):
    return support.wait_until(lambda: os.path.exists(f"{folder}/{name}"))


def release(folder, *names):
    for name in names:
        support.touch(f"{folder}/{name}.open")


def hold_all(folder):
    """Tasks that hold both CPUs, and run."""
    refs = [hold.remote(folder, name) for name in "ab"]
    assert has(folder, "a.runs") and has(folder, "b.runs")
    return refs


def is_cancelled(ref, timeout=30):
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=timeout)
    return True


def outcome(ref):
    """The value, or that it was cancelled."""
    try:
        return ray.get(ref, timeout=60)
    except TaskCancelledError:
        return "cancelled"


# ---- tasks that wait ----


def test_one_that_waits_for_an_argument_never_runs(folder):
    first = hold.remote(folder)
    second = echo.remote(first)
    third = mark.remote(f"{folder}/third")
    fourth = ray.remote(lambda x, path: support.touch(path)).remote(first, f"{folder}/fourth")
    ray.cancel(second)
    ray.cancel(fourth)
    assert is_cancelled(second) and is_cancelled(fourth)
    release(folder, "hold")
    assert ray.get([first, third]) == ["hold", None]
    assert ray.get(echo.remote(1)) == 1
    assert not os.path.exists(f"{folder}/fourth")


@pytest.mark.parametrize("demand", [{}, {"num_cpus": 2}, {"resources": {"special": 1}}], ids=str)
def test_one_that_waits_for_its_turn_never_runs(folder, demand):
    held = hold_all(folder)
    special = hold.options(num_cpus=0, resources={"special": 1}).remote(folder, "special")
    assert has(folder, "special.runs")
    refs = [mark.options(**demand).remote(f"{folder}/ran{i}") for i in range(100)]
    for ref in refs[10:]:
        ray.cancel(ref)
    assert all(is_cancelled(ref) for ref in refs[10:])
    release(folder, "a", "b", "special")
    ray.get([*held, special, *refs[:10]], timeout=60)
    assert ray.get(echo.remote(1)) == 1
    ran = sorted(name for name in os.listdir(folder) if name.startswith("ran"))
    assert ran == [f"ran{i}" for i in range(10)]


def test_one_that_waits_for_a_call_of_an_actor_never_runs(folder):
    @ray.remote
    class A:
        def hold(self, *args):
            return ray.get(hold.options(num_cpus=0).remote(*args))

        def mark(self, path, *waits_for):
            support.touch(path)

    a = A.remote()
    first = a.hold.remote(folder)
    missing = hold.options(num_cpus=0).remote(folder, "missing")
    refs = [a.mark.remote(f"{folder}/m{i}", *([missing] if i == 1 else [])) for i in range(5)]
    assert has(folder, "hold.runs")
    for ref in refs[0], refs[1], refs[3]:
        ray.cancel(ref)
        assert is_cancelled(ref)
    release(folder, "hold")
    assert ray.get(first) == "hold"
    # what stood behind the one whose argument is missing goes on
    assert ray.get([refs[2], refs[4]], timeout=30) == [None, None]
    release(folder, "missing")
    assert sorted(name for name in os.listdir(folder) if name[0] == "m" and len(name) == 2) == [
        "m2",
        "m4",
    ]


def test_a_call_at_the_head_that_misses_its_argument(folder):
    @ray.remote
    class A:
        def echo(self, x):
            return x

    a = A.remote()
    assert ray.get(a.echo.remote(0)) == 0
    missing = hold.options(num_cpus=0).remote(folder)
    head, behind = a.echo.remote(missing), a.echo.remote(2)
    assert has(folder, "hold.runs")
    with pytest.raises(GetTimeoutError):
        ray.get(behind, timeout=0.2)
    ray.cancel(head)
    assert ray.get(behind, timeout=30) == 2
    assert is_cancelled(head)
    release(folder, "hold")


def test_what_an_actor_that_is_not_there_yet_was_asked(folder):
    @ray.remote(resources={"special": 1})
    class A:
        def echo(self, x):
            return x

    special = hold.options(num_cpus=0, resources={"special": 1}).remote(folder)
    assert has(folder, "hold.runs")
    a = A.remote()
    refs = [a.echo.remote(i) for i in range(4)]
    ray.cancel(refs[0])
    ray.cancel(refs[2])
    assert is_cancelled(refs[0]) and is_cancelled(refs[2])
    release(folder, "hold")
    assert ray.get([special, refs[1], refs[3]], timeout=60) == ["hold", 1, 3]


# ---- tasks that run ----


def spin(started):
    support.touch(started)
    while True:
        pass


def sleep(started):
    support.touch(started)
    time.sleep(1000)


def lock(started):
    held = threading.Lock()
    held.acquire()
    support.touch(started)
    held.acquire()


def power(started):
    """In one call of C, which looks at signals."""
    support.touch(started)
    return 3**500_000_000


def get(started):
    support.touch(started)
    return ray.get(hold.options(num_cpus=0).remote(os.path.dirname(started), "inner"))


def wait(started):
    ref = hold.options(num_cpus=0).remote(os.path.dirname(started), "inner")
    support.touch(started)
    return ray.wait([ref])


def loop(started):
    async def main():
        support.touch(started)
        await asyncio.sleep(1000)

    asyncio.run(main())


@pytest.mark.parametrize("what", [spin, sleep, lock, power, get, wait, loop])
def test_one_that_runs_is_broken_off(folder, what):
    ref = ray.remote(what).remote(f"{folder}/started")
    assert has(folder, "started")
    ray.cancel(ref)
    assert is_cancelled(ref)
    release(folder, "inner")


def test_it_gets_a_keyboard_interrupt(folder):
    ref = hold.remote(folder)
    assert has(folder, "hold.runs")
    ray.cancel(ref)
    assert is_cancelled(ref)
    assert has(folder, "hold.KeyboardInterrupt")


def test_it_may_clear_up_and_is_not_interrupted_again(folder):
    @ray.remote
    def stubborn(folder):
        times = 0
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                support.touch(f"{folder}/started")
                support.wait_for_file(f"{folder}/open")
                return times
            except KeyboardInterrupt:
                times += 1
                support.touch(f"{folder}/interrupted")

    ref = stubborn.remote(folder)
    assert has(folder, "started")
    ray.cancel(ref)
    assert has(folder, "interrupted")
    for _ in range(5):
        ray.cancel(ref)
        time.sleep(0.02)
    support.touch(f"{folder}/open")
    assert ray.get(ref) == 1


def test_an_interrupt_of_its_own_is_an_error_of_its_own():
    @ray.remote
    def raises():
        raise KeyboardInterrupt

    with pytest.raises(RayTaskError):
        ray.get(raises.remote())


def test_several_results():
    sleeps = ray.remote(num_returns=3)(time.sleep)
    refs = sleeps.remote(1000)
    ray.cancel(refs[1])
    assert all(is_cancelled(ref) for ref in refs)


@pytest.mark.parametrize("force", [False, True])
def test_it_is_never_run_again(folder, force):
    @ray.remote(max_retries=5, retry_exceptions=True)
    def runs(folder):
        support.touch(f"{folder}/run-{time.monotonic_ns()}")
        time.sleep(1000)

    ref = runs.remote(folder)
    assert support.wait_until(lambda: len(os.listdir(folder)) == 1)
    ray.cancel(ref, force=force)
    assert is_cancelled(ref)
    assert ray.get([echo.remote(i) for i in range(4)]) == [0, 1, 2, 3]
    assert len(os.listdir(folder)) == 1


def test_another_error_after_the_interrupt_is_not_retried(folder):
    @ray.remote(max_retries=5, retry_exceptions=True)
    def fails(folder):
        try:
            support.touch(f"{folder}/run-{time.monotonic_ns()}")
            time.sleep(1000)
        except KeyboardInterrupt:
            raise ValueError("while it was cancelled") from None

    ref = fails.remote(folder)
    assert support.wait_until(lambda: len(os.listdir(folder)) == 1)
    ray.cancel(ref)
    with pytest.raises(ValueError, match="while it was cancelled"):
        ray.get(ref, timeout=30)
    assert len(os.listdir(folder)) == 1


def test_by_force_the_worker_dies_and_nothing_else(folder):
    @ray.remote
    def deaf(folder):
        while True:
            try:
                with open(f"{folder}/pid.part", "w") as file:
                    file.write(str(os.getpid()))
                os.rename(f"{folder}/pid.part", f"{folder}/pid")
                time.sleep(1000)
            except KeyboardInterrupt:
                pass

    ref = deaf.remote(folder)
    others = [echo.options(max_retries=0).remote(i) for i in range(50)]
    assert has(folder, "pid")
    with open(f"{folder}/pid") as file:
        worker = int(file.read())
    ray.cancel(ref)
    ray.cancel(ref, force=True)
    assert is_cancelled(ref)
    assert ray.get(others, timeout=60) == list(range(50))
    assert support.wait_until(lambda: not support.alive(worker))


# ---- children ----


@ray.remote
def parent(folder, depth=1):
    support.touch(f"{folder}/parent{depth}.runs")
    if depth == 0:
        return ray.get(hold.options(num_cpus=0).remote(folder, "leaf"))
    more = parent.options(num_cpus=0).remote(folder, depth - 1)
    blocked = mark.options(resources={"special": 1}).remote(f"{folder}/blocked{depth}")
    return ray.get([more, blocked])


@pytest.mark.parametrize("force", [False, True])
def test_children_are_cancelled_too(folder, force):
    special = hold.options(num_cpus=0, resources={"special": 1}).remote(folder, "special")
    assert has(folder, "special.runs")
    other = hold.options(num_cpus=0).remote(folder, "other")
    ref = parent.remote(folder, 2)
    assert has(folder, "leaf.runs") and has(folder, "other.runs")
    ray.cancel(ref, force=force)
    assert is_cancelled(ref)
    if not force:
        assert has(folder, "leaf.KeyboardInterrupt")
    release(folder, "special", "other")
    assert ray.get([special, other]) == ["special", "other"]
    assert ray.get(echo.options(resources={"special": 1}).remote(1)) == 1
    assert not [name for name in os.listdir(folder) if name.startswith("blocked")]
    release(folder, "leaf")


def test_children_are_left_alone_if_asked(folder):
    @ray.remote
    def outer(folder):
        ref = hold.options(num_cpus=0).remote(folder, "child")
        return ray.get(ref)

    ref = outer.remote(folder)
    assert has(folder, "child.runs")
    ray.cancel(ref, recursive=False)
    assert is_cancelled(ref)
    release(folder, "child")
    assert has(folder, "child.ended")


def test_children_of_an_earlier_task_of_the_same_worker_go_on(folder):
    @ray.remote
    def submits(folder, name):
        return [hold.options(num_cpus=0).remote(folder, name)]

    @ray.remote
    def waits(folder):
        support.touch(f"{folder}/waits.runs")
        ray.get(hold.options(num_cpus=0).remote(folder, "second"))

    other = hold.remote(folder, "cpu")  # leaves one worker for the others, one after the other
    assert has(folder, "cpu.runs")
    (child,) = ray.get(submits.remote(folder, "first"))
    assert has(folder, "first.runs")
    ref = waits.remote(folder)
    assert has(folder, "second.runs")
    ray.cancel(ref)
    assert is_cancelled(ref)
    assert has(folder, "second.KeyboardInterrupt")
    release(folder, "first", "cpu")
    assert ray.get([child, other]) == ["first", "cpu"]


def test_what_a_run_submits_until_it_is_broken_off(folder):
    @ray.remote
    def busy(folder):
        support.touch(f"{folder}/busy.runs")
        refs = []
        while True:
            refs.append(mark.options(resources={"special": 1}).remote(f"{folder}/late"))

    special = hold.options(num_cpus=0, resources={"special": 1}).remote(folder, "special")
    assert has(folder, "special.runs")
    ref = busy.remote(folder)
    assert has(folder, "busy.runs")
    time.sleep(0.1)
    ray.cancel(ref)
    assert is_cancelled(ref)
    release(folder, "special")
    assert ray.get(special) == "special"
    assert ray.get(echo.options(resources={"special": 1}).remote(1), timeout=60) == 1
    assert not os.path.exists(f"{folder}/late")


# ---- actors ----


class Sync:
    def hold(self, folder, name="hold"):
        support.touch(f"{folder}/{name}.runs")
        seen = lambda: (  # noqa: E731
            ray.get_runtime_context().is_canceled() or os.path.exists(f"{folder}/{name}.open")
        )
        assert support.wait_until(seen, 60)
        return ray.get_runtime_context().is_canceled()


@pytest.mark.parametrize("threads", [1, 4])
def test_methods_ask(folder, threads):
    a = ray.remote(Sync).options(max_concurrency=threads).remote()
    refs = [a.hold.remote(folder, name) for name in "ab"]
    assert has(folder, "a.runs")
    if threads > 1:
        assert has(folder, "b.runs")
    ray.cancel(refs[0])
    assert ray.get(refs[0]) is True
    assert has(folder, "b.runs")
    release(folder, "b")
    assert ray.get(refs[1]) is False


def test_tasks_may_ask_too():
    @ray.remote
    def asks():
        return ray.get_runtime_context().is_canceled()

    assert ray.get(asks.remote()) is False
    assert ray.get_runtime_context().is_canceled() is False


class Async:
    async def hold(self, folder, name="hold", catch=False):
        try:
            support.touch(f"{folder}/{name}.runs")
            while not os.path.exists(f"{folder}/{name}.open"):
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            support.touch(f"{folder}/{name}.cancelled")
            if not catch:
                raise
            return "caught"
        return name

    async def get(self, folder):
        return await hold.options(num_cpus=0).remote(folder, "child")

    async def asks(self):
        return ray.get_runtime_context().is_canceled()

    def block(self, folder):
        support.touch(f"{folder}/block.runs")
        support.wait_for_file(f"{folder}/block.open")


def test_async_methods_get_a_cancelled_error(folder):
    a = ray.remote(Async).remote()
    refs = [a.hold.remote(folder, name) for name in "abc"]
    caught = a.hold.remote(folder, "caught", True)
    assert all(has(folder, f"{name}.runs") for name in ["a", "b", "c", "caught"])
    ray.cancel(refs[1])
    ray.cancel(caught)
    assert is_cancelled(refs[1]) and has(folder, "b.cancelled")
    assert ray.get(caught) == "caught"
    release(folder, "a", "c")
    assert ray.get([refs[0], refs[2]]) == ["a", "c"]
    with pytest.raises(RuntimeError, match="async"):
        ray.get(a.asks.remote())


def test_an_async_call_that_has_not_begun(folder):
    a = ray.remote(Async).remote()
    block = a.block.remote(folder)
    assert has(folder, "block.runs")
    refs = [a.hold.remote(folder, f"early{i}") for i in range(20)]
    for ref in refs:
        ray.cancel(ref)
    support.touch(f"{folder}/block.open")
    assert ray.get(block) is None
    assert all(is_cancelled(ref) for ref in refs)
    release(folder, "late")
    assert ray.get(a.hold.remote(folder, "late")) == "late"


def test_children_of_async_calls(folder):
    a = ray.remote(Async).remote()
    other = a.hold.remote(folder, "other")
    ref = a.get.remote(folder)
    assert has(folder, "child.runs") and has(folder, "other.runs")
    ray.cancel(ref)
    assert is_cancelled(ref)
    assert has(folder, "child.KeyboardInterrupt")
    release(folder, "other")
    assert ray.get(other) == "other"


def test_no_force_on_a_call(folder):
    a = ray.remote(Sync).remote()
    ref, behind = a.hold.remote(folder), a.hold.remote(folder, "behind")
    assert has(folder, "hold.runs")
    for call in ref, behind:
        with pytest.raises(ValueError, match="force=True is not supported for actor tasks"):
            ray.cancel(call, force=True)
    release(folder, "hold", "behind")
    assert ray.get([ref, behind]) == [False, False]


# ---- what is no task, or none any more ----


def test_nothing_happens_to_what_is_there():
    for ref in ray.put(1), echo.remote(1):
        assert ray.get(ref) == 1
        for force in False, True:
            assert ray.cancel(ref, force=force) is None
        assert ray.get(ref) == 1


def test_twice(folder):
    ref, waits = hold.remote(folder), hold.remote(folder, "waits")
    for _ in range(3):
        ray.cancel(ref)
        ray.cancel(waits)
    assert is_cancelled(ref) and is_cancelled(waits)
    ray.cancel(ref)


@pytest.mark.parametrize("bad", [1, None, "ref", [], echo])
def test_what_is_no_ref(bad):
    with pytest.raises(TypeError, match=r"only supported for object refs. Got: <class"):
        ray.cancel(bad)


def test_a_handle_is_no_ref():
    a = ray.remote(Sync).remote()
    with pytest.raises(TypeError, match="only supported for object refs"):
        ray.cancel(a)


def test_the_error_names_the_task(folder):
    held = hold_all(folder)
    ref = mark.remote(f"{folder}/x")
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError) as waited:
        ray.get(ref)
    ray.cancel(held[0])
    with pytest.raises(TaskCancelledError) as ran:
        ray.get(held[0])
    release(folder, "b")
    for error, name in (waited.value, "mark"), (ran.value, "hold"):
        assert str(error).startswith(f"Task: {error.task_id!r} was cancelled. {name}")
        assert isinstance(error.task_id, ray.TaskID)
        copy = ray.get(ray.put(error))
        assert str(copy) == str(error) and copy.task_id == error.task_id


def test_who_needs_the_result_fails_with_it(folder):
    first = hold.remote(folder)
    second = echo.options(num_cpus=0).remote(first)
    third = echo.options(num_cpus=0).remote(second)
    assert has(folder, "hold.runs")
    ray.cancel(first)
    assert is_cancelled(first) and is_cancelled(second) and is_cancelled(third)

    @ray.remote
    def asks(refs):
        return ray.get(refs[0])

    assert is_cancelled(asks.remote([first]))


def test_another_process_may_cancel(folder):
    @ray.remote(num_cpus=0)
    def cancels(refs):
        for ref in refs:
            ray.cancel(ref)

    refs = [hold.remote(folder, f"r{i}") for i in range(4)]
    assert ray.get(cancels.remote(refs)) is None
    assert all(is_cancelled(ref) for ref in refs)


# ---- races ----


@ray.remote
def short(i):
    return i


def test_each_ends_as_a_value_or_cancelled():
    pids = {ray.get(ray.remote(os.getpid).remote()) for _ in range(20)}
    refs, victims = [], []
    for i in range(10_000):
        refs.append(short.remote(i))
        if random.random() < 0.5:
            victim = random.randrange(max(0, i - 200), i + 1)
            victims.append(victim)
            ray.cancel(refs[victim])
    found = [outcome(ref) for ref in refs]
    victims = set(victims)
    for i, value in enumerate(found):
        assert value == i or (value == "cancelled" and i in victims), i
    assert all(support.alive(pid) for pid in pids)


@pytest.mark.parametrize("retries", [0, 3])
def test_the_next_task_is_never_hit(retries):
    """Each second task is cancelled while it runs or just after; those between them must not be."""

    @ray.remote(max_retries=retries, retry_exceptions=retries > 0)
    def work(i):
        end = time.perf_counter() + 0.0002
        while time.perf_counter() < end:
            pass
        return i

    end = time.monotonic() + 3
    count = cancelled = 0
    while time.monotonic() < end:
        refs = [work.remote(i) for i in range(8)]
        time.sleep(random.random() * 0.002)
        for ref in refs[::2]:
            ray.cancel(ref)
        found = [outcome(ref) for ref in refs]
        assert found[1::2] == [1, 3, 5, 7]
        assert all(value in (i, "cancelled") for i, value in enumerate(found))
        count += 4
        cancelled += found.count("cancelled")
    assert 0 < cancelled < count  # else the moments were ill chosen


def test_by_force_the_next_task_is_never_hit():
    @ray.remote(max_retries=0)
    def work(i):
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
        return i

    for _ in range(60):
        refs = [work.remote(i) for i in range(6)]
        time.sleep(random.random() * 0.003)
        for ref in refs[::2]:
            ray.cancel(ref, force=True)
        found = [outcome(ref) for ref in refs]
        assert found[1::2] == [1, 3, 5]
        assert all(value in (i, "cancelled") for i, value in enumerate(found))


def test_calls_of_an_async_actor():
    class Short:
        async def work(self, i):
            await asyncio.sleep(0)
            return i

    a = ray.remote(Short).remote()
    for _ in range(100):
        refs = [a.work.remote(i) for i in range(40)]
        for ref in refs[::2]:
            ray.cancel(ref)
        found = [outcome(ref) for ref in refs]
        assert found[1::2] == list(range(1, 40, 2))
        assert all(value in (i, "cancelled") for i, value in enumerate(found))


def test_ten_thousand_that_wait(folder):
    held = hold_all(folder)
    refs = [mark.remote(f"{folder}/ran{i}") for i in range(10_000)]
    for ref in reversed(refs):
        ray.cancel(ref)
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=60)
    assert len(ready) == len(refs)
    assert all(is_cancelled(ref) for ref in random.sample(refs, 100))
    release(folder, "a", "b")
    ray.get(held)
    assert ray.get(echo.remote(1)) == 1
    assert not [name for name in os.listdir(folder) if name.startswith("ran")]
