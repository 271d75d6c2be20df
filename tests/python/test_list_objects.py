"""What there is in the store, who holds it and why: ray.util.state.list_objects and `ray memory`."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import support

import ray
from ray.util.state import list_objects

MB = 1 << 20
RAY = os.path.join(os.path.dirname(sys.executable), "ray")


def rows(ref):
    return list_objects(filters=[("object_id", "=", ref.hex())])


def reasons(ref):
    return sorted(row.reference_type for row in rows(ref))


@ray.remote
def wait_for(path, *values):
    support.wait_for_file(path)
    return len(values)


@ray.remote
class Holder:
    def hold(self, wrapped):
        self.wrapped = wrapped
        return os.getpid()

    def read(self):
        self.value = ray.get(self.wrapped[0])

    def drop(self):
        self.wrapped = self.value = None


@pytest.fixture
def session(start):
    start(num_cpus=2, object_store_memory=60 * MB)


def test_a_local_reference(session):
    ref = ray.put(b"x" * 1000)
    (row,) = rows(ref)
    assert (
        row.object_size == 1009
        and row.state == "IN_MEMORY"
        and row.reference_type == "LOCAL_REFERENCE"
    )
    assert row.pid == row.owner_pid == os.getpid() and row.type == "Driver" and row.call_site == ""
    assert row["pid"] == row.pid and row.asdict()["state"] == "IN_MEMORY"
    small = ray.put(7)
    assert rows(small)[0].object_size == 9
    name = ref.hex()
    del ref
    assert not list_objects(filters=[("object_id", "=", name)])


def test_a_view_pins(session):
    ref = ray.put(np.zeros(MB, dtype=np.uint8))
    view = ray.get(ref)
    assert reasons(ref) == ["LOCAL_REFERENCE", "PINNED_IN_MEMORY"]
    part = view[10:20]
    del view
    assert reasons(ref) == ["LOCAL_REFERENCE", "PINNED_IN_MEMORY"]
    del part
    assert reasons(ref) == ["LOCAL_REFERENCE"]


def test_inside_another_object(session):
    inner = ray.put(b"x" * 1000)
    name = inner.hex()
    outer = [ray.put([inner]), ray.put({"a": [inner]})]
    (held,) = [row for row in rows(inner) if row.reference_type == "CAPTURED_IN_OBJECT"]
    assert held.count == 2 and held.pid == 0
    del inner
    assert [row.reference_type for row in list_objects(filters=[("object_id", "=", name)])] == [
        "CAPTURED_IN_OBJECT"
    ]
    del outer
    assert support.wait_until(lambda: not list_objects(filters=[("object_id", "=", name)]))


def test_arguments_and_results_of_tasks(session, tmp_path):
    ref = ray.put(b"x" * 1000)
    go = str(tmp_path / "go")
    results = [wait_for.remote(go, ref) for _ in range(4)]
    assert support.wait_until(lambda: "USED_BY_PENDING_TASK" in reasons(ref))
    (held,) = [row for row in rows(ref) if row.reference_type == "USED_BY_PENDING_TASK"]
    assert held.count == 4
    pending = rows(results[3])[0]
    assert pending.state == "PENDING" and pending.object_size == -1
    support.touch(go)
    assert ray.get(results, timeout=30) == [1, 1, 1, 1]
    assert rows(results[3])[0].state == "IN_MEMORY"
    assert support.wait_until(lambda: "USED_BY_PENDING_TASK" not in reasons(ref))


def test_an_actor_that_keeps_a_reference(session):
    ref = ray.put(np.zeros(MB, dtype=np.uint8))
    holder = Holder.remote()
    pid = ray.get(holder.hold.remote([ref]), timeout=30)
    assert support.wait_until(lambda: pid in [row.pid for row in rows(ref)])
    (held,) = [row for row in rows(ref) if row.pid == pid]
    assert held.reference_type == "LOCAL_REFERENCE" and held.type == "Worker"
    ray.get(holder.read.remote(), timeout=30)
    assert (pid, "PINNED_IN_MEMORY") in [(row.pid, row.reference_type) for row in rows(ref)]
    ray.get(holder.drop.remote(), timeout=30)
    assert support.wait_until(lambda: pid not in [row.pid for row in rows(ref)])
    assert "ACTOR_HANDLE" in [row.reference_type for row in list_objects()]


def test_what_is_on_disk(session):
    refs = [ray.put(np.zeros(5 * MB, dtype=np.uint8)) for _ in range(20)]
    states = [rows(ref)[0].state for ref in refs]
    assert "SPILLED" in states and "IN_MEMORY" in states
    assert rows(refs[states.index("SPILLED")])[0].object_size > 5 * MB
    assert len(list_objects(filters=[("state", "=", "SPILLED")])) == states.count("SPILLED")
    # What was used last is the last to go.
    ray.get(refs[states.index("SPILLED")])
    assert rows(refs[states.index("SPILLED")])[0].state == "IN_MEMORY" and states[-1] == "IN_MEMORY"


def test_limits_and_filters(session):
    refs = [ray.put(i) for i in range(250)]
    assert len(list_objects()) == 100 and len(list_objects(limit=3)) == 3
    assert len(list_objects(limit=10_000)) >= 250
    assert len(list_objects(filters=[("object_size", "!=", 9)], limit=1000)) == 0
    for wrong in ([("nothing", "=", 1)], [("pid", "<", 1)], ["pid=1"]):
        with pytest.raises(ValueError):
            list_objects(filters=wrong)
    for wrong in (0, -1, "x"):
        with pytest.raises(ValueError):
            list_objects(limit=wrong)
    del refs


def test_a_daemon_that_does_not_answer(session):
    daemon = support.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError, match=r"did not answer in 0\.2 s"):
            list_objects(timeout=0.2)
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert list_objects(timeout=None) == []
    with pytest.raises(ValueError, match="timeout must not be negative"):
        list_objects(timeout=-1)
    with pytest.raises(TypeError, match="timeout must be a number of seconds"):
        list_objects(timeout="soon")


def test_a_store_that_is_full_can_be_looked_at(session):
    views = []
    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        while True:
            views.append(ray.get(ray.put(np.zeros(5 * MB, dtype=np.uint8))))
    assert len([row for row in list_objects() if row.reference_type == "PINNED_IN_MEMORY"]) == len(
        views
    )


def test_ten_thousand_objects(session):
    refs = [ray.put(i) for i in range(10_000)]
    assert len(list_objects(limit=100_000)) >= 10_000
    del refs


def test_places_when_asked_for(start, monkeypatch):
    monkeypatch.setenv("RAY_record_ref_creation_sites", "1")
    start(num_cpus=1)

    @ray.remote
    def put():
        return [ray.put(1)]

    ref = ray.put(1)
    result = put.remote()
    inner = ray.get(result)[0]
    for made, name in (
        (ref, "test_places_when_asked_for"),
        (result, "test_places_when_asked_for"),
        (inner, "put"),
    ):
        site = rows(made)[0].call_site
        assert re.search(rf"test_list_objects\.py:\d+ in {name}$", site), site


def test_no_session_is_a_clear_error():
    with pytest.raises(ConnectionError, match="no session"):
        list_objects()


def test_the_command(session):
    refs = [ray.put(np.zeros(5 * MB, dtype=np.uint8)) for _ in range(20)]
    view = ray.get(refs[3])
    done = subprocess.run(
        [RAY, "memory", "--units", "MB"], capture_output=True, text=True, timeout=40
    )
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^20 objects\n  in memory: \d+, [\d.]+ MB\n  on disk: \d+, [\d.]+ MB$", done.stdout, re.M
    )
    assert f"driver {os.getpid()}: read in place" in done.stdout and refs[3].hex() in done.stdout
    short = subprocess.run(
        [RAY, "memory", "--stats-only"], capture_output=True, text=True, timeout=40
    )
    assert short.returncode == 0 and refs[3].hex() not in short.stdout
    del view


def test_the_command_without_a_session():
    done = subprocess.run([RAY, "memory"], capture_output=True, text=True, timeout=40)
    assert done.returncode == 1 and "no session" in done.stderr and done.stdout == ""
