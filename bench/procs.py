"""What the processes of a system use, read from /proc.

A system's processes are the descendants of its driver and everything that carries the driver's mark
in its environment (a daemon that has left the family still has that). A process is named by its id
and its start time, so that an id that was given to somebody else meanwhile is neither counted nor
killed.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

MARK = "MOBULA_BENCH_MARK"
PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
SHARED = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")

Name = tuple[int, str]


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command's name; None if the process is gone or a
    zombie.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else fields


def _has_variable(pid: int, name: str, value: str) -> bool:
    try:
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{name}={value}".encode() in variables


def _stats() -> dict[int, list[str]]:
    """The fields of every living process."""
    found = {
        int(entry.name): _stat(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit()
    }
    return {pid: fields for pid, fields in found.items() if fields is not None}


def with_variable(name: str, value: str) -> list[Name]:
    """The processes that have this in their environment."""
    found = _stats()
    return [(pid, found[pid][19]) for pid in sorted(found) if _has_variable(pid, name, value)]


def family(driver: int, mark: str) -> list[Name]:
    """The system's processes, without its driver."""
    stats = _stats()
    members = {driver} | {pid for pid in stats if _has_variable(pid, MARK, mark)}
    grown = True
    while grown:
        more = {pid for pid, fields in stats.items() if int(fields[1]) in members} - members
        members |= more
        grown = bool(more)
    return [(pid, stats[pid][19]) for pid in sorted(members - {driver}) if pid in stats]


def alive(name: Name) -> bool:
    fields = _stat(name[0])
    return fields is not None and fields[19] == name[1]


def end(names: list[Name], patience: float) -> int:
    """Waits for the processes to leave, then kills those that have not. How many had to be killed."""
    limit = time.monotonic() + patience
    while time.monotonic() < limit and any(map(alive, names)):
        time.sleep(0.05)
    late = [name for name in names if alive(name)]
    for name in late:
        try:
            os.kill(name[0], signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(late)


def _private(pid: int) -> int:
    """Proportional bytes of a process without its shared memory, which is counted by file."""
    total = 0
    for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
        if line.startswith(("Pss_Anon:", "Pss_File:")):
            total += int(line.split()[1]) << 10
    return total


def _shared_files(pid: int) -> dict[tuple[int, int], int]:
    """Bytes in memory of each shared-memory file that the process holds open or mapped, by device
    and inode.
    """
    files = {}
    for folder in ("fd", "map_files"):
        try:
            entries = list((PROC / str(pid) / folder).iterdir())
        except OSError:
            continue
        for entry in entries:
            try:
                if os.readlink(entry).startswith(SHARED):
                    info = os.stat(entry)
                    files[info.st_dev, info.st_ino] = info.st_blocks * 512
            except OSError:
                continue
    return files


def memory(driver: int, names: list[Name]) -> int:
    """Bytes: proportional private and file pages of the system's processes, and every shared page
    once.

    The driver's own pages are left out, but not the shared memory that it alone holds.
    """
    files = _shared_files(driver)
    total = 0
    for pid, _ in names:
        try:
            total += _private(pid)
        except OSError:
            continue
        files.update(_shared_files(pid))
    return total + sum(files.values())


def cpu_seconds(names: list[Name]) -> float:
    """Processor time used so far."""
    total = 0
    for pid, _ in names:
        fields = _stat(pid)
        if fields is not None:
            total += int(fields[11]) + int(fields[12])
    return total / TICK


def switches(names: list[Name]) -> int:
    """How often a thread of the system has gone to sleep of its own accord so far."""
    total = 0
    for pid, _ in names:
        for status in (PROC / str(pid) / "task").glob("*/status"):
            try:
                lines = status.read_text().splitlines()
            except OSError:
                continue
            total += sum(
                int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches")
            )
    return total
