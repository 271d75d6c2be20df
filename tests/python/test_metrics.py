"""ray.util.metrics."""

import os
import pickle
import signal
import subprocess
import sys
import threading

import pytest
import support

import ray
from ray.util.metrics import Counter, Gauge, Histogram, Metric, flush, snapshot

pytestmark = pytest.mark.usefixtures("cluster")


def value_of(name, **tags):
    """Of one series in the snapshot; None: it is not there."""
    for line in snapshot().splitlines():
        series, _, value = line.rpartition(" ")
        shown, _, rest = series.partition("{")
        if shown == name and all(f'{key}="{value}"' in rest for key, value in tags.items()):
            return float(value)
    return None


def test_counters():
    counter = Counter("rows", description="Rows.\nAll of them.", tag_keys=("file",))
    counter.inc(tags={"file": "a"})
    counter.inc(2.5, tags={"file": "a"})
    counter.inc(tags={"file": 'b"\n\\'})
    assert value_of("ray_rows_total", file="a") == 3.5
    text = snapshot()
    assert "# HELP ray_rows_total Rows.\\nAll of them.\n# TYPE ray_rows_total counter\n" in text
    assert 'file="b\\"\\n\\\\"' in text
    counter.inc(tags={"file": "a"})
    assert value_of("ray_rows_total", file="a") == 4.5


def test_gauges():
    gauge = Gauge("level")
    for value in (3, -1.25):
        gauge.set(value)
        assert value_of("ray_level") == value
    gauge.set(float("nan"))
    assert "ray_level{" in snapshot() and "NaN" in snapshot()
    gauge.set(0)


def test_histograms():
    histogram = Histogram("latency", boundaries=[1, 10], tag_keys=("path",))
    for value in (0.5, 1, 5, 100):
        histogram.observe(value, tags={"path": "/"})
    buckets = [value_of("ray_latency_bucket", path="/", le=le) for le in ("1", "10", "+Inf")]
    assert buckets == [2, 3, 4]
    assert value_of("ray_latency_sum", path="/") == 106.5
    assert value_of("ray_latency_count", path="/") == 4


def test_default_tags_and_info():
    counter = Counter("tagged", tag_keys=("a", "b")).set_default_tags({"a": "1"})
    counter.inc()
    counter.inc(tags={"b": "2"})
    counter.inc(tags={"b": "2", "a": "3"})
    counter.inc(tags={"a": "3", "b": "2"})
    assert value_of("ray_tagged_total", a="1", b="") == 1
    assert value_of("ray_tagged_total", a="1", b="2") == 1
    assert value_of("ray_tagged_total", a="3", b="2") == 2
    assert counter.info == {
        "name": "tagged",
        "description": "",
        "tag_keys": ("a", "b"),
        "default_tags": {"a": "1"},
    }
    assert Histogram("h", boundaries=[1]).info["boundaries"] == [1.0]


def test_processes_are_added_up():
    @ray.remote
    def work():
        Counter("shared").inc(10)
        Histogram("shared_h", boundaries=[1]).observe(0.5)
        flush()
        return os.getpid()

    @ray.remote
    class Worker:
        def __init__(self, counter):
            self.counter = counter

        def work(self):
            self.counter.inc()

    Counter("shared").inc(1)
    ray.get([work.remote() for _ in range(5)])
    actor = Worker.remote(Counter("shared"))
    ray.get(actor.work.remote())
    assert support.wait_until(lambda: value_of("ray_shared_total") == 52)
    assert value_of("ray_shared_h_count") == 5


def test_a_process_that_ends_tells_and_one_that_is_killed_has_told_before():
    @ray.remote
    class Worker:
        def count(self, name):
            Counter(name).inc()
            return os.getpid()

    ending, killed = Worker.remote(), Worker.remote()
    ray.get(ending.count.remote("ending"))
    ending.__ray_terminate__.remote()
    assert support.wait_until(lambda: value_of("ray_ending_total") == 1)
    pid = ray.get(killed.count.remote("killed"))
    assert support.wait_until(lambda: value_of("ray_killed_total") == 1)
    os.kill(pid, signal.SIGKILL)
    assert support.wait_until(lambda: not support.alive(pid))
    assert value_of("ray_killed_total") == 1


def test_threads_lose_nothing():
    counter = Counter("threads")

    def count():
        for _ in range(10_000):
            counter.inc()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value_of("ray_threads_total") == 40_000


def test_they_travel():
    gauge = Gauge("travels", tag_keys=("x",)).set_default_tags({"x": "1"})
    copy = pickle.loads(pickle.dumps(gauge))
    assert copy.info == gauge.info
    copy.set(2)
    assert value_of("ray_travels", x="1") == 2
    histogram = Histogram("travels_h", "words", [1, 2], ("x",))
    assert pickle.loads(pickle.dumps(histogram)).info == histogram.info


def test_bad_input():
    for name in ("", "1a", "a b", None):
        with pytest.raises(ValueError, match="no name of a metric"):
            Counter(name)
    with pytest.raises(TypeError):
        Counter("bad", tag_keys="abc")
    with pytest.raises(TypeError):
        Counter("bad", tag_keys=(1,))
    with pytest.raises(TypeError):
        Metric("bad")
    counter = Counter("bad", tag_keys=("a",))
    for value in (0, -1, float("nan")):
        with pytest.raises(ValueError):
            counter.inc(value)
    with pytest.raises(ValueError, match="no tag 'b'"):
        counter.inc(tags={"b": "x"})
    with pytest.raises(TypeError):
        counter.inc(tags={"a": 1})
    with pytest.raises(ValueError, match="no tag"):
        counter.set_default_tags({"b": "x"})
    with pytest.raises(ValueError, match="another metric"):
        Gauge("bad")
    for boundaries in (None, [], [0, 1], [2, 1], [1, 1]):
        with pytest.raises(ValueError):
            Histogram("bad_h", boundaries=boundaries)


def test_too_many_series_are_told_and_dropped(monkeypatch):
    from ray.util import metrics

    monkeypatch.setattr(metrics, "_SERIES_MOST", metrics._count + 2)
    counter = Counter("many", tag_keys=("n",))
    counter.inc(tags={"n": "0"})
    counter.inc(tags={"n": "1"})
    with pytest.warns(RuntimeWarning, match="not counted"):
        counter.inc(tags={"n": "2"})
    assert value_of("ray_many_total", n="1") == 1 and value_of("ray_many_total", n="2") is None


def test_a_session_whose_daemon_is_gone_can_be_ended():
    code = """
import os, signal, ray
from ray.util.metrics import Counter
ray.init(num_cpus=1)
Counter("lost").inc()
os.kill(ray._core.session()["daemon_pid"], signal.SIGKILL)
ray.shutdown()
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended\n", done.stderr
