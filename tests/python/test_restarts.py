"""Actors that are restarted: which deaths lead to one, and what becomes of their calls."""

import asyncio
import os
import signal
import sys
import time

import pytest
import support

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError

INIT = {"num_cpus": 4, "num_gpus": 2}
pytestmark = pytest.mark.usefixtures("cluster")


class Plain:
    """Counts its calls, which are gone after a restart."""

    def __init__(self, *args):
        self.count = 0
        self.args = args

    def add(self):
        self.count += 1
        return self.count

    def pid(self):
        return os.getpid()

    def given(self):
        return self.args

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed

    def wait_for(self, path, note=None):
        if note is not None:
            append_line(note, str(os.getpid()))
        while not os.path.exists(path):
            time.sleep(0.002)
        return os.getpid()

    def append(self, path, line):
        append_line(path, line)
        return line

    def leave(self, how, *args):
        how(*args)


class Async(Plain):
    async def wait_for(self, path, note=None):
        if note is not None:
            append_line(note, str(os.getpid()))
        while not os.path.exists(path):
            await asyncio.sleep(0.002)
        return os.getpid()


def append_line(path, line):
    """A line is there whole, or not at all: a kill can cut a write in two only between pages."""
    assert len(line) < 16
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line:<15}\n".encode())
    os.close(handle)


def lines(path):
    return open(path).read().split() if os.path.exists(path) else []


def make(kind="plain", *args, **options):
    if kind == "threads":
        options["max_concurrency"] = 4
    return ray.remote(Async if kind == "async" else Plain).options(**options).remote(*args)


def kill(pid):
    """kill -9, and waits until the process is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not support.alive(pid))


def wait_until(condition):
    assert support.wait_until(condition)


def state(actor):
    """(state, num_restarts, cause) as the daemon tells."""
    ref = actor._actor_id.hex()
    for slot, generation, _, word, _, restarts, cause, *_ in ray._core.query("actors"):
        if ref.endswith(f"{slot:08x}{generation:016x}"):
            return word, restarts, cause
    return None


KINDS = pytest.mark.parametrize("kind", ["plain", "threads", "async"])


@KINDS
def test_an_idle_actor_is_restarted_fresh(kind):
    actor = make(kind, 7, max_restarts=2)
    assert ray.get([actor.add.remote() for _ in range(3)]) == [1, 2, 3]
    assert ray.get(actor.restarted.remote()) is False
    pid = ray.get(actor.pid.remote())
    kill(pid)
    assert ray.get(actor.add.remote()) == 1
    assert ray.get(actor.restarted.remote()) is True
    assert ray.get(actor.given.remote()) == (7,)
    assert ray.get(actor.pid.remote()) != pid
    assert state(actor) == ("ALIVE", 1, "")


@KINDS
def test_the_running_call_fails_and_the_others_wait(kind, folder):
    actor = make(kind, max_restarts=1, **({"max_concurrency": 1} if kind == "async" else {}))
    gate, note = f"{folder}/gate", f"{folder}/note"
    running = actor.wait_for.remote(gate, note)
    wait_until(lambda: len(lines(note)) == 1)
    if kind == "threads":
        ray.get(actor.add.remote())
        later = []
    else:
        later = [actor.add.remote() for _ in range(5)]
    pid = int(lines(note)[0])
    kill(pid)
    with pytest.raises(ActorUnavailableError) as info:
        ray.get(running, timeout=40)
    error = info.value
    assert isinstance(error, RayActorError) and error.actor_id == actor._actor_id.hex()
    for word in (error.actor_id, "Plain" if kind != "async" else "Async", f"pid {pid}", "signal 9"):
        assert word in str(error)
    assert "may or may not have been executed" in str(error)
    later += [actor.add.remote() for _ in range(3)]
    assert ray.get(later, timeout=40) == list(range(1, len(later) + 1))


@KINDS
@pytest.mark.parametrize("retries", [1, -1])
def test_a_running_call_is_retried(kind, retries, folder):
    actor = make(kind, max_restarts=-1, max_task_retries=retries)
    gate, note = f"{folder}/gate", f"{folder}/note"
    running = actor.wait_for.remote(gate, note)
    wait_until(lambda: len(lines(note)) == 1)
    kill(int(lines(note)[0]))
    wait_until(lambda: len(lines(note)) == 2)
    support.touch(gate)
    assert ray.get(running, timeout=40) == int(lines(note)[1])


def test_retries_are_counted(folder):
    actor = make(max_restarts=-1, max_task_retries=2)
    gate, note = f"{folder}/gate", f"{folder}/note"
    running = actor.wait_for.remote(gate, note)
    for times in range(1, 4):
        wait_until(lambda times=times: len(lines(note)) == times)
        kill(int(lines(note)[-1]))
    with pytest.raises(ActorUnavailableError):
        ray.get(running, timeout=40)
    assert len(lines(note)) == 3
    assert ray.get(actor.add.remote()) == 1


def test_a_method_has_its_own_retries(folder):
    @ray.remote(max_restarts=-1, max_task_retries=5)
    class Own(Plain):
        @ray.method(max_task_retries=0)
        def once(self, gate, note):
            return self.wait_for(gate, note)

    actor = Own.remote()
    for method, path in (
        (actor.once, "a"),
        (actor.wait_for.options(max_task_retries=0), "b"),
    ):
        note = f"{folder}/{path}"
        running = method.remote(f"{folder}/gate", note)
        wait_until(lambda note=note: len(lines(note)) == 1)
        kill(int(lines(note)[0]))
        with pytest.raises(ActorUnavailableError):
            ray.get(running, timeout=40)
    note = f"{folder}/c"
    running = actor.once.options(max_task_retries=1).remote(f"{folder}/gate", note)
    wait_until(lambda: len(lines(note)) == 1)
    kill(int(lines(note)[0]))
    support.touch(f"{folder}/gate")
    assert ray.get(running, timeout=40) == int(lines(note)[1])


def test_a_retried_call_comes_before_the_ones_after_it(folder):
    actor = make(max_restarts=-1, max_task_retries=-1)
    gate, note, log = f"{folder}/gate", f"{folder}/note", f"{folder}/log"

    @ray.remote
    def caller(actor, name):
        import ray

        calls = [actor.append.remote(log, f"{name}-{i}") for i in range(200)]
        ray.get(calls)
        return name

    before = [actor.append.remote(log, f"d-{i}") for i in range(5)]
    running = actor.wait_for.remote(gate, note)
    after = [actor.append.remote(log, f"d-{i}") for i in range(5, 200)]
    others = [caller.remote(actor, name) for name in "ab"]
    ray.get(before)
    for times in (1, 2):
        wait_until(lambda times=times: len(lines(note)) == times)
        time.sleep(0.05)
        kill(int(lines(note)[-1]))
    wait_until(lambda: len(lines(note)) == 3)
    assert len([line for line in lines(log) if line.startswith("d-")]) == 5
    support.touch(gate)
    ray.get([running, *after, *others], timeout=60)
    found = lines(log)
    for name in "dab":
        mine = [int(line[2:]) for line in found if line[0] == name]
        assert list(dict.fromkeys(mine)) == list(range(200))
    assert len(found) == 600  # nothing that had ended was run again


@pytest.mark.parametrize("kind", ["plain", "threads", "async"])
@pytest.mark.parametrize("retries", [0, -1])
def test_calls_under_kills(kind, retries, folder):
    """Without retries: no call runs twice; what succeeded ran once, and what never began runs."""
    log, over = f"{folder}/log", f"{folder}/over"
    actor = make(kind, max_restarts=-1, max_task_retries=retries)

    @ray.remote
    def caller(actor, name):
        import ray

        outcomes = []
        while not os.path.exists(over):
            first = len(outcomes)
            calls = [actor.append.remote(log, f"{name}-{first + i}") for i in range(100)]
            for call in calls:
                try:
                    ray.get(call)
                    outcomes.append(True)
                except ray.exceptions.ActorUnavailableError:
                    outcomes.append(False)
        return outcomes

    names, kills = "abc", 12
    calling = [caller.remote(actor, name) for name in names]
    for _ in range(kills):
        pid = ray.get(actor.pid.options(max_task_retries=-1).remote())
        time.sleep(0.01)
        kill(pid)
    support.touch(over)
    found = ray.get(calling, timeout=100)
    assert state(actor)[:2] == ("ALIVE", kills)
    ran = lines(log)
    if retries == 0:
        assert len(ran) == len(set(ran))
    failures = 0
    for name, outcomes in zip(names, found):
        mine = [int(line[2:]) for line in ran if line[0] == name]
        first = list(dict.fromkeys(mine))
        if kind == "plain":
            assert first == sorted(first)  # in the caller's order
        assert {i for i, good in enumerate(outcomes) if good} <= set(mine)
        failures += outcomes.count(False)
    # only what was begun fails: as many calls as the actor runs at once, at each death
    assert failures <= (0 if retries else kills * {"plain": 1, "threads": 4, "async": 1000}[kind])


def test_restarts_that_are_used_up():
    actor = make(max_restarts=2)
    for _ in range(2):
        kill(ray.get(actor.pid.remote()))
    kill(ray.get(actor.pid.remote()))
    with pytest.raises(ActorDiedError, match="restarted 2 times, as often as max_restarts allows"):
        ray.get(actor.add.remote(), timeout=40)
    word, restarts, cause = state(actor)
    assert (word, restarts) == ("DEAD", 2) and "signal 9" in cause


def test_no_restarts_by_default(folder):
    actor = make()
    running = actor.wait_for.remote(f"{folder}/gate", f"{folder}/note")
    wait_until(lambda: len(lines(f"{folder}/note")) == 1)
    later = actor.add.remote()
    kill(int(lines(f"{folder}/note")[0]))
    for ref in (running, later):
        with pytest.raises(ActorDiedError, match="node_id: [0-9a-f]{16}"):
            ray.get(ref, timeout=40)


def test_kill_with_and_without_a_restart(folder):
    actor = make(max_restarts=1)
    pid = ray.get(actor.pid.remote())
    ray.kill(actor, no_restart=False)
    assert ray.get(actor.pid.remote(), timeout=40) != pid
    assert ray.get(actor.restarted.remote()) and state(actor)[:2] == ("ALIVE", 1)
    ray.kill(actor, no_restart=False)
    with pytest.raises(ActorDiedError, match="killed by ray.kill"):
        ray.get(actor.pid.remote(), timeout=40)
    endless = make(max_restarts=-1, max_task_retries=-1)
    running = endless.wait_for.remote(f"{folder}/never", f"{folder}/note")
    waiting = [endless.add.remote() for _ in range(3)]
    wait_until(lambda: len(lines(f"{folder}/note")) == 1)
    ray.kill(endless)
    for ref in (running, *waiting, endless.add.remote()):
        with pytest.raises(ActorDiedError, match="killed by ray.kill"):
            ray.get(ref, timeout=40)
    assert state(endless)[0] == "DEAD"


@pytest.mark.parametrize(
    "how, comes_back",
    [
        ((sys.exit, 0), False),
        ((sys.exit,), False),
        ((ray.actor.exit_actor,), False),
        ((sys.exit, 3), True),
        ((os._exit, 0), True),
        ((os.abort,), True),
    ],
    ids=["exit 0", "exit", "exit_actor", "exit 3", "_exit", "abort"],
)
@KINDS
def test_ends_on_purpose_are_for_good(kind, how, comes_back):
    actor = make(kind, max_restarts=-1)
    with pytest.raises(ActorUnavailableError if comes_back else ActorDiedError):
        ray.get(actor.leave.remote(*how), timeout=40)
    if comes_back:
        assert ray.get(actor.add.remote(), timeout=40) == 1
    else:
        with pytest.raises(ActorDiedError):
            ray.get(actor.add.remote(), timeout=40)


@ray.remote
class Fragile:
    """Its constructor does what a file says, and notes that it ran."""

    def __init__(self, folder):
        append_line(f"{folder}/made", str(os.getpid()))
        how = (lines(f"{folder}/how") or ["good"])[0]
        if how == "raise":
            raise ValueError("no second life")
        if how == "crash":
            os._exit(5)
        while how == "wait" and not os.path.exists(f"{folder}/gate"):
            time.sleep(0.002)

    def pid(self):
        return os.getpid()


def test_a_constructor_that_raises_at_the_restart(folder, capfd):
    actor = Fragile.options(max_restarts=-1).remote(folder)
    pid = ray.get(actor.pid.remote())
    append_line(f"{folder}/how", "raise")
    kill(pid)
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="ValueError: no second life") as info:
            ray.get(actor.pid.remote(), timeout=40)
        assert info.value.actor_init_failed and info.value.actor_id == actor._actor_id.hex()
    assert len(lines(f"{folder}/made")) == 2
    wait_until(lambda: "Exception raised in creation task" in capfd.readouterr().err)


def test_a_constructor_that_raises_at_first_is_not_tried_again(folder):
    append_line(f"{folder}/how", "raise")
    actor = Fragile.options(max_restarts=-1).remote(folder)
    with pytest.raises(ActorDiedError, match="no second life"):
        ray.get(actor.pid.remote(), timeout=40)
    assert len(lines(f"{folder}/made")) == 1


def test_a_process_that_dies_in_the_constructor(folder):
    append_line(f"{folder}/how", "crash")
    actor = Fragile.options(max_restarts=3).remote(folder)
    with pytest.raises(ActorDiedError, match="code 5"):
        ray.get(actor.pid.remote(), timeout=40)
    assert len(lines(f"{folder}/made")) == 4
    os.unlink(f"{folder}/how")
    append_line(f"{folder}/how", "wait")
    actor = Fragile.options(max_restarts=1).remote(folder)
    call = actor.pid.remote()
    wait_until(lambda: len(lines(f"{folder}/made")) == 5)
    kill(int(lines(f"{folder}/made")[-1]))
    support.touch(f"{folder}/gate")
    assert ray.get(call, timeout=40) == int(lines(f"{folder}/made")[-1])
    # once more, now that it was made: this restart's constructor may die too
    os.unlink(f"{folder}/gate")
    actor = Fragile.options(max_restarts=2).remote(folder)
    support.touch(f"{folder}/gate")
    pid = ray.get(actor.pid.remote())
    os.unlink(f"{folder}/gate")
    kill(pid)
    call = actor.pid.remote()
    wait_until(lambda: len(lines(f"{folder}/made")) == 8)
    kill(int(lines(f"{folder}/made")[-1]))
    support.touch(f"{folder}/gate")
    assert ray.get(call, timeout=40) == int(lines(f"{folder}/made")[-1])


@pytest.mark.parametrize("how", ["kill", "release", "kill process"])
def test_what_happens_while_it_is_restarted(folder, how):
    actor = Fragile.options(max_restarts=2).remote(folder)
    pid = ray.get(actor.pid.remote())
    append_line(f"{folder}/how", "wait")
    kill(pid)
    call = actor.pid.remote()
    wait_until(lambda: len(lines(f"{folder}/made")) == 2)
    assert state(actor)[:2] == ("RESTARTING", 1)
    second = int(lines(f"{folder}/made")[1])
    if how == "kill":
        ray.kill(actor)
        with pytest.raises(ActorDiedError, match="killed by ray.kill"):
            ray.get(call, timeout=40)
    elif how == "release":
        ref, actor = actor._actor_id.hex(), None
        support.touch(f"{folder}/gate")
        assert ray.get(call, timeout=40) == second  # and then it ends
        del ref
    else:
        ray.kill(actor, no_restart=False)
        support.touch(f"{folder}/gate")
        assert ray.get(call, timeout=40) == int(lines(f"{folder}/made")[2])
        assert state(actor) == ("ALIVE", 2, "")
        return
    wait_until(lambda: not support.alive(second))
    assert len(lines(f"{folder}/made")) == 2


def test_a_dead_actor_without_handles_is_not_restarted(folder):
    actor = Fragile.options(max_restarts=-1).remote(folder)
    pid = ray.get(actor.pid.remote())
    del actor
    wait_until(lambda: not support.alive(pid))
    assert lines(f"{folder}/made") == [str(pid)]


def test_arguments_outlive_their_owner(folder):
    import gc

    import numpy

    big = ray.put(numpy.arange(100_000))
    actor = make("plain", big, [ray.put("inner")], numpy.ones(50_000), max_restarts=-1)
    pid = ray.get(actor.pid.remote())
    del big
    gc.collect()
    for _ in range(2):
        kill(pid)
        array, (inner,), ones = ray.get(actor.given.remote(), timeout=40)
        assert array.sum() == sum(range(100_000)) and ones.sum() == 50_000
        assert ray.get(inner) == "inner"
        pid = ray.get(actor.pid.remote())


def test_an_actor_whose_maker_is_dead(folder):
    @ray.remote(max_retries=0, max_calls=1)
    def maker(note):
        import ray

        restartable = ray.remote(Plain).options(max_restarts=-1)
        # as an object, as a reference, and in the record's own block
        made = restartable.remote("x" * 100_000, ray.put("kept"), "y" * 10_000)
        assert ray.get(made.add.remote()) == 1
        append_line(note, str(os.getpid()))
        return [made]

    (actor,) = ray.get(maker.remote(f"{folder}/note"))
    wait_until(lambda: not support.alive(int(lines(f"{folder}/note")[0])))
    for _ in range(3):
        kill(ray.get(actor.pid.remote()))
        assert ray.get(actor.add.remote(), timeout=40) == 1
        assert ray.get(actor.given.remote()) == ("x" * 100_000, "kept", "y" * 10_000)


def test_a_caller_that_dies_while_the_actor_is_restarted(folder):
    actor = Fragile.options(max_restarts=-1).remote(folder)
    log = make(max_restarts=0)

    @ray.remote(max_retries=0)
    def caller(actor, log, note):
        import ray

        refs = [actor.pid.remote() for _ in range(20)]
        append_line(note, str(os.getpid()))
        ray.get(refs)

    pid = ray.get(actor.pid.remote())
    append_line(f"{folder}/how", "wait")
    kill(pid)
    calling = caller.remote(actor, log, f"{folder}/note")
    wait_until(lambda: len(lines(f"{folder}/note")) == 1)
    os.kill(int(lines(f"{folder}/note")[0]), signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(calling, timeout=40)
    support.touch(f"{folder}/gate")
    assert ray.get(actor.pid.remote(), timeout=40) == int(lines(f"{folder}/made")[1])


class Raises:
    def __init__(self):
        self.times = 0

    def _fail(self, kind, until):
        self.times += 1
        if self.times < until:
            raise kind(f"time {self.times}")
        times, self.times = self.times, 0
        return times

    @ray.method(max_task_retries=3, retry_exceptions=True)
    def any(self, kind, until):
        return self._fail(kind, until)

    @ray.method(max_task_retries=3, retry_exceptions=[KeyError, OSError])
    def some(self, kind, until):
        return self._fail(kind, until)

    def plain(self, kind, until):
        return self._fail(kind, until)

    def reset(self):
        times, self.times = self.times, 0
        return times


class AsyncRaises(Raises):
    async def pause(self):
        pass


@KINDS
def test_exceptions_are_retried(kind):
    target = ray.remote(AsyncRaises if kind == "async" else Raises)
    actor = (target.options(max_concurrency=3) if kind == "threads" else target).remote()
    assert ray.get(actor.any.remote(ValueError, 4), timeout=40) == 4
    with pytest.raises(ValueError, match="time 4"):
        ray.get(actor.any.remote(ValueError, 9), timeout=40)
    assert ray.get(actor.reset.remote()) == 4
    assert ray.get(actor.some.remote(FileNotFoundError, 3), timeout=40) == 3
    with pytest.raises(ValueError, match="time 1"):
        ray.get(actor.some.remote(ValueError, 3), timeout=40)
    assert ray.get(actor.reset.remote()) == 1
    with pytest.raises(ValueError, match="time 1"):
        ray.get(actor.plain.remote(ValueError, 3), timeout=40)
    assert ray.get(actor.reset.remote()) == 1
    often = actor.plain.options(max_task_retries=-1, retry_exceptions=[ValueError])
    assert ray.get(often.remote(ValueError, 50), timeout=40) == 50
    assert ray.get(actor.any.options(max_task_retries=1).remote(ValueError, 2), timeout=40) == 2
    none = actor.any.options(retry_exceptions=False)
    with pytest.raises(ValueError, match="time 1"):
        ray.get(none.remote(ValueError, 2), timeout=40)


def test_a_call_that_is_retried_keeps_its_place(folder):
    @ray.remote(max_task_retries=5)
    class Careful:
        def __init__(self):
            self.tries = 0

        @ray.method(retry_exceptions=True)
        def third_time(self, path):
            self.tries += 1
            append_line(path, f"try-{self.tries}")
            if self.tries % 3:
                raise ValueError("again")

        def append(self, path, line):
            append_line(path, line)

    actor = Careful.remote()
    log, calls, expected = f"{folder}/log", [], []
    for i in range(30):
        calls += [actor.third_time.remote(log), actor.append.remote(log, f"then-{i}")]
        expected += [f"try-{3 * i + k}" for k in (1, 2, 3)] + [f"then-{i}"]
    ray.get(calls, timeout=40)
    assert lines(log) == expected


def test_an_actor_that_is_released_finishes_retries(folder):
    actor = ray.remote(Raises).options(max_restarts=-1).remote()
    results = [actor.any.remote(ValueError, 3) for _ in range(20)]
    del actor
    assert ray.get(results, timeout=40) == [3] * 20


@pytest.mark.parametrize("results", [0, 2])
def test_retries_with_other_numbers_of_results(folder, results):
    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Many(Plain):
        @ray.method(num_returns=results)
        def many(self, gate, note):
            self.wait_for(gate, note)
            return list(range(results))

    actor = Many.remote()
    gate, note = f"{folder}/gate", f"{folder}/note"
    refs = actor.many.remote(gate, note)
    wait_until(lambda: len(lines(note)) == 1)
    kill(int(lines(note)[0]))
    support.touch(gate)
    assert ray.get(actor.add.remote(), timeout=40) == 1
    assert len(lines(note)) == 2
    assert refs is None if results == 0 else ray.get(refs) == list(range(results))


def test_resources_come_back():
    actors = [make(max_restarts=-1, num_cpus=1) for _ in range(4)]
    pids = ray.get([actor.pid.remote() for actor in actors])
    assert "CPU" not in ray.available_resources()
    for pid in pids:
        kill(pid)
    assert ray.get([actor.add.remote() for actor in actors], timeout=40) == [1] * 4
    assert "CPU" not in ray.available_resources()
    for actor in actors:
        ray.kill(actor)
    wait_until(lambda: ray.available_resources().get("CPU") == 4)


def test_gpus_come_back():
    class Gpu(Plain):
        def gpus(self):
            return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    actors = [ray.remote(max_restarts=-1, num_gpus=1)(Gpu).remote() for _ in range(2)]
    before = ray.get([actor.gpus.remote() for actor in actors])
    assert sorted(gpus for gpus, _ in before) == [[0], [1]]
    for index in (0, 1, 0):
        kill(ray.get(actors[index].pid.remote()))
        assert ray.get(actors[index].gpus.remote(), timeout=40) == before[index]
    assert "GPU" not in ray.available_resources()


def test_the_session_ends_while_an_actor_is_restarted(folder):
    code = """
import os, ray, time
ray.init(num_cpus=1)

@ray.remote(max_restarts=-1, max_task_retries=-1)
class Slow:
    def __init__(self, folder):
        while os.path.exists(folder + "/slow"):
            time.sleep(0.01)
        open(folder + "/slow", "w").close()

    def pid(self):
        return os.getpid()

actor = Slow.remote(os.path.dirname(__file__))
os.kill(ray.get(actor.pid.remote()), 9)
waiting = actor.pid.remote()
while ray._core.query("actors")[0][3] != "RESTARTING":
    time.sleep(0.01)
ray.shutdown()
print("over")
"""
    done = support.run_driver(support.script(folder, code))
    assert done.stdout.strip().endswith("over"), done.stderr


def test_a_restart_waits_for_what_it_needs(folder):
    """All CPUs are used when it dies: it is made again when one is free, before younger tasks."""

    @ray.remote
    def hold(path):
        while not os.path.exists(path):
            time.sleep(0.002)

    actor = make(max_restarts=-1)
    pid = ray.get(actor.pid.remote())
    holding = [hold.remote(f"{folder}/gate") for _ in range(8)]
    wait_until(lambda: "CPU" not in ray.available_resources())
    kill(pid)
    call = actor.add.remote()
    assert ray.wait([call], timeout=0.1) == ([], [call])
    assert state(actor)[0] == "RESTARTING"
    support.touch(f"{folder}/gate")
    assert ray.get(call, timeout=40) == 1
    ray.get(holding)


def test_the_driver_is_told_once(capfd):
    class Told(Plain):
        """Of a name that no other test was told of a moment ago."""

    actor = ray.remote(Told).options(max_restarts=-1).remote()
    began = time.monotonic()
    for _ in range(4):
        kill(ray.get(actor.pid.remote()))
    ray.get(actor.pid.remote())
    told, windows = "", 1 + int(time.monotonic() - began) // 5  # what is alike is counted for 5 s
    for _ in range(200):
        told += capfd.readouterr().err
        if "is restarted" in told:
            break
        time.sleep(0.01)
    # the others are counted: "3 more like this: The actor Told ..."
    assert 1 <= told.count("(raylet) The actor Told (pid") <= windows
    assert "restarted without end" in told


@pytest.mark.parametrize(
    "options, error",
    [
        ({"max_restarts": -2}, ValueError),
        ({"max_restarts": 1.5}, TypeError),
        ({"max_restarts": True}, TypeError),
        ({"max_restarts": "1"}, TypeError),
        ({"max_restarts": 2**31}, ValueError),
        ({"max_task_retries": -2}, ValueError),
        ({"max_task_retries": 1.0}, TypeError),
        ({"retry_exceptions": True}, ValueError),
        ({"max_retries": 1}, ValueError),
    ],
    ids=str,
)
def test_wrong_options(options, error):
    (name,) = options
    with pytest.raises(error, match=name):
        ray.remote(**options)(Plain)
    with pytest.raises(error, match=name):
        ray.remote(Plain).options(**options)
    if name in ("max_restarts", "max_retries") or "retry" in name:
        return
    with pytest.raises(error, match=name):
        ray.method(**options)
    with pytest.raises(error, match=name):
        make().add.options(**options)


@pytest.mark.parametrize("wrong", [5, "all", [3], [ValueError, "x"], ValueError], ids=str)
def test_wrong_exceptions_to_retry(wrong):
    with pytest.raises(TypeError, match="retry_exceptions"):
        ray.method(retry_exceptions=wrong)
    with pytest.raises(TypeError, match="retry_exceptions"):
        make().add.options(retry_exceptions=wrong)


def test_tasks_have_no_restarts():
    for name in ("max_restarts", "max_task_retries"):
        with pytest.raises(ValueError, match=name):
            ray.remote(**{name: 1})(lambda: 1)


def test_handles_carry_their_retries(folder):
    """A handle that another process has retries as the first one does."""
    actor = make(max_restarts=-1, max_task_retries=-1)

    @ray.remote
    def caller(actor, gate, note):
        import ray

        return ray.get(actor.wait_for.remote(gate, note))

    gate, note = f"{folder}/gate", f"{folder}/note"
    calling = caller.remote(actor, gate, note)
    wait_until(lambda: len(lines(note)) == 1)
    kill(int(lines(note)[0]))
    support.touch(gate)
    assert ray.get(calling, timeout=40) == int(lines(note)[1])
