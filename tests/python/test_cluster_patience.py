"""How long a node may be silent before it is dead, where Ray's settings of health checks say so."""

import json
import os
import signal
import time

import clusters
import drivers
import pytest
import support

from ray._private import roster

pytestmark = [
    pytest.mark.one_path("nodes only"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60
FLOOR = 12  # seconds; without it a death takes up to 5
RENEWED = 3  # seconds before a death in which the node may have renewed last, on a busy machine


no_nodes = clusters.none_left


def test_a_death_is_declared_no_sooner():
    """The one who declares it has joined the node that was configured."""
    checks = {"health_check_period_ms": 1000 * FLOOR // 4, "health_check_failure_threshold": 4}
    first = clusters.head(f"--system-config={json.dumps(checks)}")
    second = clusters.join(first)
    third = clusters.join(second)
    clusters.await_all(first, second, third)
    begin = time.monotonic()
    clusters.kill(first)
    clusters.await_all(second, third, seconds=LIMIT)
    assert time.monotonic() - begin > FLOOR - RENEWED


def test_a_node_that_stands_still_for_less_goes_on():
    first = clusters.head(RAY_health_check_timeout_ms="3600000")
    second = clusters.join(first)
    clusters.await_all(first, second)
    os.kill(second.pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(second.pid, signal.SIGCONT)
    assert support.wait_until(lambda: roster.look(second.socket)[0].reason == "", LIMIT)
    clusters.await_all(first, second)


def test_what_makes_no_sense_is_refused():
    words = clusters.refused("--head", "--port=0", RAY_health_check_period_ms="often")
    assert "RAY_health_check_period_ms=often" in words
    assert "threshold" in clusters.refused(
        "--head", "--port=0", '--system-config={"health_check_failure_threshold": -1}'
    )
    for options, expected in (
        (["--head", "--system-config=[]"], "--system-config is JSON like"),
        (["--address=127.0.0.1:1", '--system-config={"a": 1}'], "--system-config is for the head"),
    ):
        done = drivers.command("start", *options)
        assert done.returncode == 2 and expected in done.stderr
