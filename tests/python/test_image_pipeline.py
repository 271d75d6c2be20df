"""examples/image_pipeline.py, with few photos and a store that does not hold them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

for library in ("torchvision", "PIL", "pandas", "matplotlib", "tqdm"):
    pytest.importorskip(library)

PROGRAM = Path(__file__).parents[2] / "examples" / "image_pipeline.py"


def test_the_pipeline_with_a_store_that_is_too_small(folder):
    command = [
        *(sys.executable, str(PROGRAM)),
        *("--photos", "10", "--pixels", "1600x1200", "--store", "64"),
        *("--numbers", "2000", "--points", "20000"),
        *("--folder", f"{folder}/photos", "--chart", f"{folder}/chart.svg"),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    for workload in ("sequence", "pi", "images"):
        for how in ("serial", "distributed"):
            assert any(re.match(rf"{workload}, {how}: \d+\.\d\d s", line) for line in lines), lines
    assert "pi is about 3.1" in ran.stdout
    assert "10/10" in ran.stderr  # tqdm's bars
    assert re.search(r"Spilled \d+ MiB, \d+ objects, write throughput \d+ MiB/s", ran.stderr)
    assert "<svg" in Path(folder, "chart.svg").read_text()
    assert len(list(Path(folder, "photos").glob("*.jpg"))) == 10
