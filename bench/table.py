"""Turns results into a table: the same cells on the terminal and in markdown."""

from __future__ import annotations

from spec import ROWS, Row, goal, verdict

HEAD = ["row", "Mobula", "Ray", "Pool", "floor", "goal", "x Ray", "x Pool", "goal is"]


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
    return f"{row.ratio(ours, theirs):,.3g}"


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


def notes(results: dict) -> list[str]:
    """What a reader needs beside the figures."""
    wake = results["wake_us"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [
        f"{versions}; {results['cpus']} CPUs; best of {results['windows']} windows of "
        f"{results['seconds']:g} s, "
        f"{'each system alone' if results['separate'] else 'taken in turn'}; load average before "
        f"{results['load'][0]:.2f}, after {results['load'][1]:.2f}.",
        f"Waking a sleeping process, at the end of the run: {wake['wake']:.1f} us on another CPU, "
        f"{wake['near']:.1f} us on the same one.",
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


def markdown(results: dict) -> str:
    """For a page."""
    text = ["| " + " | ".join(HEAD) + " |", "|---|" + "---:|" * (len(HEAD) - 2) + "---|"]
    text += [
        "| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in lines(results)
    ]
    return "\n".join([*text, "", *(f"- {note}" for note in notes(results))]) + "\n"
