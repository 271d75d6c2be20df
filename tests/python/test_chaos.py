"""Kills of everything at random (bench/chaos), for a few seconds; and that its verdict sees what is
wrong.
"""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import support

CHAOS = Path(__file__).resolve().parents[2] / "bench" / "chaos"
SEED = 4
PATIENCE = 25  # seconds, where the promise is 5: the machine may be busy


def test_kills_at_random():
    options = {"seed": SEED, "kills": 30, "seconds": 6, "tasks": 500, "life": 15}
    command = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(
        [sys.executable, CHAOS / "run.py", *command, f"--patience={PATIENCE}"],
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert f"seed {SEED}" in done.stdout
    assert done.returncode == 0


@pytest.mark.one_path("no session")
def test_a_run_takes_no_other_runs_processes_for_its_own(folder, monkeypatch):
    """Two drivers of the same name; that of the other run is still there."""
    monkeypatch.syspath_prepend(str(CHAOS))
    import crew

    started = []

    def start(command, env, **rest):
        started.append(subprocess.Popen(["sleep", "100"], env=env))
        return started[-1]

    monkeypatch.setattr(crew, "subprocess", types.SimpleNamespace(Popen=start))
    for name in ("one", "other"):
        os.mkdir(f"{folder}/{name}")
    one, other = (crew.Driver(f"{folder}/{name}", "d1", 0) for name in ("one", "other"))
    try:
        assert support.wait_until(lambda: crew.with_mark(other.mark) == [other.pid])
        assert crew.with_mark(one.mark) == [one.pid]
        words = f"{one.pid} (sleep 100; state S, parent {os.getpid()}"
        assert support.wait_until(lambda: words in crew.described(one.pid))
    finally:
        for process in started:
            process.kill()
            process.wait()


SPILLS = """
import os, sys, ray
ray.init(address=sys.argv[1])
held = [ray.put(os.urandom(2 << 20)) for _ in range(100)]
"""


@pytest.mark.one_path("no session")
def test_a_node_that_has_spilled_has_nothing_open_that_is_left(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(CHAOS))
    monkeypatch.setenv("RAY_TMPDIR", folder)
    from node import Node

    node = Node(folder)
    try:
        subprocess.run([sys.executable, "-c", SPILLS, node.folder], check=True)
        assert any("/mobula_spill_" in name for name in node.open_descriptors())
        assert support.wait_until(lambda: not node.more_descriptors()), node.more_descriptors()
    finally:
        node.stop()


@pytest.fixture
def history(folder, monkeypatch):
    """The module; `folder` is the shift's."""
    monkeypatch.syspath_prepend(str(CHAOS))
    import history

    yield history
    history.forget()


def judge(folder, killed=(), complete=True):
    from verdict import Verdict

    return Verdict(folder, dict.fromkeys(killed, 1 << 62), complete).wrong


def told(history, folder, id, word, runs=1):
    """The lines of an id that was submitted, began so often, and had this result."""
    history.note(f"{folder}/told", history.SUBMIT, id)
    for _ in range(runs):
        history.note(f"{folder}/runs", history.BEGIN, id)
    if word == "value":
        history.note(f"{folder}/runs", history.END, id)
    if word:
        history.note(f"{folder}/told", history.RESULT, id, word)


@pytest.mark.one_path("no session")
def test_a_history_that_may_be(history, folder):
    told(history, folder, "t.1", "value")
    told(history, folder, "w.2", "TaskCancelledError", runs=0)
    told(history, folder, "P1.3", "value")
    told(history, folder, "P1.4", "value")
    assert judge(folder) == []
    told(history, folder, "t.5", "value", runs=2)
    told(history, folder, "o.6", "WorkerCrashedError")
    told(history, folder, "P1.7", "ActorUnavailableError")
    assert judge(folder, killed=[os.getpid()]) == []


@pytest.mark.one_path("no session")
@pytest.mark.parametrize(
    "id, word, runs, wrong",
    [
        ("t.1", "", 1, "nothing was told of it"),
        ("t.1", "WRONG", 1, "WRONG"),
        ("t.1", "WorkerCrashedError", 1, "WorkerCrashedError"),
        ("o.1", "value", 2, "1 at most"),
        ("P1.1", "value", 2, "1 at most"),
        ("r.1", "WorkerCrashedError", 1, "after 1 of 4 runs"),
        ("r.1", "value", 5, "4 at most"),
        ("w.1", "TaskCancelledError", 1, "0 at most"),
        ("Q1.1", "ActorUnavailableError", 1, "ActorUnavailableError"),
        ("C1.1", "ActorUnavailableError", 1, "ActorUnavailableError"),
    ],
)
def test_a_history_that_may_not_be(history, folder, id, word, runs, wrong):
    told(history, folder, id, word, runs)
    found = judge(folder, killed=[os.getpid()])
    assert len(found) == 1 and wrong in found[0]


@pytest.mark.one_path("no session")
def test_what_nobody_killed(history, folder):
    told(history, folder, "t.1", "value", runs=2)
    told(history, folder, "o.2", "WorkerCrashedError")
    assert len(judge(folder)) == 2 and all("was not killed" in text for text in judge(folder))


@pytest.mark.one_path("no session")
def test_an_order_that_may_not_be(history, folder):
    for id in ("P1.2", "P1.1", "T2.4", "T2.3"):
        told(history, folder, id, "value")
    assert judge(folder) == ["P1.1 began after P1.2"]
    assert judge(folder, complete=False) == ["P1.1 began after P1.2"]


@pytest.mark.one_path("no session")
def test_a_run_after_its_result(history, folder):
    told(history, folder, "x.1", "TaskCancelledError", runs=0)
    history.note(f"{folder}/runs", history.BEGIN, "x.1")
    (wrong,) = judge(folder)
    assert "began after its result was there" in wrong
