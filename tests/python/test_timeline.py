"""The timeline: a Chrome trace of what really ran, when and where."""

import json
import os
import time

import pytest

import ray
import ray.experimental

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def timed(seconds):
    begin = time.time()
    time.sleep(seconds)
    return begin, time.time(), os.getpid()


@ray.remote
class Worker:
    def __init__(self):
        time.sleep(0.01)

    def work(self):
        time.sleep(0.01)
        return os.getpid()


def runs(events, name):
    return [event for event in events if event["ph"] == "X" and name in event["name"]]


def test_every_task_with_its_real_start_end_and_worker():
    told = ray.get([timed.remote(0.02) for _ in range(12)])
    events = [
        (event["args"]["pid"], event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6)
        for event in runs(ray.timeline(), "timed")
    ]
    assert len(events) == 12
    # By worker and time. A run begins before its function does, and ends after it: the first one of
    # a worker has imports to do.
    rows = list(zip(sorted((pid, begin, end) for begin, end, pid in told), sorted(events)))
    for (pid, begin, end), (worker, from_, to) in rows:
        assert worker == pid and from_ <= begin + 0.001 and end - 0.001 <= to, rows
    for (_, before), (_, after) in zip(rows, rows[1:]):
        assert before[0] != after[0] or before[2] <= after[1] + 0.001, rows


def test_the_rows_are_the_workers():
    pids = {pid for _, _, pid in ray.get([timed.remote(0.02) for _ in range(8)])}
    rows = {}
    for event in runs(ray.timeline(), "timed"):
        rows.setdefault((event["pid"], event["tid"]), set()).add(event["args"]["pid"])
    assert all(len(found) == 1 for found in rows.values())
    assert pids <= set().union(*rows.values())


def test_workers_that_came_and_went_have_rows_of_their_own():
    pids = set()
    for _ in range(20):
        brief = Worker.options(num_cpus=0).remote()
        pids.add(ray.get(brief.work.remote()))
        ray.kill(brief)
    rows = {}
    for event in runs(ray.timeline(), "Worker"):
        rows.setdefault((event["pid"], event["tid"]), set()).add(event["args"]["pid"])
    assert all(len(found) == 1 for found in rows.values())
    assert pids <= set().union(*rows.values())


def test_tasks_in_one_row_do_not_overlap():
    ray.get([timed.remote(0.001) for _ in range(100)])
    rows = {}
    for event in runs(ray.timeline(), ""):
        rows.setdefault((event["pid"], event["tid"]), []).append(
            (event["ts"], event["ts"] + event["dur"])
        )
    for spans in rows.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1 for before, after in zip(spans, spans[1:]))


def test_actors_are_there_too():
    worker = Worker.remote()
    ray.get([worker.work.remote() for _ in range(3)])
    assert len(runs(ray.timeline(), "work")) >= 3
    assert runs(ray.timeline(), "Worker")


def test_failed_tasks_are_there_too():
    @ray.remote
    def doomed():
        raise ValueError

    with pytest.raises(ValueError):
        ray.get(doomed.remote())
    assert len(runs(ray.timeline(), "doomed")) == 1


def test_the_name_is_the_option():
    ray.get(timed.options(name="renamed").remote(0))
    assert len(runs(ray.timeline(), "renamed")) == 1


def test_a_file_for_chrome(folder):
    ray.get(timed.remote(0))
    path = os.path.join(folder, "trace.json")
    assert ray.timeline(filename=path) is None
    with open(path) as file:
        events = json.load(file)
    assert runs(events, "timed")
    for event in runs(events, ""):
        assert {"name", "ph", "ts", "dur", "pid", "tid"} <= set(event)
        assert event["dur"] >= 0


def test_a_file_that_can_not_be_written():
    with pytest.raises(OSError):
        ray.timeline(filename="/nowhere/at/all.json")


def test_the_old_spelling(capsys, monkeypatch, folder):
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr("tempfile.tempdir", None)
    ray.get(timed.remote(0))
    ray.experimental.ui.task_timeline()
    (path,) = [os.path.join(folder, name) for name in os.listdir(folder)]
    assert path in capsys.readouterr().out
    with open(path) as file:
        assert runs(json.load(file), "timed")
