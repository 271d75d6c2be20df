"""When, on what machine and of which build a figure is. Nothing in it names a host, a user or a
path.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a figure can depend on: a change elsewhere leaves the commit true.
MEASURED = ["src", "include", "python", "bench", "meson.build"]


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.M)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()


def _machine() -> dict:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu(),
        "memory_gib": round(memory / (1 << 30)),
        # The numbers alone: what a distribution or a provider adds says where it ran.
        "kernel": re.match(r"[\d.]*", platform.release()).group().rstrip("."),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr)
    return done.stdout.strip()


def _commit() -> str:
    try:
        commit = _git("rev-parse", "--short=7", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", *MEASURED)
        return f"{commit} with changes" if changed else commit
    except OSError:  # no git, or a copy without its history
        return "not known"


def _version() -> str:
    found = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())
    return found.group(1) if found else "not known"


def stamp() -> dict:
    """Of this moment, this machine and this tree."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _machine(),
        "build": {
            "version": _version(),
            "commit": _commit(),
            "python": platform.python_version(),
        },
    }


def lines(stamped: dict) -> list[str]:
    """For the top of a page. What a stamp does not say is left out: pages that were entered from
    older ones do not know everything.
    """
    machine, build = stamped["machine"], stamped["build"]
    parts = [f"{machine['cores']} cores", machine.get("cpu")]
    parts += [f"{machine['memory_gib']} GiB"] if "memory_gib" in machine else []
    parts += [f"Linux {machine['kernel']}"] if "kernel" in machine else []
    made = [f"Mobula {build['version']}", f"commit {build['commit']}"]
    made += [f"Python {build['python']}"] if "python" in build else []
    return [
        f"date: {stamped['date']}",
        "machine: " + ", ".join(filter(None, parts)),
        "build: " + ", ".join(made),
        *([f"note: {stamped['note']}"] if "note" in stamped else []),
    ]
