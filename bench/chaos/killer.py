"""Who is killed or stopped next, and when it happened."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

from node import Node, is_alive, title

ACTORS = ("ray::Plain", "ray::Threaded", "ray::Async", "ray::Keeper")
LONGEST_STOP = 0.8  # seconds


def kind_of(pid: int) -> str:
    text = title(pid)
    if text.startswith(ACTORS):
        return "actor"
    if "zygote" in text or "mother" in text:  # which forks zygotes
        return "zygote"
    return "worker" if text.startswith("ray::") else "starting"


class Killer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counts: Counter = Counter()
        self.times: dict[int, int] = {}  # when each process was killed last, in ns
        self.stopped: dict[int, float] = {}  # until when

    @property
    def kills(self) -> int:
        return sum(count for kind, count in self.counts.items() if kind != "stop")

    def kill(self, pid: int, kind: str) -> None:
        """Notes it before, so that nothing that follows from it is earlier."""
        self.times[pid] = time.monotonic_ns()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.times[pid] = time.monotonic_ns()
        self.counts[kind] += 1

    def kill_child(self, node: Node, kind: str) -> None:
        """One of the daemon's children, if it has one of this kind."""
        found = [pid for pid in node.children() if kind_of(pid) == kind and is_alive(pid)]
        if found:
            self.kill(self.rng.choice(found), kind)

    def stop(self, pids: list[int]) -> None:
        if not pids:
            return
        pid = self.rng.choice(pids)
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return
        self.counts["stop"] += 1
        self.stopped[pid] = time.monotonic() + self.rng.uniform(0.01, LONGEST_STOP)

    def go_on(self, everybody: bool = False) -> None:
        """Lets those go on whose time is over."""
        now = time.monotonic()
        for pid in [p for p, until in self.stopped.items() if everybody or until <= now]:
            del self.stopped[pid]
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
