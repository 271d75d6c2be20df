"""The runner's side of a child process (see serve.py for its protocol), and the floor program.

Every command has a time limit. A child that does not answer in time, or dies, is ended with all of
its system's processes, and the next command for that system starts a fresh one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import procs

HERE = Path(__file__).resolve().parent


class RowError(Exception):
    """The system could not do what it was asked; the text goes into its cell."""


@dataclass
class System:
    """How a system is started: its name in the table, its Python, and the script that it runs."""

    name: str
    python: Path
    script: str
    cpus: int
    scratch: Path
    env: dict[str, str] = field(default_factory=dict)


class Child:
    """One running workload process."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.mark = uuid.uuid4().hex
        self.buffer = b""
        self.log = system.scratch / f"{system.name.lower()}-{self.mark}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(system.python), str(HERE / system.script), str(system.cpus)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=system.scratch,
                env={**os.environ, **system.env, procs.MARK: self.mark},
            )
        os.set_blocking(self.process.stdout.fileno(), False)
        try:
            self.version = self._answer(60)["version"]
        except RowError as error:
            self.kill()
            lines = self.log.read_text(errors="replace").strip().splitlines()
            raise RowError(f"does not start: {lines[-1] if lines else error}") from None

    def ask(self, command: str, timeout: float) -> dict:
        """Sends a command and returns its answer; RowError if that is an error, does not come, or
        the child is dead.
        """
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            self.kill()
            raise RowError("its driver is dead") from None
        answer = self._answer(timeout)
        if "error" in answer:
            raise RowError(answer["error"])
        return answer

    def _answer(self, timeout: float) -> dict:
        limit = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            # Not one long wait: a daemon may hold the pipe open after its driver is dead.
            ready, _, _ = select.select([self.process.stdout], [], [], 0.5)
            if ready:
                got = self.process.stdout.read()
                if got:
                    self.buffer += got
                    continue
            if self.process.poll() is not None:
                self.kill()
                raise RowError(f"its driver ended with {self.process.returncode}")
            if time.monotonic() > limit:
                self.kill()
                raise RowError(f"no answer in {timeout:g} s")
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    @property
    def usable(self) -> bool:
        return self.process.poll() is None

    def family(self) -> list[procs.Name]:
        return procs.family(self.process.pid, self.mark)

    def kill(self) -> None:
        """Ends the driver and whatever its system leaves behind."""
        names = self.family()
        if self.process.poll() is None:
            self.process.kill()
        self._close()
        procs.end(names, 2.0)

    def quit(self) -> None:
        """Stops the system as its user would, then makes sure."""
        names = self.family()
        try:
            self.ask("quit", 30)
            self.process.wait(10)
        except (RowError, subprocess.TimeoutExpired):
            self.kill()
            return
        self._close()
        procs.end(names, 5.0)

    def _close(self) -> None:
        self.process.wait()
        # What could not be written to a dead child is tried again here.
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()


class Floor:
    """The floor program, built into a scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self.program = scratch / "floor"
        source = HERE / "floor" / "floor.c"
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-std=gnu11", "-O2", str(source), "-o", str(self.program)], check=True
        )

    def measure(self, mode: str, seconds: float) -> float:
        done = subprocess.run(
            [str(self.program), mode, str(seconds)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return float(done.stdout)
