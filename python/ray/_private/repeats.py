"""Lines that several workers print alike are printed once, and counted.

Alike are lines of the same name and stream that differ in their digits only. The first is printed
at once. Those that other processes print within the next seconds (RAY_DEDUP_LOGS_AGG_WINDOW_S, 5)
are held back. Then the last of them is printed, with how many there were. A single one is printed
as it is. What one process says again and again is printed each time, as long as no other says it:
nothing of a lone worker is held back.

A line of digits and signs alone is a value that somebody wants to see: it is always printed.
"""

import os
import time

_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_HINT = (
    " (Lines that are alike are counted. RAY_DEDUP_LOGS=0 prints each of them;"
    " docs/environment.md has more options.)"
)
_KEYS_MOST = 10_000  # lines of different kinds that are remembered


class _Kind:
    """Lines that are alike, since the first of them was printed."""

    __slots__ = ("since", "sources", "held", "last")

    def __init__(self, since, sources):
        self.since = since
        self.sources = sources  # processes
        self.held = 0
        self.last = None  # (prefix, line) of the newest that is held back


class Repeats:
    """What is to be printed of what workers say. For one thread."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._enabled = os.environ.get("RAY_DEDUP_LOGS", "1") != "0"
        self._window_s = _seconds("RAY_DEDUP_LOGS_AGG_WINDOW_S", 5.0)
        self._allow = _pattern("RAY_DEDUP_LOGS_ALLOW_REGEX")
        self._skip = _pattern("RAY_DEDUP_LOGS_SKIP_REGEX")
        self._kinds = {}  # by key, the oldest first
        self._held = 0  # kinds that hold something back
        self._hint = _HINT

    def admits(self, stream, pid, prefix, name, line):
        """Whether the line is to be printed now."""
        if not self._enabled or (self._allow and self._allow.search(line)):
            return True
        if self._skip and self._skip.search(line):
            return False
        shape = line.translate(_WITHOUT_DIGITS)
        if not any(map(str.isalpha, shape)):
            return True
        key = stream, name, shape
        kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = _Kind(self._clock(), {pid})
            return True
        kind.sources.add(pid)
        if len(kind.sources) == 1:
            return True
        self._held += kind.held == 0
        kind.held += 1
        kind.last = prefix, line
        return False

    def wait_ms(self):
        """How long nothing is due; None: until something more is said."""
        if self._held == 0:
            return None
        oldest = next(iter(self._kinds.values()))
        return max(0, int((oldest.since + self._window_s - self._clock()) * 1000) + 1)

    def due(self):
        """(stream, text) of what was held back for long enough."""
        told = []
        now = self._clock()
        while self._kinds and self._is_over(next(iter(self._kinds.values())), now):
            key = next(iter(self._kinds))
            kind = self._kinds.pop(key)
            if kind.held > 0:
                told.append(self._tell(key, kind))
            if kind.held > 1:  # they may go on, and so does the count
                self._kinds[key] = _Kind(now, kind.sources)
        return told

    def rest(self):
        """The same of all that is held back: there is nothing more to come."""
        kinds, self._kinds = self._kinds, {}
        return [self._tell(key, kind) for key, kind in kinds.items() if kind.held > 0]

    def _is_over(self, kind, now):
        return now - kind.since >= self._window_s or len(self._kinds) > _KEYS_MOST

    def _tell(self, key, kind):
        self._held -= 1
        prefix, line = kind.last
        if kind.held > 1:
            line += f" [repeated {kind.held}x across cluster]{self._hint}"
            self._hint = ""
        return key[0], f"{prefix}{line}\n"


def _seconds(name, default):
    try:
        return float(os.environ.get(name) or default)
    except ValueError:
        raise ValueError(f"{name}={os.environ[name]!r}: it must be a number of seconds") from None


def _pattern(name):
    text = os.environ.get(name)
    if not text:
        return None
    import re

    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{name}={text!r} is no regular expression: {error}") from None
