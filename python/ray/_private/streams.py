"""The standard output and error of a worker: pipes to the daemon, which passes lines on to the
driver.

Every write goes out at once, so nothing is pending when a task's result is published, or when a
worker is killed. When another task than before writes, its name goes ahead of the text as a mark,
\\x01 name \\n, possibly within a line that the last one left open; the daemon takes the mark out. A
\\x01 of the task's own is doubled.
"""

import io
import sys

from ray import _core

_NOT_IN_MARKS = {1: " ", 10: " "}


class WorkerStream(io.TextIOWrapper):
    """A text stream that tells the daemon which task writes."""

    mode = "w"
    _announced = None

    def write(self, text):
        if not text:
            return 0
        size = len(text)
        if "\x01" in text:
            text = text.replace("\x01", "\x01\x01")
        name = _core.current_name()
        if name != self._announced:
            super().write(f"\x01{(name or '').translate(_NOT_IN_MARKS)}\n{text}")
            # Only now: the interpreter's lock is released in between, and another thread's text
            # must not go ahead of its name. It brings a mark of its own then.
            self._announced = name
        else:
            super().write(text)
        return size


def redirect():
    """Replaces sys.stdout and sys.stderr."""
    sys.stdout = sys.__stdout__ = _stream(1)
    sys.stderr = sys.__stderr__ = _stream(2)


def _stream(fd):
    raw = io.FileIO(fd, "w", closefd=False)
    return WorkerStream(
        raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
    )
