"""Async and threaded actors: several calls of one actor at once."""

import asyncio
import os
import threading
import time

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("session")


@ray.remote
def echo(x):
    return x


@ray.remote
def open_gate(path, x=None):
    """Waits for a file."""
    support.wait_until(lambda: os.path.exists(path))
    return x


@ray.remote
class Async:
    def __init__(self, start=0):
        self.loop = asyncio.get_running_loop()
        self.event = asyncio.Event()
        self.log = []
        self.now = self.most = 0

    async def add(self, x, y=1):
        return x + y

    async def wait(self):
        await self.event.wait()
        return "woken"

    async def wake(self):
        self.event.set()

    async def note(self, x):
        self.log.append(x)

    def notes(self):
        return self.log

    async def get(self, wrapped):
        return await wrapped[0]

    async def get_all(self, refs):
        return await asyncio.gather(*refs)

    async def submit(self, x):
        return await echo.remote(x)

    async def fail(self, error):
        await asyncio.sleep(0)
        raise error

    async def crowd(self, seconds):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(seconds)
        self.now -= 1
        return self.most

    async def task_id(self):
        first = ray.get_runtime_context().get_task_id()
        await asyncio.sleep(0.01)
        assert ray.get_runtime_context().get_task_id() == first
        inner = await asyncio.get_running_loop().create_task(self.inner())
        assert inner == first
        return first

    async def inner(self):
        return ray.get_runtime_context().get_task_id()

    async def big(self):
        import numpy

        return numpy.ones(1 << 18)

    async def pair(self):
        return 1, 2

    def pid(self):
        return os.getpid()

    async def die(self):
        os._exit(3)


@ray.remote
class Threads:
    def __init__(self, count=4):
        self.barrier = threading.Barrier(count)
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.event = threading.Event()

    def meet(self):
        self.barrier.wait(30)
        return threading.get_ident()

    def wait(self):
        assert self.event.wait(30)
        return "woken"

    def wake(self):
        self.event.set()

    def crowd(self, seconds):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(seconds)
        with self.lock:
            self.now -= 1
        return self.most

    def get(self, wrapped):
        return ray.get(wrapped[0])

    def task_id(self):
        first = ray.get_runtime_context().get_task_id()
        time.sleep(0.01)
        assert ray.get_runtime_context().get_task_id() == first
        return first

    def fail(self, error):
        raise error

    def pid(self):
        return os.getpid()

    def die(self):
        os._exit(3)


# ---- async actors ----


def test_a_call_and_its_arguments():
    a = Async.remote()
    assert ray.get(a.add.remote(1)) == 2
    assert ray.get(a.add.remote(1, y=5)) == 6
    assert ray.get(a.add.remote(echo.remote(1), echo.remote(2))) == 3
    assert ray.get(a.big.remote()).sum() == 1 << 18
    assert ray.get(a.pair.options(num_returns=2).remote()) == [1, 2]


def test_one_call_wakes_another():
    a = Async.remote()
    waiting = [a.wait.remote() for _ in range(50)]
    assert ray.wait(waiting, timeout=0.1)[0] == []
    ray.get(a.wake.remote())
    assert ray.get(waiting) == ["woken"] * 50


def test_thousands_in_flight():
    a = Async.options(max_concurrency=5000).remote()
    waiting = [a.wait.remote() for _ in range(4000)]
    assert ray.get(a.add.remote(1)) == 2
    ray.get(a.wake.remote())
    assert ray.get(waiting) == ["woken"] * 4000


@pytest.mark.parametrize("most", [1, 2, 7])
def test_no_more_at_once_than_asked_for(most):
    a = Async.options(max_concurrency=most).remote()
    assert max(ray.get([a.crowd.remote(0.005) for _ in range(40)])) == most


def test_a_thousand_at_once_by_default():
    a = Async.remote()
    assert max(ray.get([a.crowd.remote(0.3) for _ in range(1100)])) == 1000


def test_calls_begin_in_their_order():
    a = Async.remote()
    for i in range(2000):
        a.note.remote(i)
    assert ray.get(a.notes.remote()) == list(range(2000))


def test_a_late_argument_holds_nobody_up(folder):
    a = Async.remote()

    @ray.remote
    class Other:
        def call(self, a):
            return ray.get(a.add.remote(1))

    ray.get(a.add.remote(0))
    late = open_gate.remote(f"{folder}/gate", 5)
    first = a.note.remote(late)
    second = a.note.remote(6)
    assert ray.get(Other.remote().call.remote(a)) == 2
    ray.get(second)
    support.touch(f"{folder}/gate")
    ray.get(first)
    assert ray.get(a.notes.remote()) == [6, 5]


def test_await_of_refs_inside():
    a = Async.remote()
    assert ray.get(a.submit.remote(7)) == 7
    assert ray.get(a.get.remote([echo.remote(8)])) == 8
    assert ray.get(a.get_all.remote([echo.remote(i) for i in range(300)])) == list(range(300))
    assert ray.get([a.submit.remote(i) for i in range(500)]) == list(range(500))


@pytest.mark.init(num_cpus=1)
def test_awaiting_lends_what_the_actor_holds():
    """The only CPU is the actor's: the task that it awaits could never run."""
    a = Async.options(num_cpus=1).remote()
    assert ray.get([a.submit.remote(i) for i in range(20)], timeout=40) == list(range(20))
    assert ray.available_resources().get("CPU", 0) == 0
    assert ray.get(a.get_all.remote([echo.remote(i) for i in range(20)]), timeout=40) == list(
        range(20)
    )
    del a
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 1)


@pytest.mark.init(num_cpus=1)
def test_calls_that_wait_for_each_other_lend_it_too():
    @ray.remote(num_cpus=1)
    class Pair:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "woken"

        async def work(self):
            found = await echo.remote(1)
            self.event.set()
            return found

    pair = Pair.remote()
    waiting = pair.wait.remote()
    assert ray.wait([waiting], timeout=0.1)[0] == []
    assert ray.get([pair.work.remote(), waiting], timeout=40) == [1, "woken"]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_context_variables_are_each_calls_own(most):
    @ray.remote(max_concurrency=most)
    class Context:
        def __init__(self):
            import contextvars

            self.variable = contextvars.ContextVar("variable", default=None)

        async def set(self, value):
            self.variable.set(value)
            await echo.remote(1)
            return self.variable.get()

        async def get(self):
            return self.variable.get()

    a = Context.remote()
    refs = [a.set.remote(i) if i % 2 else a.get.remote() for i in range(60)]
    assert ray.get(refs) == [i if i % 2 else None for i in range(60)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_class_that_can_not_be_loaded(is_async):
    class BadLoad:
        def __reduce__(self):
            return __import__, ("no_such_module",)

    class Plain:
        attribute = BadLoad()

        def run(self):
            return 1

    class Loop:
        attribute = BadLoad()

        async def run(self):
            return 1

    made = ray.remote(Loop if is_async else Plain).options(max_concurrency=2).remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="no_such_module"):
        ray.get(made.run.remote())


def test_a_forked_child_of_an_async_actor():
    @ray.remote(num_cpus=1)
    class Forking:
        async def run(self, other):
            task = asyncio.ensure_future(self.wait(other.wait.remote()))
            await asyncio.sleep(0.05)
            coroutine, pid = task.get_coro(), os.fork()
            if pid == 0:
                try:
                    coroutine.close()  # it drops an await of its parent
                finally:
                    os._exit(7)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        async def wait(self, ref):
            return await ref

    assert ray.get(Forking.remote().run.remote(Async.remote())) == 7


def test_exceptions():
    a = Async.remote()
    with pytest.raises(KeyError, match="gone"):
        ray.get(a.fail.remote(KeyError("gone")))
    with pytest.raises(ray.exceptions.RayTaskError):
        ray.get(a.fail.remote(asyncio.CancelledError()))

    @ray.remote
    def bad():
        raise ZeroDivisionError("first")

    with pytest.raises(ZeroDivisionError, match="first"):
        ray.get(a.add.remote(bad.remote()))
    with pytest.raises(ZeroDivisionError, match="first"):
        ray.get(a.get.remote([bad.remote()]))
    assert ray.get(a.add.remote(1)) == 2  # and it goes on


def test_a_constructor_that_raises():
    @ray.remote
    class Bad:
        def __init__(self):
            raise ValueError("no")

        async def run(self):
            return 1

    with pytest.raises(ray.exceptions.ActorDiedError, match="no"):
        ray.get(Bad.remote().run.remote())


@pytest.mark.parametrize("most", [None, 1])
def test_an_async_constructor(most):
    class Base:
        async def __init__(self, x, *, y):
            self.loop = asyncio.get_running_loop()
            self.context = ray.get_runtime_context().get_actor_id()
            await asyncio.sleep(0.05)
            self.found = [x, y, await echo.remote(3)]

    class Made(Base):
        def get(self):  # the only async method is the constructor
            assert self.loop is asyncio.get_running_loop()
            return self.found, self.context

        def __repr__(self):
            return "made"

    actor = (
        ray.remote(Made)
        .options(**({"max_concurrency": most} if most else {}))
        .remote(echo.remote(1), y=ray.put(2))
    )
    assert (
        ray.get([actor.get.remote(), actor.get.remote()])
        == [([1, 2, 3], actor._actor_id.hex())] * 2
    )
    with pytest.raises(TypeError):
        ray.remote(Made).remote(1)


def test_an_async_constructor_that_raises():
    @ray.remote
    class Bad:
        async def __init__(self, x=None):
            await asyncio.sleep(0)
            raise ValueError("no luck")

        async def run(self):
            return 1

    with pytest.raises(
        ray.exceptions.ActorDiedError, match=r"(?s)Bad\.__init__.*ValueError: no luck"
    ):
        ray.get(Bad.remote().run.remote())

    @ray.remote
    def bad():
        raise KeyError("an argument")

    with pytest.raises(ray.exceptions.ActorDiedError, match="an argument"):
        ray.get(Bad.remote(bad.remote()).run.remote())


def test_each_call_has_its_own_task_id():
    a = Async.remote()
    assert len(set(ray.get([a.task_id.remote() for _ in range(50)]))) == 50
    t = Threads.options(max_concurrency=8).remote()
    assert len(set(ray.get([t.task_id.remote() for _ in range(50)]))) == 50


def test_its_death_fails_all_calls():
    a = Async.remote()
    waiting = [a.wait.remote() for _ in range(20)]
    a.die.remote()
    for ref in waiting:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)
    a = Async.remote()
    waiting = a.wait.remote()
    ray.get(a.add.remote(1))
    ray.kill(a)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(waiting)


@pytest.mark.parametrize("kind", [Async, Threads])
def test_it_ends_after_the_calls_that_it_has(kind, folder):
    """The handle goes while calls run; they are finished, and then the process ends."""

    @ray.remote(max_concurrency=3)
    class Last:
        def run(self, path, i):
            time.sleep(0.2)
            support.touch(f"{path}/{i}")
            return os.getpid()

    @ray.remote
    class LastAsync:
        async def run(self, path, i):
            await asyncio.sleep(0.2)
            support.touch(f"{path}/{i}")
            return os.getpid()

    last = (LastAsync if kind is Async else Last).remote()
    refs = [last.run.remote(folder, i) for i in range(6)]
    del last
    (pid,) = set(ray.get(refs))
    assert sorted(os.listdir(folder)) == [str(i) for i in range(6)]
    assert support.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_background_tasks_of_the_user_go_on():
    @ray.remote
    class Ticker:
        def __init__(self):
            self.ticks = 0
            self.task = asyncio.get_running_loop().create_task(self.tick())

        async def tick(self):
            while True:
                self.ticks += 1
                await asyncio.sleep(0.005)

        async def count(self):
            return self.ticks

    t = Ticker.remote()
    first = ray.get(t.count.remote())
    assert support.wait_until(lambda: ray.get(t.count.remote()) > first + 3)


@pytest.mark.init(num_cpus=1)
def test_a_plain_get_in_an_async_method_works(capfd):
    """All calls wait with it, so the actor's CPU is lent; and the user is told."""

    @ray.remote(num_cpus=1)
    class Blocking:
        async def run(self, x):
            return ray.get(echo.remote(x))

        async def wait(self):
            await asyncio.sleep(0.5)

    a = Blocking.remote()
    waiting = a.wait.remote()
    assert ray.get([a.run.remote(i) for i in range(5)], timeout=30) == list(range(5))
    ray.get(waiting)
    ray.shutdown()
    told = capfd.readouterr().err
    assert told.count("Using blocking ray.get inside async actor. This blocks the event loop") == 1
    assert "use `await`" in told


def test_a_plain_wait_in_an_async_method_is_told(capfd):
    @ray.remote
    class Blocking:
        async def look(self, x):
            return len(ray.wait([x[0]], timeout=0)[0])

        async def run(self, x):
            return len(ray.wait([x[0]])[0])

    a = Blocking.remote()
    ref = ray.put(1)
    assert ray.get([a.look.remote([ref]), a.run.remote([ref]), a.run.remote([ref])]) == [1, 1, 1]
    ray.shutdown()
    assert capfd.readouterr().err.count("Using blocking ray.wait inside async actor") == 1


def test_async_actors_call_each_other():
    @ray.remote
    class Node:
        async def ping(self, other, depth):
            return 0 if depth == 0 else 1 + await other.ping.remote(other, depth - 1)

    a, b = Node.remote(), Node.remote()
    assert ray.get([a.ping.remote(b, 20) for _ in range(20)]) == [20] * 20


@pytest.mark.parametrize("kind", [Async, Threads])
def test_idle_ones_sleep(kind):
    a = kind.options(max_concurrency=4).remote()
    waiting = a.wait.remote()  # what waits in it costs nothing either
    pid = ray.get(a.pid.remote())
    assert support.is_quiet(lambda: support.switches([pid]), 1)
    ray.get(a.wake.remote())
    assert ray.get(waiting) == "woken"


# ---- threaded actors ----


def test_threads_run_at_once():
    t = Threads.options(max_concurrency=4).remote()
    assert len(set(ray.get([t.meet.remote() for _ in range(4)]))) == 4


@pytest.mark.parametrize("most", [2, 5])
def test_no_more_threads_than_asked_for(most):
    t = Threads.options(max_concurrency=most).remote()
    assert max(ray.get([t.crowd.remote(0.01) for _ in range(40)])) == most


def test_one_at_a_time_is_the_default_and_in_the_main_thread():
    @ray.remote(max_concurrency=1)
    class Plain:
        def where(self):
            return threading.current_thread() is threading.main_thread()

    t = Threads.remote()
    assert max(ray.get([t.crowd.remote(0.005) for _ in range(10)])) == 1
    assert ray.get(Plain.remote().where.remote())


@pytest.mark.init(num_cpus=1)
def test_threads_that_get_lend_what_the_actor_holds():
    t = Threads.options(max_concurrency=3, num_cpus=1).remote()
    refs = [t.get.remote([echo.remote(i)]) for i in range(30)]
    assert ray.get(refs, timeout=40) == list(range(30))


def test_exceptions_and_death_in_threads():
    t = Threads.options(max_concurrency=3).remote()
    with pytest.raises(KeyError, match="gone"):
        ray.get(t.fail.remote(KeyError("gone")))
    waiting = [t.wait.remote() for _ in range(2)]
    t.die.remote()
    for ref in waiting:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)


def test_one_thread_wakes_another():
    t = Threads.options(max_concurrency=2).remote()
    waiting = t.wait.remote()
    ray.get(t.wake.remote())
    assert ray.get(waiting) == "woken"


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_bad_max_concurrency(value):
    with pytest.raises((TypeError, ValueError), match="max_concurrency"):
        Async.options(max_concurrency=value)
