"""The curves of scaling.py: what grows, what is measured at each size, and whether its cost may
grow.

This is the only place that lists them; the workload has a row for each, and curve_table.py and
plots.py show them.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Line:
    """One figure at each size. With `per`, the line is a cost that must not grow beyond the size
    `base`.
    """

    key: str
    label: str
    unit: str  # "/s", "us", "B"
    per: str = ""  # what the cost is of: "task", "call", "byte"
    base: int = 0
    head: str = ""  # what a column of a table has space for, where the label is too long

    def better(self, a: float, b: float) -> float:
        return max(a, b) if self.unit == "/s" else min(a, b)


@dataclass(frozen=True)
class Curve:
    key: str
    title: str
    what: str  # of which there are more and more
    sizes: tuple[int, ...]
    lines: tuple[Line, ...]

    def cpus(self, size: int) -> int:
        """What ray.init is told."""
        return size if self.key == "workers" else 2

    def size_text(self, size: int) -> str:
        return bytes_text(size) if self.key == "arguments" else f"{size:,}"


def bytes_text(size: int) -> str:
    for unit, text in ((MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {text}"
    return f"{size} B"


WORKERS = Curve(
    "workers",
    "1 to 16 workers",
    "workers",
    (1, 2, 4, 8, 16),
    (Line("empty", "empty tasks", "/s"), Line("busy", "tasks of 100 us of CPU time", "/s")),
)

SUBMITTERS = Curve(
    "submitters",
    "1 to 8 submitting processes",
    "submitting processes",
    (1, 2, 4, 8),
    (Line("nested", "empty tasks, all submitters together", "/s"),),
)

# The base is the least size at which waking two workers, or asking for the first memory, is a small
# part of the whole.
QUEUED = Curve(
    "queued",
    "1 to 1,000,000 queued tasks",
    "queued tasks",
    tuple(10**power for power in range(7)),
    (
        Line("first", "to submit a task, the first time", "us", "task", 10_000, "first submit"),
        Line("submit", "to submit a task, again", "us", "task", 1000, "submit"),
        Line("drain", "to run it and get its result", "us", "task", 1000, "run and get"),
        Line("drop", "to drop its reference", "us", "task", 1000, "drop"),
        Line("memory", "memory of a queued task", "B", "task", 10_000, "memory"),
    ),
)

# A reference costs the same whatever it stands for; a copy is paid by the byte once it is more than
# the call itself.
ARGUMENTS = Curve(
    "arguments",
    "arguments of 8 B to 256 MiB",
    "bytes of the argument",
    (*(8**power for power in range(1, 7)), MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB),
    (
        Line("bytes", "a call with bytes by value", "us", "byte", MIB, "bytes by value"),
        Line("value", "with an array by value", "us", "byte", MIB, "array by value"),
        Line("ref", "with a reference to an array", "us", "call", 8, "reference to one"),
    ),
)

CURVES = (WORKERS, SUBMITTERS, QUEUED, ARGUMENTS)
