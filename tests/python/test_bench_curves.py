"""The parts of bench/scaling.py that measure nothing: its sentences about growth, its tables and
its plots.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.one_path("nothing runs")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")


@pytest.fixture
def bench(monkeypatch):
    """The folder's modules, which find each other by its path."""
    if not os.path.exists(BENCH):
        pytest.skip("bench/ is not beside the tests")
    monkeypatch.syspath_prepend(BENCH)
    import curve_table
    import curves
    import growth

    yield {"curves": curves, "curve_table": curve_table, "growth": growth}


def made_up(curves):
    """Results in which every figure is 2, whatever the size."""
    return {
        "version": "1",
        "cores": 2,
        "passes": 1,
        "windows": 1,
        "seconds": 0.1,
        "load": [0.0, 0.0],
        "copy": 10.0,
        "curves": {
            curve.key: {
                line.key: [{"size": size, "best": 2.0} for size in curve.sizes]
                for line in curve.lines
            }
            for curve in curves.CURVES
        },
    }


def test_growth_is_told_at_the_end_and_at_the_worst(bench):
    found = bench["growth"].growth({1: 90.0, 1000: 2.0, 10_000: 5.0, 100_000: 3.0}, 1000)
    assert (found.last, found.ratio) == (100_000, 1.5)
    assert (found.worst, found.worst_ratio) == (10_000, 2.5)


def test_a_verdict_names_sizes_and_ratio(bench):
    curves, verdict = bench["curves"], bench["growth"].verdict
    submit = next(line for line in curves.QUEUED.lines if line.key == "submit")
    points = [{"size": 1000, "best": 2.0}, {"size": 1_000_000, "best": 2.6}]
    text = verdict(curves.QUEUED, submit, points)
    assert text.endswith("cost per task at 1,000,000 is 1.3 times that at 1,000")


def test_a_copy_is_judged_by_the_byte(bench):
    curves, growth = bench["curves"], bench["growth"]
    by_value = next(line for line in curves.ARGUMENTS.lines if line.key == "value")
    points = [{"size": size * curves.MIB, "best": 100.0 * size} for size in (1, 4, 256)]
    assert growth.growth(growth.costs(by_value, points), by_value.base).worst_ratio == 1


def test_the_page_has_every_curve_and_verdict(bench):
    curves, curve_table = bench["curves"], bench["curve_table"]
    page = curve_table.markdown(made_up(curves))
    for curve in curves.CURVES:
        assert f"## {curve.title}" in page
    assert page.count(" times that at ") == sum(
        bool(line.per) for curve in curves.CURVES for line in curve.lines
    )


def test_plots_are_drawn(bench, tmp_path):
    python = os.path.join(ROOT, ".venv-plots", "bin", "python")
    if not os.path.exists(python):
        python = sys.executable
        if importlib.util.find_spec("matplotlib") is None:
            pytest.skip("matplotlib is not here: scripts/setup.sh plots installs it")
    results, folder = tmp_path / "scaling.json", tmp_path / "plots"
    results.write_text(json.dumps(made_up(bench["curves"])))
    command = [
        python,
        os.path.join(BENCH, "plots.py"),
        "--results",
        str(results),
        "--out",
        str(folder),
    ]
    subprocess.run(command, check=True, timeout=50)
    drawn = {path.name: path.read_text() for path in folder.iterdir()}
    assert sorted(drawn) == ["arguments.svg", "queued.svg", "submitters.svg", "workers.svg"]
    for text in drawn.values():
        # A date would make every drawing a change.
        assert text.rstrip().endswith("</svg>") and "<dc:date>" not in text
