"""What bench/ writes into docs/figures: the pages, their stamps, and where a part of a run goes."""

import getpass
import json
import os
import platform
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BENCH, FIGURES = ROOT / "bench", ROOT / "docs" / "figures"


@pytest.fixture
def pages(monkeypatch):
    """The folder's modules find each other by its path."""
    if not BENCH.exists():
        pytest.skip("bench/ is not beside the tests")
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delenv("MOBULA_FAST_PATH", raising=False)
    import pages

    return pages


def results_of_bench(**cells):
    return {
        "versions": {"Mobula": "1", "Ray": "2"},
        "cpus": 2,
        "windows": 1,
        "seconds": 0.5,
        "separate": False,
        "load": [0.5, 1.0],
        "wake_us": {"wake": 20.0, "near": 2.0},
        "rows": {"tasks_one": cells},
    }


def test_every_page_is_what_its_figures_give(pages):
    stored = sorted(FIGURES.glob("*.json"))
    assert stored
    for path in stored:
        page = path.with_suffix(".md").read_text()
        assert page == pages.page(path.stem, json.loads(path.read_text())), (
            f"{path.stem}: run bench/pages.py"
        )
        assert all(len(line) <= pages.COLUMNS for line in page.splitlines()), path.stem
        head = page.split("##")[0]
        assert "\n- date: 2" in head and "\n- machine: " in head and "\n- build: Mobula " in head
    assert {path.stem for path in FIGURES.glob("*.md")} == {path.stem for path in stored}


def test_a_stamp_has_date_machine_and_build_and_no_host(pages):
    import stamp

    made = stamp.stamp()
    text = "\n".join(stamp.lines(made))
    assert made["machine"]["cores"] == len(os.sched_getaffinity(0))
    assert made["machine"]["kernel"] and made["machine"]["cpu"]
    assert made["build"]["version"] != "not known"
    assert f"build: Mobula {made['build']['version']}, commit " in text
    stamped = json.dumps(made)
    assert str(ROOT) not in stamped and platform.node() not in stamped.split('"')
    assert getpass.getuser() not in stamped.split('"')


def test_figures_and_page_are_written_with_a_stamp(pages, tmp_path, capsys):
    results = results_of_bench(Mobula={"best": 2000.0}, Ray={"best": 3.0})
    path = pages.write("bench", results, folder=tmp_path)
    assert path == tmp_path / "bench.md" and "bench.md" in capsys.readouterr().err
    assert json.loads((tmp_path / "bench.json").read_text())["stamp"]["machine"]["cores"] > 0
    assert "| tasks one at a time | 2,000/s | 3.00/s |  | 667 |  |" in path.read_text()


def test_a_part_of_a_run_does_not_replace_the_whole(pages, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "FIGURES", tmp_path / "whole")
    monkeypatch.setattr(pages, "PARTIAL", tmp_path / "part")
    pages.write("proof", {"lines": ["a line"]}, whole=False)
    assert not (tmp_path / "whole").exists()
    pages.write("proof", {"lines": ["a line"]})
    assert (tmp_path / "whole" / "proof.md").read_text().endswith("\n- a line\n")


def test_what_went_through_the_daemon_has_a_page_of_its_own(pages, tmp_path, monkeypatch):
    monkeypatch.setenv("MOBULA_FAST_PATH", "0")
    path = pages.write("bench", results_of_bench(Mobula={"best": 9.0}), folder=tmp_path)
    assert path.name == "bench-daemon.md" and "through the daemon" in path.read_text()


def test_an_error_is_told_below_the_table(pages):
    import table

    text = "error: RuntimeError: " + "a long story " * 3
    page = table.markdown(results_of_bench(Mobula={"best": 9.0}, Ray={"error": text}))
    assert "| tasks one at a time | 9.00/s | error |" in page
    assert f"- Ray, tasks one at a time: {text}".split(" a long")[0] in page


def test_rows_of_memory_and_c(pages):
    import c_rate
    import memory

    figures = {"Mobula": [1.0, 3.0], "Ray": ["error: no"], "disk": [4.0]}
    page = memory.markdown({"windows": 2, "rows": {"spill": figures}})
    assert "| 3.00 GB/s | error |  | 4.00 GB/s | 0.75 |" in page and "error: no" in page
    output = "C tasks, one at a time               1060000/s\nnoise\nC calls   12/s\n"
    assert c_rate.rows(output) == {"C tasks, one at a time": 1060000, "C calls": 12}


def test_rows_of_a_cluster(pages):
    import cluster

    figures = {"Mobula": [1.0, 2.0], "Ray": ["not in 240 s"], "beside": [4.0]}
    page = cluster.markdown({"windows": 2, "rows": {"pull": figures}})
    assert "| pull of 1 GiB | 2.00 GB/s | error |  | 3.20 GB/s | 4.00 GB/s: a socket |" in page
    assert "Ray, pull of 1 GiB: not in 240 s" in page
