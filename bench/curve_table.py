"""The results of scaling.py as tables."""

from __future__ import annotations

import pages
from curves import CURVES, Curve
from growth import verdicts
from table import number


def note(results: dict) -> str:
    return (
        f"Mobula {results['version']}; best of {results['passes']} fresh processes with "
        f"{results['windows']} windows of {results['seconds']:g} s each; load average before "
        f"{results['load'][0]:.2f}, after {results['load'][1]:.2f}. One warm copy of 200 MiB ran at "
        f"{results['copy']:.1f} GB/s."
    )


def _table(curve: Curve, lines: dict[str, list[dict]]) -> list[str]:
    best = {
        key: {point["size"]: point["best"] for point in points} for key, points in lines.items()
    }
    rows = [
        [curve.size_text(size)]
        + [
            number(best[line.key][size], line.unit) if size in best[line.key] else ""
            for line in curve.lines
        ]
        for size in curve.sizes
    ]
    return pages.table([curve.what, *(line.head or line.label for line in curve.lines)], rows)


def markdown(results: dict) -> str:
    text = ["## How it was measured", "", pages.bullet(note(results))]
    for curve in CURVES:
        if curve.key in results["curves"]:
            text += ["", f"## {curve.title}", "", *_table(curve, results["curves"][curve.key])]
    told = [pages.bullet(line) for line in verdicts(results)]
    text += ["", "## Does a cost grow?", "", *told] if told else []
    return "\n".join(text) + "\n"
