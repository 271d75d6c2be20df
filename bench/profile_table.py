"""The results of profile.py as tables."""

from __future__ import annotations

import pages


def _table(title: str, steps: list[str], found: dict) -> list[str]:
    """One mode's figures: nanoseconds a task."""
    sides = (found["driver"], found["worker"])
    rows = [
        [step, *(f"{side[step]:.0f} ns" if side.get(step, 0) >= 1 else "" for side in sides)]
        for step in steps
        if max(side.get(step, 0) for side in sides) >= 1
    ]
    rows.append(["together", *(f"{sum(side.values()):.0f} ns" for side in sides)])
    return pages.table([title, "driver", "worker"], rows)


def markdown(results: dict) -> str:
    parts = []
    for title, found in results["modes"].items():
        note = f"{found['tasks_per_s']:,.0f} tasks a second while sampled"
        parts.append(
            "\n".join([*_table(title, results["steps"], found), "", pages.bullet(note), ""])
        )
    return "\n".join(parts)
