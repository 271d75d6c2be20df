"""ray.experimental.tqdm_ray."""

import subprocess
import sys

import support

PROGRAM = """
import time, ray
from ray.experimental import tqdm_ray

@ray.remote
def work(n, name):
    print("before", name)
    for i in tqdm_ray.tqdm(range(n), desc=name, flush_interval_s=0):
        pass
    bar = tqdm_ray.tqdm(total=3, desc="manual", unit="rows")
    bar.update(2)
    bar.set_description("renamed")
    bar.total += 1
    bar.refresh()
    bar.close()
    print("after", name)

ray.init(num_cpus=2)
ray.get([work.remote(50, "first"), work.remote(80, "second")])
for _ in tqdm_ray.tqdm([1, 2], desc="driver's own"):
    tqdm_ray.safe_print("safely")
ray.shutdown()
"""


def test_bars_of_workers_are_drawn_at_the_driver(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, support.run_folder()], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "magic" not in done.stdout + done.stderr
    for name, total in (("first", 50), ("second", 80)):
        assert f"before {name}" in done.stdout and f"after {name}" in done.stdout
        assert f"{name}: 100%" in done.stderr and f"{total}/{total}" in done.stderr
    assert "renamed:  50%" in done.stderr and "2/4" in done.stderr
    assert "driver's own: 100%" in done.stderr and done.stdout.count("safely") == 2
