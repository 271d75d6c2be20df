"""How Mobula's costs grow: with workers, submitting processes, queued tasks, and the size of an
argument.

    python bench/scaling.py --mobula .venv/bin/python

Prints tables and writes scaling.json and scaling.md into docs/figures (a part into bench/partial);
plots.py draws them. README.md says how to read it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import curve_table
import pages
from child import Child, Floor, RowError, System
from curves import CURVES, Curve

SETTLE = 0.2
TIMEOUT = 120


def measure_point(
    curve: Curve, size: int, options: argparse.Namespace, scratch: Path
) -> tuple[str, list[dict]]:
    """A fresh system, and in it one window after the other. The version, and each window's figures."""
    # Not resolved: a virtual environment is known by the link's place, not by where it points.
    python = Path(os.path.abspath(options.mobula))
    child = Child(System("Mobula", python, "workload_curves.py", curve.cpus(size), scratch))
    try:
        child.ask("init", TIMEOUT)
        child.ask("first", TIMEOUT)
        time.sleep(SETTLE)
        row = f"run {curve.key}_{size} {options.seconds}"
        windows = [child.ask(row, TIMEOUT)["value"] for _ in range(options.windows)]
    finally:
        if child.usable:
            child.quit()
    return child.version, windows


def note(lines: dict[str, list[dict]], curve: Curve, size: int, windows: list[dict]) -> None:
    """Adds the windows to the points of the curve's lines."""
    for line in curve.lines:
        values = [window[line.key] for window in windows if line.key in window]
        if not values:
            continue
        points = lines.setdefault(line.key, [])
        point = next((point for point in points if point["size"] == size), None)
        if point is None:
            point = {"size": size, "best": values[0], "windows": []}
            points.append(point)
        for value in values:
            point["best"] = line.better(point["best"], value)
            point["windows"].append(float(f"{value:.4g}"))


def measure(options: argparse.Namespace, scratch: Path) -> dict:
    floor = Floor(scratch)
    load = os.getloadavg()[0]
    wanted = [curve for curve in CURVES if not options.curves or curve.key in options.curves]
    curves, version = {curve.key: {} for curve in wanted}, ""
    # Pass by pass, so that the processes of one point lie minutes apart: a neighbour does not meet
    # all of them.
    for number in range(options.passes):
        for curve in wanted:
            print(f"  {curve.title}, {number + 1} of {options.passes}", file=sys.stderr, flush=True)
            for size in curve.sizes:
                try:
                    version, windows = measure_point(curve, size, options, scratch)
                except RowError as error:
                    sys.exit(f"{curve.key} at {size}: {error}")
                note(curves[curve.key], curve, size, windows)
    return {
        "version": version,
        "cores": len(os.sched_getaffinity(0)),
        "passes": options.passes,
        "windows": options.windows,
        "seconds": options.seconds,
        "load": [load, os.getloadavg()[0]],
        "copy": max(floor.measure("copy", 0.5) for _ in range(3)),
        "curves": curves,
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How Mobula's costs grow.")
    parser.add_argument(
        "--mobula", type=Path, default=Path(".venv/bin/python"), help="a Python that has Mobula"
    )
    parser.add_argument("--passes", type=int, default=3, help="fresh processes a point (3)")
    parser.add_argument(
        "--windows", type=int, default=2, help="windows in each; the best counts (2)"
    )
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a window (0.4)")
    parser.add_argument("--quick", action="store_true", help="1 pass, 1 window of 0.1 s")
    parser.add_argument(
        "--curves", default="", help="by key and comma: " + ",".join(curve.key for curve in CURVES)
    )
    parser.add_argument(
        "--out", type=Path, help="folder to write into (docs/figures; bench/partial for a part)"
    )
    options = parser.parse_args()
    options.whole = not (options.quick or options.curves)
    options.curves = set(filter(None, options.curves.split(",")))
    unknown = options.curves - {curve.key for curve in CURVES}
    if unknown:
        parser.error(f"no such curve: {', '.join(sorted(unknown))}")
    if options.quick:
        options.passes, options.windows, options.seconds = 1, 1, 0.1
    return options


def main() -> None:
    options = parse()
    scratch = Path(tempfile.mkdtemp(prefix="mb"))
    try:
        results = measure(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(curve_table.markdown(results))
    pages.write("scaling", results, options.whole, options.out)


if __name__ == "__main__":
    main()
