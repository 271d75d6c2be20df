"""Draws scaling.json: an SVG for each curve, into docs/figures.

    python bench/plots.py        # a Python that has matplotlib; scripts/setup.sh plots makes one

The same figures give the same files, byte by byte, with the same matplotlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import pages
from curves import ARGUMENTS, CURVES, QUEUED, SUBMITTERS, WORKERS, Curve, bytes_text
from growth import costs

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402  (after the choice of what it draws with)
from matplotlib.ticker import FuncFormatter  # noqa: E402

# Text stays text, and the names of parts do not change from run to run. White behind, because a
# page may be dark.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mobula",
    "figure.facecolor": "white",
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "legend.frameon": False,
}
COLOURS = ("#1f5fa8", "#c4541b", "#2e7d4f", "#7b4fa3")
GREY = "#888888"
ARGUMENT_TICKS = (8, 512, 32 << 10, 1 << 20, 16 << 20, 256 << 20)
# From here on the line of a copy is drawn: below, it would only stretch the axis.
LEAST_COPIED = 64 << 10


def short(value: float, _position=None) -> str:
    """A number on an axis."""
    for unit, text in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{text}"
    return f"{value:g}"


def panel(axes, curve: Curve, lines: dict[str, dict[int, float]], label: str) -> None:
    """The measured lines on one pair of axes: sizes grow by factors, so theirs is logarithmic."""
    for number, (name, values) in enumerate(lines.items()):
        axes.plot(
            list(values),
            list(values.values()),
            "o-",
            color=COLOURS[number],
            markersize=3.5,
            label=name,
        )
    axes.set_xscale("log")
    ticks = ARGUMENT_TICKS if curve is ARGUMENTS else sorted(set().union(*lines.values()))
    axes.set_xticks(
        ticks, [bytes_text(size) if curve is ARGUMENTS else short(size) for size in ticks]
    )
    axes.set_xlabel(curve.what)
    axes.set_ylabel(label)


def finish(axes, log: bool) -> None:
    """The vertical axis and the legend, when all lines are there."""
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(short))
    axes.minorticks_off()
    axes.legend(loc="best" if log else "lower right")


def ideal(axes, points: dict[float, float], label: str) -> None:
    axes.plot(list(points), list(points.values()), "--", color=GREY, linewidth=1, label=label)


def best(points: list[dict]) -> dict[int, float]:
    return {point["size"]: point["best"] for point in points}


def rates(axes, curve: Curve, results: dict, key: str) -> None:
    line = next(line for line in curve.lines if line.key == key)
    panel(axes, curve, {line.label: best(results["curves"][curve.key][key])}, "tasks per second")


def draw_workers(figure, results: dict) -> None:
    empty, busy = figure.subplots(1, 2)
    rates(empty, WORKERS, results, "empty")
    finish(empty, log=False)
    rates(busy, WORKERS, results, "busy")
    cores = results["cores"]
    ideal(
        busy, {size: min(size, cores) * 1e4 for size in WORKERS.sizes}, f"what {cores} cores can do"
    )
    finish(busy, log=False)


def draw_submitters(figure, results: dict) -> None:
    axes = figure.subplots()
    rates(axes, SUBMITTERS, results, "nested")
    finish(axes, log=False)


def draw_queued(figure, results: dict) -> None:
    time, memory = figure.subplots(1, 2)
    lines = {line: best(results["curves"]["queued"][line.key]) for line in QUEUED.lines}
    timed = {line: values for line, values in lines.items() if line.unit == "us"}
    panel(
        time,
        QUEUED,
        {line.label: values for line, values in timed.items()},
        "microseconds per task",
    )
    for number, (line, values) in enumerate(timed.items()):
        # One entry in the legend for all of them.
        level = values[line.base]
        ideal(
            time,
            {line.base: level, max(values): level},
            "_" if number else "cost per task constant",
        )
    finish(time, log=True)
    weighed = {line.label: values for line, values in lines.items() if line.unit == "B"}
    panel(memory, QUEUED, weighed, "bytes per task")
    finish(memory, log=False)


def draw_arguments(figure, results: dict) -> None:
    call, byte = figure.subplots(1, 2)
    lines = {line: results["curves"]["arguments"][line.key] for line in ARGUMENTS.lines}
    panel(
        call,
        ARGUMENTS,
        {line.label: best(points) for line, points in lines.items()},
        "microseconds per call",
    )
    copied = {
        line.label: {size: 1e3 * cost for size, cost in costs(line, points).items()}
        for line, points in lines.items()
        if line.per == "byte"
    }
    panel(byte, ARGUMENTS, copied, "nanoseconds per byte")
    copy = 1 / results["copy"]  # GB/s turned over are nanoseconds per byte
    large = [size for size in ARGUMENTS.sizes if size >= LEAST_COPIED]
    ideal(call, {size: size * copy / 1e3 for size in large}, "one copy by memcpy")
    ideal(byte, {size: copy for size in large}, "one copy by memcpy")
    for axes in (call, byte):
        axes.tick_params(axis="x", labelsize=7)
        finish(axes, log=True)


DRAWN = {
    WORKERS: draw_workers,
    SUBMITTERS: draw_submitters,
    QUEUED: draw_queued,
    ARGUMENTS: draw_arguments,
}


def draw(curve: Curve, results: dict, path: Path) -> None:
    width = 4.2 if curve is SUBMITTERS else 8.4
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(width, 3.2), layout="constrained")
        figure.suptitle(f"{curve.title} ({results['cores']} cores)", fontsize=10)
        DRAWN[curve](figure, results)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the results of scaling.py.")
    parser.add_argument(
        "--results", type=Path, default=pages.FIGURES / "scaling.json", help="what scaling.py wrote"
    )
    parser.add_argument("--out", type=Path, default=pages.FIGURES, help="folder to draw into")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    options.out.mkdir(parents=True, exist_ok=True)
    for curve in CURVES:
        if curve.key in results["curves"]:
            draw(curve, results, options.out / f"{curve.key}.svg")


if __name__ == "__main__":
    main()
