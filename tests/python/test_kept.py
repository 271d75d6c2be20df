"""What the daemon of a node keeps by key: beyond a job, or until its end."""

import support

import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put
from ray.util.metrics import Counter, snapshot

NODE = {"num_cpus": 2}


def count(name, times):
    Counter(name).inc(times)
    return snapshot()


@ray.remote
def count_in_a_task(name, times):
    Counter(name).inc(times)


def count_remotely(name, times):
    ray.get(count_in_a_task.remote(name, times))


def put_and_look(key, value):
    return _internal_kv_put(key, value), _internal_kv_get(key)


def test_what_one_driver_puts_the_next_one_finds(driver):
    first = driver()
    assert first.call(put_and_look, "left", "behind") == (False, b"behind")
    assert first.end() == 0
    assert driver().call(_internal_kv_get, "left") == b"behind"


def test_metrics_have_their_job_and_go_with_it(driver):
    first, second = driver(), driver()
    job = first.call(_job)
    text = first.call(count, "shared", 1)
    assert f'ray_shared_total{{JobId="{job}"}} 1' in text
    text = second.call(count, "shared", 2)
    assert text.count("ray_shared_total{") == 2 and text.count("# TYPE ray_shared_total") == 1
    assert first.end() == 0
    assert support.wait_until(lambda: job not in second.call(snapshot))
    assert "ray_shared_total" in second.call(snapshot)


def test_those_of_a_killed_driver_go_too(driver):
    first, second = driver(), driver()
    first.call(count_remotely, "lost", 1)
    assert support.wait_until(lambda: "ray_lost_total" in second.call(snapshot))
    first.kill()
    assert support.wait_until(lambda: "ray_lost_total" not in second.call(snapshot))


def _job():
    return ray.get_runtime_context().get_job_id()
