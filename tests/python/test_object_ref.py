"""What references, contexts and errors say of themselves, beside values."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("session")


@ray.remote
def gated(path):
    support.wait_until(lambda: os.path.exists(path))
    return ray.get_runtime_context().get_task_id()


@pytest.mark.skipif(
    os.environ.get("MOBULA_LOOPBACK") == "1",
    reason="a run at a peer has the id of its record there, and not the one that the origin knows",
)
def test_the_task_that_makes_an_object(tmp_path):
    ref = gated.remote(str(tmp_path / "go"))
    found = ref.task_id()
    assert isinstance(found, ray.TaskID)
    (tmp_path / "go").touch()
    assert found.hex() == ray.get(ref)
    assert ref.task_id().is_nil()
    assert ray.put(1).task_id().is_nil()


def test_the_job_of_an_object():
    assert ray.put(1).job_id() == ray.get_runtime_context().job_id


def test_callbacks():
    told, done = [], threading.Semaphore(0)

    def note(what):
        told.append(what)
        done.release()

    @ray.remote
    def fail():
        raise KeyError("no")

    ray.put(5)._on_completed(note)
    assert done.acquire(timeout=20)
    fail.remote()._on_completed(note)
    assert done.acquire(timeout=20)
    assert told[0] == 5
    assert isinstance(told[1], KeyError)


def test_a_reference_of_its_id():
    ref = ray.put("value")
    assert ray.get(ray.ObjectRef.from_hex(ref.hex())) == "value"
    assert ray.ObjectRef.from_binary(ref.binary()) == ref
    with pytest.raises((TypeError, ValueError)):
        ray.ObjectRef.from_hex("12")


def test_where_it_was_made():
    script = textwrap.dedent("""
        import ray
        ray.init(num_cpus=1, address="local")
        print(ray.put([1] * 1000).call_site())
        """)
    environment = {**os.environ, "RAY_record_ref_creation_sites": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert "<string>:4" in done.stdout, done.stderr
    assert ray.put(1).call_site() == ""


@ray.remote
class Self:
    def __init__(self):
        self.from_the_start = ray.get_runtime_context().current_actor
        self.n = 0

    def add(self):
        self.n += 1
        return self.n

    def me(self):
        return ray.get_runtime_context().current_actor

    def same(self):
        return self.from_the_start == self.me()


def test_the_actor_that_asks():
    actor = Self.remote()
    me = ray.get(actor.me.remote())
    assert me == actor
    assert ray.get(me.add.remote()) == 1
    assert ray.get(actor.same.remote()) is True
    with pytest.raises(RuntimeError, match="current_actor"):
        _ = ray.get_runtime_context().current_actor


def test_the_actor_that_asks_with_groups():
    @ray.remote(concurrency_groups={"io": 1})
    class Grouped:
        @ray.method(concurrency_group="io")
        def io(self):
            return "io"

        def me(self):
            return ray.get(ray.get_runtime_context().current_actor.io.remote())

    assert ray.get(Grouped.remote().me.remote()) == "io"


def test_the_rest_of_the_context():
    context = ray.get_runtime_context()
    assert context.gcs_address == ""
    assert context.worker.connected
    assert context.get_session_name().startswith("session") or context.get_session_name()

    @ray.remote
    def names():
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name()

    assert ray.get(names.options(name="given").remote()) == ("given", "names")


def test_errors_say_where():
    @ray.remote
    def fail():
        raise ValueError("why")

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(fail.remote())
    error = caught.value
    assert error.function_name == "fail"
    assert (error.ip, error.proctitle) == ("127.0.0.1", "ray::fail")
    assert isinstance(error.pid, int)
    assert "why" in error.traceback_str
    lost = ray.exceptions.ObjectLostError(f"{ray.ObjectRef.nil()} is gone")
    assert lost.object_ref_hex == "" or len(lost.object_ref_hex) == 40
    assert ray.exceptions.RpcError("lost", rpc_code=14).rpc_code == 14


def test_a_function_that_is_too_large():
    ballast = np.zeros(101 * 2**20, np.uint8)

    @ray.remote
    def heavy():
        return ballast.nbytes

    with pytest.raises(ValueError, match=r"remote function heavy is too large \(101 MiB"):
        heavy.remote()


def test_runs_that_are_left_out_of_the_timeline():
    @ray.remote
    def shown():
        pass

    @ray.remote(enable_task_events=False)
    def hidden():
        pass

    @ray.remote(enable_task_events=False)
    class Hidden:
        def call(self):
            pass

    @ray.remote
    class Mixed:
        def seen(self):
            pass

        @ray.method(enable_task_events=False)
        def unseen(self):
            pass

    mixed = Mixed.remote()
    ray.get([shown.remote(), hidden.remote(), Hidden.remote().call.remote()])
    ray.get([mixed.seen.remote(), mixed.unseen.remote()])
    ray.get(mixed.seen.options(enable_task_events=True).remote())
    names = {event["name"] for event in ray.timeline()}
    assert any("shown" in name for name in names)
    assert any("seen" in name for name in names)
    assert not any("idden" in name or "unseen" in name for name in names)
    with pytest.raises(TypeError, match="enable_task_events"):
        shown.options(enable_task_events=1)


def test_ctrl_c_in_a_repl_leads_to_cancel():
    script = textwrap.dedent("""
        import os, signal, threading, time
        import ray
        ray.init(num_cpus=1, address="local")

        @ray.remote
        def slow():
            time.sleep(1000)

        ref = slow.remote()
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        ray.get(ref)

        print("cancelled", ray.util.cancel_waited())
        try:
            ray.get(ref)
        except ray.exceptions.TaskCancelledError:
            print("it was")

        print("again", ray.util.cancel_waited())
        """)
    done = subprocess.run(
        [sys.executable, "-i", "-q"], input=script, capture_output=True, text=True, timeout=60
    )
    assert "ray.util.cancel_waited() cancels it" in done.stderr
    assert "cancelled 1" in done.stdout, done.stderr
    assert "it was" in done.stdout
    assert "again 0" in done.stdout
