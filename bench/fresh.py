"""Figures of which each is of a fresh system: a process prints it as {"value": ...}, and nothing of
the system is left after it.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid

import procs

Figure = float | str  # a text says why there is none


def measure(command: list[str], limit: float, env: dict[str, str] | None = None) -> Figure:
    """What the command prints, in at most so many seconds."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {}), procs.MARK: mark},
    )
    try:
        out, err = process.communicate(timeout=limit)
        lines = [line for line in out.splitlines() if line.startswith('{"value"')]
        if lines:
            return json.loads(lines[-1])["value"]
        return "error: " + (err.strip().splitlines() or ["nothing was printed"])[-1][:60]
    except subprocess.TimeoutExpired:
        return f"not in {limit:g} s"
    finally:
        names = procs.family(process.pid, mark)
        process.kill()
        process.communicate()
        procs.end(names, 3.0)


def best(figures: list[Figure], less: bool) -> Figure:
    """Of several windows; "": there are none."""
    numbers = [figure for figure in figures if not isinstance(figure, str)]
    if not numbers:
        return figures[-1] if figures else ""
    return min(numbers) if less else max(numbers)


def is_reason(cell: str) -> bool:
    """Whether a cell says why there is no figure, which is too long for a table."""
    return cell.startswith(("error: ", "not in "))
