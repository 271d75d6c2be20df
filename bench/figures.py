"""The results of scaling.py as a page of tables."""

from __future__ import annotations

from curves import CURVES, Curve
from growth import verdicts
from table import number


def note(results: dict) -> str:
    return (
        f"Mobula {results['version']} on {results['cores']} cores; best of {results['passes']} "
        f"fresh processes with {results['windows']} windows of {results['seconds']:g} s each; load "
        f"average before {results['load'][0]:.2f}, after {results['load'][1]:.2f}. One warm copy "
        f"of 200 MiB ran at {results['copy']:.1f} GB/s."
    )


def _table(curve: Curve, lines: dict[str, list[dict]]) -> list[str]:
    best = {
        key: {point["size"]: point["best"] for point in points} for key, points in lines.items()
    }
    text = [
        f"| {curve.what} | " + " | ".join(line.label for line in curve.lines) + " |",
        "|---:" * (1 + len(curve.lines)) + "|",
    ]
    for size in curve.sizes:
        cells = [
            number(best[line.key][size], line.unit) if size in best[line.key] else ""
            for line in curve.lines
        ]
        text.append(f"| {curve.size_text(size)} | " + " | ".join(cells) + " |")
    return text


def markdown(results: dict) -> str:
    text = ["# Scaling: the figures", "", note(results)]
    for curve in CURVES:
        if curve.key in results["curves"]:
            text += ["", f"## {curve.title}", "", *_table(curve, results["curves"][curve.key])]
    return (
        "\n".join(
            [*text, "", "## Does a cost grow?", "", *(f"- {line}" for line in verdicts(results))]
        )
        + "\n"
    )
