"""A `ray start` node, seen from outside, and its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ray import _core

CPUS = 4
STORE = 128 << 20
MARK = "CHAOS_DRIVER"  # in the environment of a driver, and so of its job's processes

SPILL_FOLDER = re.compile(r"/mobula_spill_\w+$")


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def title(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def with_mark(text: str) -> list[int]:
    """The living processes that have this in their environment, without this one."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    mine = os.getpid()
    return [p for p in found if p != mine and text.encode() in environment(p) and is_alive(p)]


def described(pid: int) -> str:
    """What a report says of a process that should be gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent, *rest = file.read().rpartition(b")")[2].decode().split()
        with open("/proc/uptime") as file:
            up = float(file.read().split()[0])
    except OSError:
        return f"{pid} (gone by now)"
    age = up - int(rest[17]) / os.sysconf("SC_CLK_TCK")
    name = title(pid)[:60] or "without a title"
    above = f"{parent} ({title(int(parent))[:40]})"
    return f"{pid} ({name}; state {state}, parent {above}, {age:.1f} s old, {waits_in(pid)})"


def waits_in(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return f"in {file.read() or '0'} of the kernel"
    except OSError:
        return "gone by now"


def named_memory() -> list[str]:
    """Shared memory that has a name: Mobula's has none, so that nothing can be left of it."""
    return [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "mobula" in name]


def await_true(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Node:
    """Its folder is RAY_TMPDIR's, so no other node of this user is found or disturbed."""

    def __init__(self, root: str, *options: str, cpus: int = CPUS) -> None:
        """`options`: of `ray start`, for one that is not the only one."""
        self.parent = Path(root) / f"mobula-{os.geteuid()}"
        ray = str(Path(sys.executable).parent / "ray")
        command = [ray, "start", *(options or ("--head", "--port=0")), "--num-cpus", str(cpus)]
        self.ray = ray
        before = set(self.folders())
        subprocess.run(
            [*command, "--object-store-memory", str(STORE)],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
        self.left_by_others = [name for name in self.folders() if name in before]
        (name,) = set(self.folders()) - before
        self.folder = str(self.parent / name)
        with open(f"{self.folder}/node") as file:
            self.address, pid = file.read().split("\n")[:2]
        self.pid = int(pid)
        self.descriptors = self.settled_descriptors()

    def folders(self) -> list[str]:
        """Of sessions; that of Redis outlives a node that is killed."""
        try:
            return [name for name in os.listdir(self.parent) if not name.startswith("redis_")]
        except FileNotFoundError:
            return []

    def open_descriptors(self) -> Counter:
        """What the daemon has open: how many of each kind. A socket and a pidfd are a driver's, a
        socket and a setup a zygote's or a mother's, two pipes a worker's output.
        """
        folder = Path(f"/proc/{self.pid}/fd")
        found = Counter()
        for name in os.listdir(folder):
            try:
                found[re.sub(r":\[\d+\]|session_\w+", "", os.readlink(folder / name))] += 1
            except FileNotFoundError:  # closed meanwhile
                pass
        return found

    def more_descriptors(self) -> dict[str, int]:
        """What it has open beyond what it had at its start. The folder of the objects that it moved
        to disk does not count: it is opened for the first of them, and stays locked.
        """
        more = self.open_descriptors() - self.descriptors
        return {name: n for name, n in more.items() if n > bool(SPILL_FOLDER.search(name))}

    def watched(self) -> list[int]:
        """The drivers that the daemon has not forgotten: those whose ends its pidfds tell."""
        found = []
        for path in Path(f"/proc/{self.pid}/fdinfo").iterdir():
            try:
                found += re.findall(r"^Pid:\t(\d+)$", path.read_text(), re.MULTILINE)
            except OSError:  # closed meanwhile
                pass
        return [int(pid) for pid in found]

    def settled_descriptors(self) -> Counter:
        """The same when the process that zygotes are forked from has connected, which comes after
        the start, and is quick.
        """
        found, since = self.open_descriptors(), time.monotonic()
        while time.monotonic() - since < 0.5:
            time.sleep(0.02)
            now = self.open_descriptors()
            if now != found or not self.children():
                found, since = now, time.monotonic()
        return found

    def memory(self) -> int:
        """The daemon's own, in bytes."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))

    def children(self) -> list[int]:
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
                return sorted(map(int, file.read().split()))
        except OSError:
            return []

    def processes(self) -> list[int]:
        """Those of jobs: without the one that the node itself keeps."""
        return [pid for pid in self.children() if "mother" not in title(pid)]

    def mothers(self) -> list[int]:
        """Those that zygotes are forked from."""
        return [pid for pid in self.children() if "mother" in title(pid)]

    def ask(self, question: int) -> list:
        return _core.observe(f"{self.folder}/socket", question, 0, 30)

    def jobs(self) -> list[int]:
        """The drivers of jobs that run; 0 is a detached actor's."""
        return [0 if row[4] else row[1] for row in self.ask(_core.QUERY_JOBS) if row[3] == 0]

    def used(self) -> dict[str, float]:
        """What of its resources is not free."""
        rows = self.ask(_core.QUERY_RESOURCES)
        return {name: total - free for name, total, free in rows if total - free > 1e-9}

    def objects(self) -> list:
        """All that are there: (slot, generation, size, state, owner, why it is held, ...)."""
        return list(_core.observe(f"{self.folder}/socket", _core.QUERY_OBJECTS, 1 << 20, 30)[2])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        subprocess.run(
            [self.ray, "stop", "--address", self.folder],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
