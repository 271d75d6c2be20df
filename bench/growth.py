"""Whether a cost grows faster than its work: the cost of one task, byte or call at each size,
beside that at a base.
"""

from __future__ import annotations

from dataclasses import dataclass

from curves import CURVES, Curve, Line


@dataclass(frozen=True)
class Growth:
    """How many times the cost at the base it is at the largest size, and at the costliest beyond
    the base.
    """

    base: int
    last: int
    ratio: float
    worst: int
    worst_ratio: float


def costs(line: Line, points: list[dict]) -> dict[int, float]:
    """The cost of one unit of work at each size."""
    return {
        point["size"]: point["best"] / (point["size"] if line.per == "byte" else 1)
        for point in points
    }


def growth(cost: dict[int, float], base: int) -> Growth:
    ratios = {size: cost[size] / cost[base] for size in sorted(cost) if size > base}
    last, worst = max(ratios), max(ratios, key=ratios.get)
    return Growth(base, last, ratios[last], worst, ratios[worst])


def verdict(curve: Curve, line: Line, points: list[dict]) -> str:
    """A sentence for a line that must not grow."""
    found = growth(costs(line, points), line.base)
    text = (
        f"{line.label}: cost per {line.per} at {curve.size_text(found.last)} is {found.ratio:.2g} "
        f"times that at {curve.size_text(found.base)}"
    )
    if found.worst != found.last:
        text += f" (the most is {found.worst_ratio:.2g} times, at {curve.size_text(found.worst)})"
    return text


def verdicts(results: dict) -> list[str]:
    """One for each line of the results that has a base."""
    return [
        verdict(curve, line, results["curves"][curve.key][line.key])
        for curve in CURVES
        if curve.key in results["curves"]
        for line in curve.lines
        if line.per
    ]
