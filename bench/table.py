"""Turns results into tables: one on the terminal, two narrower ones of the same cells on a page."""

from __future__ import annotations

import pages
from spec import ROWS, Row, goal, verdict

HEAD = ["row", "Mobula", "Ray", "Pool", "floor", "goal", "x Ray", "x Pool", "goal is"]
# Which of these stand in the two tables of a page.
BESIDE_OTHERS = ["row", "Mobula", "Ray", "Pool", "x Ray", "x Pool"]
BESIDE_GOALS = ["row", "Mobula", "goal", "goal is", "floor"]
WAKES = {"wake": "on another CPU", "near": "on the same one"}


def number(value: float, unit: str = "") -> str:
    """A figure with three or four digits that mean something."""
    if value == 0:
        text = "0"
    elif abs(value) >= 100 or isinstance(value, int):
        text = f"{value:,.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}"
    if "e" in text:
        text = f"{value:.5f}".rstrip("0").rstrip(".")
    return text + (unit if unit.startswith(("/", "%")) else f" {unit}" if unit else "")


def _cell(row: Row, cells: dict, name: str) -> str:
    cell = cells.get(name)
    if cell is None:
        return ""
    if "error" in cell:
        return cell["error"]
    return number(cell["best"], row.unit) + (" (scaled)" if cell.get("scaled") else "")


def _best(cells: dict, name: str) -> float | None:
    return cells.get(name, {}).get("best")


def _times(row: Row, ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None or min(ours, theirs) <= 0:
        return ""
    return f"{float(f'{row.ratio(ours, theirs):.3g}'):,.10g}"


def lines(results: dict) -> list[list[str]]:
    """The table's cells, row by row, without the head."""
    made = []
    for row in ROWS:
        cells = results["rows"].get(row.key)
        if cells is None:
            continue
        mobula, ray, pool, floor = (
            _best(cells, name) for name in ("Mobula", "Ray", "Pool", "floor")
        )
        aim = goal(row, floor)
        made.append(
            [
                row.title,
                *(_cell(row, cells, name) for name in ("Mobula", "Ray", "Pool", "floor")),
                "" if aim is None else number(aim, row.unit),
                _times(row, mobula, ray),
                _times(row, mobula, pool),
                verdict(row, mobula, floor),
            ]
        )
    return made


def _loads(results: dict) -> str:
    if "load" not in results:
        return ""
    before, after = results["load"]
    return f"; load average before {before:.2f}, after {after:.2f}"


def notes(results: dict) -> list[str]:
    """What a reader needs beside the figures."""
    wake = results["wake_us"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [
        f"{versions}; {results['cpus']} CPUs; best of {results['windows']} windows of "
        f"{results['seconds']:g} s, "
        f"{'each system alone' if results['separate'] else 'taken in turn'}{_loads(results)}.",
        "Waking a sleeping process, at the end of the run: "
        + ", ".join(f"{wake[mode]:.1f} us {where}" for mode, where in WAKES.items() if mode in wake)
        + ".",
    ]


def plain(results: dict) -> str:
    """For a terminal."""
    rows = [HEAD, *lines(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    text = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1])
        ]
        text.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join([*text, "", *notes(results)])


def _page_table(head: list[str], rows: list[list[str]], errors: list[str]) -> list[str]:
    """Some columns. A cell that says why there is no figure becomes a note below: it is too long."""
    chosen = []
    for row in rows:
        cells = [row[HEAD.index(column)] for column in head]
        for number, cell in enumerate(cells):
            if cell.startswith("error: "):
                errors.append(f"{head[number]}, {cells[0]}: {cell}")
                cells[number] = "error"
        chosen.append(cells)
    return pages.table(head, chosen)


def markdown(results: dict) -> str:
    """For a page."""
    rows, errors = lines(results), []
    text = ["## Beside the others", "", *_page_table(BESIDE_OTHERS, rows, errors)]
    text += ["", "## Beside its goals, and what the machine allows", ""]
    text += [*_page_table(BESIDE_GOALS, rows, []), "", "## Notes", ""]
    return "\n".join([*text, *(pages.bullet(note) for note in [*notes(results), *errors])]) + "\n"
