"""Kills of everything in a cluster of four nodes (bench/chaos), for a quarter of a minute."""

import subprocess
import sys
from pathlib import Path

import pytest
import support

RUN = Path(__file__).resolve().parents[2] / "bench" / "chaos" / "run.py"
SEED = 2
PATIENCE = 25  # seconds, on a busy machine
MIX = "worker=10,actor=4,driver=1,daemon=2"


@pytest.mark.skipif(
    not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
)
@pytest.mark.one_path("tasks that leave their node go through the daemons")
def test_kills_at_random_in_a_cluster():
    options = {"seed": SEED, "kills": 15, "seconds": 12, "tasks": 500, "life": 15}
    command = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(
        [sys.executable, RUN, "--cluster", *command, f"--patience={PATIENCE}", f"--mix={MIX}"],
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert f"seed {SEED}" in done.stdout
    assert done.returncode == 0
