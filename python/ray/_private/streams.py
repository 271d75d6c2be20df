"""The standard output and error of a worker: pipes to the daemon, which passes text on to the
driver.

Every write goes out at once, so nothing is pending when a task's result is published, or when a
worker is killed. When another task than before writes, its name goes ahead of the text as a mark,
\\x01 name \\n, possibly within a line that the last one left open; the daemon takes the mark out. A
\\x01 of the task's own is doubled.

What subprocesses and C libraries write comes to the daemon without a mark: it belongs to the task
that was announced last, or without one to the task that runs. So before a task of another name
begins, a mark without a name takes the last one back. That is written only after a task that
printed, so tasks that print nothing cost nothing.
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
            self._announce(name, text)
        else:
            super().write(text)
        return size

    def _announce(self, name, text):
        super().write(f"\x01{(name or '').translate(_NOT_IN_MARKS)}\n{text}")
        # Only now: the interpreter's lock is released in between, and another thread's text must
        # not go ahead of its name. It brings a mark of its own then.
        self._announced = name
        _core.on_next_name(_take_back)

    def _take_back(self):
        if self._announced is not None:
            self._announced = None
            super().write("\x01\n")


_streams = []


def redirect():
    """Replaces sys.stdout and sys.stderr."""
    sys.stdout = sys.__stdout__ = _stream(1)
    sys.stderr = sys.__stderr__ = _stream(2)
    _streams[:] = [sys.stdout, sys.stderr]


def announce():
    """Tells the daemon the name of what runs, before anything is printed."""
    name = _core.current_name()
    _each(lambda stream: stream._announce(name, ""))


def _take_back():
    _each(WorkerStream._take_back)


def _each(mark):
    for stream in _streams:
        try:
            mark(stream)
        except (OSError, ValueError):  # a task has closed it, or its descriptor
            pass


def _stream(fd):
    raw = io.FileIO(fd, "w", closefd=False)
    return WorkerStream(
        raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
    )
