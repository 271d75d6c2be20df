"""The three drivers, and those that took their places."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from history import CALM, LOST, read

from node import MARK, Node, described, with_mark

HERE = Path(__file__).resolve().parent
DRIVERS = 3


class Driver:
    """`place`: which of several nodes it is on, by its number; none: the only one."""

    def __init__(self, root: str, name: str, seed: int, place: str = "") -> None:
        self.place = place
        self.root, self.name = root, name
        mark = f"{root}/{name}."  # of this run: others may run beside it
        self.mark = f"{MARK}={mark}"
        self.log = f"{root}/{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "driver.py"), root, name, str(seed), place],
                stdout=log,
                stderr=log,
                env={**os.environ, MARK: mark},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def folder(self, life: int) -> str:
        return f"{self.root}/{self.name}-{life}"

    def shifts(self) -> list[str]:
        """The folders of what was not looked at yet."""
        return [str(path) for path in sorted(Path(self.root).glob(f"{self.name}-*"))]

    def was_told(self, life: int, word: str) -> int:
        """When it noted this, in ns; 0: it has not."""
        lines = [line.at for line in read(f"{self.folder(life)}/told") if line.word == word]
        return lines[-1] if lines else 0

    def has_ended(self, life: int) -> bool:
        """Whether its shift on this node is over."""
        return bool(self.was_told(life, CALM) or self.was_told(life, LOST))

    def complaint(self) -> str:
        """What it ended with, if it did by itself and not well."""
        code = self.process.poll()
        if code in (None, 0, -9):
            return ""
        with open(self.log, errors="replace") as file:
            text = file.read().strip().splitlines()
        start = next((i for i, line in enumerate(text) if line.startswith(("HUNG", "WRONG"))), -30)
        return f"{self.name} ended with {code}:\n    " + "\n    ".join(text[start:][:60])


class Funeral:
    """A driver that was killed: nothing of its job may be left soon."""

    def __init__(self, driver: Driver, node: Node, patience: float) -> None:
        self.driver, self.node, self.patience = driver, node, patience
        self.begin = time.monotonic()

    def left(self) -> str:
        """What is left of the job."""
        left = [described(pid) for pid in with_mark(self.driver.mark)]
        job = self.driver.pid in self.node.jobs()
        return f"processes {', '.join(left)}" * bool(left) + " and the job" * job

    def is_late(self) -> bool:
        return time.monotonic() - self.begin > self.patience
