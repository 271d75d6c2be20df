"""Concurrency groups, calls out of order, and what `@ray.method` and `.options` say of calls."""

import asyncio
import os
import signal
import threading
import time

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("session")


@ray.remote
def after_file(path, value):
    support.wait_until(lambda: os.path.exists(path))
    return value


class _Base:
    """Calls that wait until they are let go, by group; who ran together, and in which thread."""

    def __init__(self):
        self.gate = threading.Event()
        self.lock = threading.Lock()
        self.now = {}
        self.most = {}
        self.log = []

    def _enter(self, group, x=None):
        with self.lock:
            self.now[group] = self.now.get(group, 0) + 1
            self.most[group] = max(self.most.get(group, 0), self.now[group])
            self.log.append((group, x))

    def _leave(self, group):
        with self.lock:
            self.now[group] -= 1


@ray.remote(concurrency_groups={"io": 2, "compute": 4})
class Threaded(_Base):
    @ray.method(concurrency_group="io")
    def io(self, x=None):
        self._enter("io", x)
        self.gate.wait()
        self._leave("io")
        return x

    @ray.method(concurrency_group="compute")
    def compute(self, x=None):
        self._enter("compute", x)
        time.sleep(0.001)
        self._leave("compute")
        return x

    def plain(self, x=None):
        self._enter("plain", x)
        self._leave("plain")
        return x

    def thread(self):
        return threading.get_ident()

    @ray.method(concurrency_group="compute")
    def open(self):
        self.gate.set()

    @ray.method(concurrency_group="compute")
    def seen(self):
        return self.most, self.log

    @ray.method(concurrency_group="compute")
    def running(self, group):
        return self.now.get(group, 0)

    @ray.method(concurrency_group="compute")
    def pid(self):
        return os.getpid()


@ray.remote(concurrency_groups={"io": 2, "compute": 4})
class Async:
    def __init__(self):
        self.gate = asyncio.Event()
        self.now = {}
        self.most = {}
        self.log = []

    async def _run(self, group, x, waits):
        self.now[group] = self.now.get(group, 0) + 1
        self.most[group] = max(self.most.get(group, 0), self.now[group])
        self.log.append((group, x))
        await (self.gate.wait() if waits else asyncio.sleep(0.001))
        self.now[group] -= 1
        return x

    @ray.method(concurrency_group="io")
    async def io(self, x=None):
        return await self._run("io", x, True)

    @ray.method(concurrency_group="compute")
    async def compute(self, x=None):
        return await self._run("compute", x, False)

    async def plain(self, x=None):
        return await self._run("plain", x, False)

    @ray.method(concurrency_group="compute")
    async def open(self):
        self.gate.set()

    @ray.method(concurrency_group="compute")
    async def seen(self):
        return self.most, self.log

    @ray.method(concurrency_group="compute")
    async def running(self, group):
        return self.now.get(group, 0)

    @ray.method(concurrency_group="compute")
    async def pid(self):
        return os.getpid()


both = pytest.mark.parametrize("kind", [Threaded, Async], ids=["threads", "loop"])


@both
def test_a_full_group_holds_up_no_other(kind):
    actor = kind.remote()
    stuck = [actor.io.remote(i) for i in range(50)]
    assert ray.get([actor.compute.remote(i) for i in range(200)]) == list(range(200))
    assert ray.get([actor.plain.remote(i) for i in range(20)]) == list(range(20))
    assert ray.wait(stuck, num_returns=1, timeout=0.05)[0] == []
    ray.get(actor.open.remote())
    assert ray.get(stuck) == list(range(50))


@both
def test_no_more_than_the_limit_run_at_once(kind):
    actor = kind.remote()
    stuck = [actor.io.remote(i) for i in range(20)]
    ray.get([actor.compute.remote(i) for i in range(100)])
    support.wait_until(lambda: ray.get(actor.running.remote("io")) == 2)
    most, _ = ray.get(actor.seen.remote())
    assert most["io"] == 2
    assert 1 < most["compute"] <= 4
    ray.get(actor.open.remote())
    ray.get(stuck)
    most, _ = ray.get(actor.seen.remote())
    assert most["io"] == 2


@both
def test_order_within_a_group_holds(kind):
    actor = kind.options(concurrency_groups={"io": 1, "compute": 1}).remote()
    refs = [getattr(actor, name).remote(i) for i in range(60) for name in ("io", "compute")]
    assert ray.get(refs[1::2]) == list(range(60))
    ray.get(actor.open.remote())
    assert ray.get(refs[::2]) == list(range(60))
    _, log = ray.get(actor.seen.remote())
    for group in ("io", "compute"):
        assert [x for name, x in log if name == group] == list(range(60))


def test_the_default_group_of_plain_methods_runs_one_at_a_time():
    actor = Threaded.remote()
    ray.get([actor.plain.remote(i) for i in range(50)])
    most, log = ray.get(actor.seen.remote())
    assert most["plain"] == 1
    assert [x for name, x in log if name == "plain"] == list(range(50))


def test_max_concurrency_is_the_default_groups():
    @ray.remote(concurrency_groups={"io": 1}, max_concurrency=3)
    class A:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def meet(self):
            return self.barrier.wait(20) >= 0

        @ray.method(concurrency_group="io")
        def io(self):
            return "io"

    actor = A.remote()
    assert ray.get([actor.meet.remote() for _ in range(6)]) == [True] * 6
    assert ray.get(actor.io.remote()) == "io"


def test_a_group_at_the_call():
    actor = Threaded.remote()
    stuck = [actor.io.remote() for _ in range(2)]
    waits = actor.plain.options(concurrency_group="io").remote("waits")
    goes = actor.io.options(concurrency_group="compute").remote("goes")
    support.wait_until(lambda: ray.get(actor.running.remote("io")) == 3)  # `goes` is in there too
    assert ray.wait([waits], timeout=0.05)[0] == []
    ray.get(actor.open.remote())
    assert ray.get([waits, goes, *stuck]) == ["waits", "goes", None, None]


def test_a_group_of_one_has_one_thread():
    actor = Threaded.options(concurrency_groups={"io": 1, "compute": 1}).remote()
    by_group = [
        set(ray.get([actor.thread.options(**group).remote() for _ in range(30)]))
        for group in ({"concurrency_group": "io"}, {"concurrency_group": "compute"}, {})
    ]
    assert [len(threads) for threads in by_group] == [1, 1, 1]
    assert len(set.union(*by_group)) == 3


def test_groups_of_a_named_actor_and_of_handles_elsewhere():
    actor = Threaded.options(name="grouped").remote()
    stuck = [actor.io.remote() for _ in range(3)]

    @ray.remote
    def use(handle):
        found = ray.get_actor("grouped")
        return ray.get([handle.compute.remote(1), found.compute.remote(2)])

    assert ray.get(use.remote(actor)) == [1, 2]
    method = actor.compute
    assert ray.get(ray.get(ray.remote(lambda m: m.remote(7)).remote(method))) == 7
    ray.get(actor.open.remote())
    ray.get(stuck)


def test_several_callers_share_the_groups():
    actor = Threaded.remote()
    stuck = [actor.io.remote() for _ in range(3)]

    @ray.remote
    def call(handle, n):
        return ray.get([handle.compute.remote(i) for i in range(n)])

    assert ray.get([call.remote(actor, 30) for _ in range(3)]) == [list(range(30))] * 3
    ray.get(actor.open.remote())
    ray.get(stuck)


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ({"io": 0}, ValueError),
        ({"io": -1}, ValueError),
        ({"io": "2"}, TypeError),
        ({"io": True}, TypeError),
        ({"io": 1.5}, TypeError),
        ({"": 1}, ValueError),
        ({3: 1}, TypeError),
        ("io", TypeError),
        ({str(i): 1 for i in range(300)}, ValueError),
    ],
)
def test_bad_groups_are_errors_where_they_are_written(groups, error):
    with pytest.raises(error, match="concurrency_groups"):
        ray.remote(concurrency_groups=groups)(type("A", (), {}))
    with pytest.raises(error, match="concurrency_groups"):
        Threaded.options(concurrency_groups=groups)


def test_unknown_groups_are_errors_at_the_call_and_at_the_creation():
    actor = Threaded.remote()
    with pytest.raises(ValueError, match="'oi'.*'io', 'compute'"):
        actor.plain.options(concurrency_group="oi")
    with pytest.raises(ValueError, match="'compute'"):
        Threaded.options(concurrency_groups={"io": 1}).remote()
    with pytest.raises(TypeError, match="concurrency_group"):
        actor.plain.options(concurrency_group=1)

    @ray.remote
    class Plain:
        def f(self):
            pass

    with pytest.raises(ValueError, match="none"):
        Plain.remote().f.options(concurrency_group="io")


@both
def test_waiting_and_running_calls_are_cancelled(kind):
    actor = kind.remote()
    stuck = [actor.io.remote(i) for i in range(4)]
    support.wait_until(lambda: ray.get(actor.running.remote("io")) == 2)
    ray.cancel(stuck[2])
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(stuck[2])
    if kind is Async:
        ray.cancel(stuck[0])
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(stuck[0])
    ray.get(actor.open.remote())
    assert ray.get(stuck[3]) == 3
    assert ray.get(actor.compute.remote(1)) == 1


@both
def test_a_killed_actor_fails_what_waits_in_its_groups(kind):
    actor = kind.remote()
    stuck = [actor.io.remote(i) for i in range(30)]
    support.wait_until(lambda: ray.get(actor.running.remote("io")) == 2)
    ray.kill(actor)
    for ref in stuck:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)


@both
def test_a_restart_runs_what_waited_and_what_may_be_run_again(kind):
    actor = kind.options(max_restarts=1, max_task_retries=1).remote()
    stuck = [actor.io.remote(i) for i in range(30)]
    support.wait_until(lambda: ray.get(actor.running.remote("io")) == 2)
    first = ray.get(actor.pid.remote())
    os.kill(first, signal.SIGKILL)
    assert ray.get(actor.pid.remote()) != first
    support.wait_until(lambda: ray.get(actor.running.remote("io")) == 2)
    ray.get(actor.open.remote())
    assert ray.get(stuck) == list(range(30))
    _, log = ray.get(actor.seen.remote())
    assert sorted(x for name, x in log if name == "io") == list(range(30))


def test_a_call_that_is_run_again_waits_for_its_group(tmp_path):
    @ray.remote(concurrency_groups={"io": 1})
    class Flaky:
        @ray.method(concurrency_group="io", retry_exceptions=True, max_task_retries=3)
        def flaky(self, path):
            with open(path, "a") as log:
                log.write("x")
            if os.path.getsize(path) < 3:
                raise OSError("again")
            return os.path.getsize(path)

        @ray.method(concurrency_group="io")
        def other(self):
            return "other"

    actor = Flaky.remote()
    refs = [actor.flaky.remote(str(tmp_path / "log")), *(actor.other.remote() for _ in range(20))]
    assert ray.get(refs) == [3] + ["other"] * 20


def test_an_actor_with_groups_ends_with_its_last_handle_after_its_calls():
    actor = Threaded.remote()
    pid = ray.get(actor.pid.remote())
    refs = [actor.io.remote(i) for i in range(5)] + [actor.compute.remote(9)]
    opened = actor.open.remote()
    del actor
    assert ray.get(refs) == [0, 1, 2, 3, 4, 9]
    del opened
    support.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_exit_actor_in_a_group():
    @ray.remote(concurrency_groups={"io": 2})
    class Leaver:
        @ray.method(concurrency_group="io")
        def leave(self):
            ray.actor.exit_actor()

        def stay(self):
            return 1

    actor = Leaver.remote()
    assert ray.get(actor.stay.remote()) == 1
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.leave.remote())


# ---- out of order ----


@ray.remote
class InOrder:
    def echo(self, x=None):
        return x


def test_a_call_that_waits_for_its_argument_holds_up_later_ones_by_default(tmp_path):
    actor = InOrder.remote()
    first = actor.echo.remote(after_file.remote(str(tmp_path / "go"), "late"))
    second = actor.echo.remote("second")
    assert ray.wait([second], timeout=0.2)[0] == []
    (tmp_path / "go").touch()
    assert ray.get([first, second]) == ["late", "second"]


def test_a_call_that_waits_for_its_argument_holds_up_none_out_of_order(tmp_path):
    actor = InOrder.options(allow_out_of_order_execution=True).remote()
    ray.get(actor.echo.remote())
    paths = [str(tmp_path / f"go{i}") for i in range(2)]
    late = [actor.echo.remote(after_file.remote(path, path)) for path in paths]
    assert ray.get([actor.echo.remote(i) for i in range(100)]) == list(range(100))
    for i in (1, 0):  # and not in their own order either
        open(paths[i], "w").close()
        assert ray.get(late[i]) == paths[i]


@pytest.mark.parametrize("kind", ["async", "threaded"])
def test_actors_that_run_several_calls_are_out_of_order(kind, tmp_path):
    class A:
        async def echo(self, x=None):
            return x

    class T:
        def echo(self, x=None):
            return x

    actor = ray.remote(A).remote() if kind == "async" else ray.remote(max_concurrency=2)(T).remote()
    late = actor.echo.remote(after_file.remote(str(tmp_path / "go"), "late"))
    assert ray.get([actor.echo.remote(i) for i in range(50)]) == list(range(50))
    (tmp_path / "go").touch()
    assert ray.get(late) == "late"


def test_out_of_order_can_not_be_refused_where_calls_run_at_once():
    with pytest.raises(ValueError, match="allow_out_of_order_execution"):
        InOrder.options(allow_out_of_order_execution=False, max_concurrency=2).remote()
    with pytest.raises(TypeError, match="allow_out_of_order_execution"):
        InOrder.options(allow_out_of_order_execution=1)


def test_out_of_order_calls_that_wait_are_cancelled_or_die_with_their_actor(tmp_path):
    actor = InOrder.options(allow_out_of_order_execution=True).remote()
    argument = after_file.remote(str(tmp_path / "go"), 1)
    first, second, third = (actor.echo.remote(argument) for _ in range(3))
    assert ray.get(actor.echo.remote(0)) == 0
    ray.cancel(first)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(first)
    ray.kill(actor)
    for ref in (second, third):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)
    (tmp_path / "go").touch()
    assert ray.get(argument) == 1


def test_out_of_order_calls_survive_a_restart(tmp_path):
    @ray.remote(allow_out_of_order_execution=True, max_restarts=1, max_task_retries=-1)
    class A:
        def echo(self, x=None):
            return x

        def pid(self):
            return os.getpid()

    actor = A.remote()
    late = actor.echo.remote(after_file.remote(str(tmp_path / "go"), "late"))
    os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)
    assert ray.get(actor.echo.remote(1)) == 1
    (tmp_path / "go").touch()
    assert ray.get(late) == "late"


def test_out_of_order_with_groups(tmp_path):
    actor = Threaded.options(allow_out_of_order_execution=True).remote()
    late = actor.compute.remote(after_file.remote(str(tmp_path / "go"), "late"))
    assert ray.get([actor.compute.remote(i) for i in range(50)]) == list(range(50))
    (tmp_path / "go").touch()
    assert ray.get(late) == "late"


def test_in_order_groups_wait_for_arguments_by_group(tmp_path):
    actor = Threaded.remote()
    late = actor.plain.remote(after_file.remote(str(tmp_path / "go"), "late"))
    behind = actor.plain.remote("behind")
    assert ray.get([actor.compute.remote(i) for i in range(50)]) == list(range(50))
    assert ray.wait([behind], timeout=0.1)[0] == []
    (tmp_path / "go").touch()
    assert ray.get([late, behind]) == ["late", "behind"]
