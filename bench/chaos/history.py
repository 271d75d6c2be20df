"""What happened, line by line, in files that outlive everybody who writes them.

A line has 64 bytes and goes out by one write at the file's end. So no line lies across two pages,
and a writer that is killed leaves all of a line or nothing.

Workers write into `runs`, a line when a run begins and one when it ends; the driver writes into
`told` what it submits and what became of it.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

WIDTH = 64
BEGIN, END, DIES = "B", "E", "K"  # of a run; it is about to kill itself
SUBMIT, RESULT = "S", "R"  # of a task or call, by its driver
SHOT = "Z"  # the driver has killed the process of an actor
JOINED, LOST, CALM = "J", "D", "C"  # the driver: begins; the daemon is gone; ends in peace

_files: dict[str, int] = {}


class Line(NamedTuple):
    word: str
    id: str
    pid: int
    at: int  # ns of the monotonic clock
    more: str


def _pack(word: str, id: str, more: str = "") -> bytes:
    text = f"{word} {id} {os.getpid()} {time.monotonic_ns()} {more}"
    return text[: WIDTH - 1].ljust(WIDTH - 1).encode() + b"\n"


def _file(path: str) -> int:
    """Open for good: a process writes into few files."""
    key = f"{os.getpid()} {path}"
    if key not in _files:
        _files[key] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return _files[key]


def note(path: str, word: str, id: str, more: str = "") -> None:
    os.write(_file(path), _pack(word, id, more))


def note_all(path: str, word: str, ids) -> None:
    """For one writer alone: it may be killed between two of these lines."""
    os.write(_file(path), b"".join(_pack(word, id) for id in ids))


def forget() -> None:
    """Closes what this process has opened."""
    while _files:
        os.close(_files.popitem()[1])


def read(path: str) -> list[Line]:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    lines = []
    for at in range(0, len(text) - WIDTH + 1, WIDTH):
        word, id, pid, ns, *more = text[at : at + WIDTH].decode().split()
        lines.append(Line(word, id, int(pid), int(ns), " ".join(more)))
    return lines
