"""`ray.init(local_mode=True)`: everything in this process, in order."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import ray


@pytest.fixture(autouse=True)
def local():
    ray.shutdown()
    ray.init(local_mode=True, num_cpus=3, namespace="local")
    yield
    ray.shutdown()


@ray.remote
def square(x):
    return x * x


@ray.remote
class Counter:
    def __init__(self, start=0):
        self.n = start

    def add(self, k=1):
        self.n += k
        return self.n

    def pid(self):
        return os.getpid()

    def fail(self):
        raise KeyError("no")

    def leave(self):
        ray.actor.exit_actor()

    def me(self):
        context = ray.get_runtime_context()
        return context.get_actor_id(), context.get_task_name()


def test_tasks_run_here_when_they_are_called():
    log = []

    class Noted:
        def __reduce__(self):
            log.append("argument")
            return str, ("x",)

    @ray.remote
    def run(x):
        return os.getpid(), threading.current_thread() is threading.main_thread(), x

    ref = run.remote(Noted())
    assert log == ["argument"]
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == (os.getpid(), True, "x")
    assert ray.is_initialized()


def test_no_process_is_started():
    before = set(os.listdir("/proc"))
    assert ray.get([square.remote(i) for i in range(10)]) == [i * i for i in range(10)]
    actor = Counter.remote()
    assert ray.get(actor.pid.remote()) == os.getpid()
    children = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "comm="], capture_output=True, text=True
    ).stdout
    assert "mobulad" not in children
    assert before


def test_objects_and_references_between_tasks():
    ref = ray.put([1, 2])
    assert ray.get(ref) == [1, 2]
    assert ray.get([ref, square.remote(square.remote(3))]) == [[1, 2], 81]

    @ray.remote
    def inner(refs):
        return ray.get(refs[0]) + ray.get(ray.put([3]))

    assert ray.get(inner.remote([ref])) == [1, 2, 3]
    nested = ray.put({"r": ray.put("deep")})
    assert ray.get(ray.get(nested)["r"]) == "deep"
    assert ray.wait([ref, nested]) == ([ref], [nested])
    with pytest.raises(TypeError, match="ray.put of an ObjectRef"):
        ray.put(ref)


def test_values_are_copies_as_they_are_between_processes():
    shared = [1]

    @ray.remote
    def change(values):
        values.append(2)
        return values

    ref = change.remote(shared)
    assert shared == [1]
    ray.get(ref).append(3)
    assert ray.get(ref) == [1, 2]
    array = ray.get(ray.put(np.zeros(10_000)))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(TypeError, match="lock"):
        ray.put(threading.Lock())


def test_errors_have_their_cause():
    @ray.remote
    def fail():
        raise ValueError("why")

    ref = fail.remote()
    with pytest.raises(ValueError, match="why") as caught:
        ray.get(ref)
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert isinstance(caught.value.cause, ValueError)
    with pytest.raises(ValueError, match="why"):  # as an argument
        ray.get(square.remote(ref))


def test_exceptions_are_retried():
    calls = []

    @ray.remote(retry_exceptions=[OSError], max_retries=2)
    def flaky(path):
        with open(path, "a") as log:
            log.write("x")
        if os.path.getsize(path) < 3:
            raise OSError("again")
        return os.path.getsize(path)

    import tempfile

    with tempfile.NamedTemporaryFile() as log:
        assert ray.get(flaky.remote(log.name)) == 3
    assert calls == []


def test_several_results():
    @ray.remote(num_returns=2)
    def two():
        return 1, 2

    @ray.remote(num_returns=0)
    def none():
        return None

    first, second = two.remote()
    assert ray.get([first, second]) == [1, 2]
    assert none.remote() is None
    wrong = two.options(num_returns=3).remote()
    with pytest.raises(ValueError, match="3"):
        ray.get(wrong[0])


def test_actors_live_here():
    actor = Counter.remote(10)
    assert ray.get([actor.add.remote(), actor.add.remote(5)]) == [11, 16]
    with pytest.raises(KeyError):
        ray.get(actor.fail.remote())
    assert ray.get(actor.add.remote()) == 17

    @ray.remote
    def use(handle):
        return ray.get(handle.add.remote())

    assert ray.get(use.remote(actor)) == 18
    ident, name = ray.get(actor.me.remote())
    assert ident == actor._actor_id.hex()
    assert name == "Counter.me"


def test_named_actors():
    actor = Counter.options(name="c").remote()
    assert ray.get(ray.get_actor("c").add.remote()) == 1
    assert ray.get(Counter.options(name="c", get_if_exists=True).remote().add.remote()) == 2
    assert ray.util.list_named_actors() == ["c"]
    with pytest.raises(ValueError, match="'c'"):
        Counter.options(name="c").remote()
    ray.kill(actor)
    with pytest.raises(ValueError, match="no actor named 'c'"):
        ray.get_actor("c")


def test_the_end_of_an_actor():
    actor, other = Counter.remote(), Counter.remote()
    ray.kill(actor)
    with pytest.raises(ray.exceptions.ActorDiedError, match="killed"):
        ray.get(actor.add.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(other.leave.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(other.add.remote())

    @ray.remote
    class Broken:
        def __init__(self):
            raise RuntimeError("not today")

        def f(self):
            pass

    with pytest.raises(ray.exceptions.ActorDiedError, match="not today"):
        ray.get(Broken.remote().f.remote())


def test_cancel_of_what_is_over_does_nothing():
    ref = square.remote(3)
    ray.cancel(ref)
    assert ray.get(ref) == 9


def test_async_actors_and_await():
    @ray.remote(concurrency_groups={"io": 2})
    class Async:
        async def add(self, x):
            await asyncio.sleep(0)
            return x + 1

        @ray.method(concurrency_group="io")
        async def io(self):
            return "io"

    actor = Async.remote()
    assert ray.get([actor.add.remote(1), actor.io.remote()]) == [2, "io"]

    async def main():
        return await actor.add.remote(1), await square.remote(4)

    assert asyncio.run(main()) == (2, 16)
    assert square.remote(5).future().result() == 25


def test_generators_run_step_by_step():
    @ray.remote
    def count(n):
        yield from range(n)
        raise ValueError("end")

    items = count.remote(3)
    assert [ray.get(next(items)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="end"):
        ray.get(next(items))
    with pytest.raises(StopIteration):
        next(items)


def test_generators_are_passed_on():
    @ray.remote
    def count(n):
        yield from range(n)

    @ray.remote
    def read(box, most):
        return [ray.get(ref) for ref, _ in zip(box[0], range(most))], box

    generator = count.remote(5)
    assert ray.get(next(generator)) == 0
    found, box = ray.get(read.remote([generator], 2))
    assert found == [1, 2]
    with pytest.raises(RuntimeError, match="was passed on"):
        next(generator)
    assert ray.get(generator.completed()) is None
    assert [ray.get(ref) for ref in box[0]] == [4]  # zip has taken the one before


def test_dynamic_generators():
    @ray.remote(num_returns="dynamic")
    def count(n, fail_at=None):
        for i in range(n):
            if i == fail_at:
                raise ValueError(f"at {i}")
            yield [i]

    @ray.remote
    class Maker:
        @ray.method(num_returns="dynamic")
        def count(self, n):
            yield from range(n)

    made = ray.get(count.remote(3))
    assert isinstance(made, ray.DynamicObjectRefGenerator) and len(made) == 3
    assert [ray.get(ref) for ref in made] == [[0], [1], [2]]
    assert ray.get(list(ray.get(Maker.remote().count.remote(2)))) == [0, 1]
    before, failed = ray.get(count.remote(3, 1))
    assert ray.get(before) == [0]
    with pytest.raises(ValueError, match="at 1"):
        ray.get(failed)
    with pytest.raises(ValueError, match="must return a generator"):
        ray.get(square.options(num_returns="dynamic").remote(2))


def test_looking_around():
    assert ray.cluster_resources()["CPU"] == 3
    assert len(ray.nodes()) == 1
    assert ray.get_runtime_context().get_task_id() is None
    assert ray.get_runtime_context().namespace == "local"

    @ray.remote
    def name():
        return ray.get_runtime_context().get_task_name()

    assert ray.get(name.remote()) == "name"
    assert ray.get(name.options(name="other").remote()) == "other"


def test_sessions_follow_each_other():
    ref = square.remote(2)
    ray.shutdown()
    assert not ray.is_initialized()
    with pytest.raises(ray.exceptions.RayError):
        ray.get(ref)
    ray.init(num_cpus=1, address="local")
    try:
        assert ray.get(square.remote(5)) == 25
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref)
    finally:
        ray.shutdown()
    ray.init(local_mode=True)
    assert ray.get(square.remote(6)) == 36


def test_what_makes_no_sense_with_it():
    with pytest.raises(RuntimeError, match="already"):
        ray.init(local_mode=True)
    ray.init(local_mode=True, ignore_reinit_error=True)
    ray.shutdown()
    with pytest.raises(ValueError, match="address"):
        ray.init("auto", local_mode=True)
    with pytest.raises(TypeError, match="bind|argument"):
        ray.init(local_mode=True)
        square.remote()


def test_pdb_stops_inside_a_task(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import ray
        ray.init(local_mode=True)

        @ray.remote
        def work(x):
            breakpoint()
            return x + 1

        print("result", ray.get(work.remote(1)))
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)], input="p x * 100\nc\n", capture_output=True, text=True
    )
    assert "100" in done.stdout
    assert "result 2" in done.stdout, done.stderr


# ---- ray.util ----


def test_helpers_work(local):
    from ray.util import ActorPool
    from ray.util.multiprocessing import Pool
    from ray.util.queue import Empty, Full, Queue

    queue = Queue(maxsize=1)
    queue.put(1)
    with pytest.raises(Full, match="local mode"):
        queue.put(2)
    assert queue.get() == 1
    with pytest.raises(Empty, match="local mode"):
        queue.get(timeout=1)
    with pytest.raises(Empty):
        queue.get_nowait()
    with Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2] and list(pool.imap(abs, [-3])) == [3]

    @ray.remote
    class Adder:
        def add(self, x):
            return x + 1

    assert list(ActorPool([Adder.remote()]).map(lambda a, x: a.add.remote(x), [1, 2])) == [2, 3]


def test_values_by_key_and_metrics(local):
    from ray.experimental import internal_kv
    from ray.util.metrics import Counter, snapshot

    assert internal_kv._internal_kv_put("a", "1") is False
    assert internal_kv._internal_kv_put("a", "2", overwrite=False) is True
    assert internal_kv._internal_kv_get("a") == b"1"
    assert internal_kv._internal_kv_list("") == [b"a"]
    assert internal_kv._internal_kv_del("a") == 1 and not internal_kv._internal_kv_exists("a")
    counter = Counter("local")
    counter.inc(2)
    assert 'ray_local_total{JobId="01000000"} 2' in snapshot()
    counter.inc(3)
    assert 'ray_local_total{JobId="01000000"} 5' in snapshot()
