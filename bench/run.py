"""Mobula beside Ray and multiprocessing.Pool, in one run.

    python bench/run.py --mobula .venv/bin/python --ray .venv-bench/bin/python

Prints a table with ratios, and writes it with every window's figure into docs/figures; a run of
some rows or systems, or a quick one, into bench/partial. README.md says how to read them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pages
import procs
import table
from child import Child, Floor, RowError, System
from spec import FRESH, IDLE, NODE, ROWS, WINDOWS, Row

SETTLE = 0.3
SETTLE_IDLE = 5.0  # after the first task
IDLE_SECONDS = 30.0
ERROR_WIDTH = 60


def error_text(error: Exception) -> str:
    """A cell's text for a failure: short, and "not there yet" for what a system says it does not
    have yet.
    """
    text = " ".join(str(error).split())
    if text.startswith("NotImplementedError") or "not in Mobula yet" in text:
        return "not there yet"
    return "error: " + (text if len(text) <= ERROR_WIDTH else text[: ERROR_WIDTH - 3] + "...")


class Bench:
    """One run: the systems, the children that are up, and the figures so far."""

    def __init__(self, systems: list[System], floor: Floor, options: argparse.Namespace) -> None:
        self.systems = systems
        self.floor = floor
        self.options = options
        self.children: dict[str, Child] = {}
        self.versions: dict[str, str] = {}
        self.rows: dict[str, dict[str, dict]] = {}

    # Figures.

    def note(self, row: Row, name: str, value: float, **more: bool) -> None:
        cell = self.rows.setdefault(row.key, {}).setdefault(name, {"windows": []})
        cell["windows"].append(value)
        cell["best"] = value if "best" not in cell else row.better(cell["best"], value)
        cell.update(more)

    def fail(self, row: Row, name: str, error: Exception) -> None:
        """An error takes the place of what earlier windows gave: a figure that can't be repeated is
        none.
        """
        self.rows.setdefault(row.key, {})[name] = {"error": error_text(error)}

    def failed(self, row: Row, name: str) -> bool:
        return "error" in self.rows.get(row.key, {}).get(name, {})

    def wanted(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if not self.options.rows or row.key in self.options.rows]

    # Children.

    def start(self, system: System) -> Child:
        child = Child(system)
        self.versions[system.name] = child.version
        return child

    def child(self, system: System) -> Child:
        """The system's long-lived child, started if it is not up."""
        child = self.children.get(system.name)
        if child is None or not child.usable:
            child = self.children[system.name] = self.start(system)
            child.ask("init", 60)
            child.ask("first", 60)
        return child

    def stop(self, system: System) -> None:
        child = self.children.pop(system.name, None)
        if child is not None and child.usable:
            child.quit()

    def stop_all(self) -> None:
        for system in self.systems:
            self.stop(system)

    # Rows that need a fresh system.

    def measure_fresh(self) -> None:
        cold = next(row for row in WINDOWS if row.key == "put_cold")
        rows = self.wanted([*FRESH, cold])
        if not rows:
            return
        for _ in range(self.options.windows):
            for system in self.systems:
                self.try_fresh(system, rows)
                time.sleep(SETTLE)
            for row in rows:
                self.measure_floor(row)

    def try_fresh(self, system: System, rows: list[Row]) -> None:
        child = None
        for row in rows:
            if (row.key == "put_cold" and system.name == "Pool") or self.failed(row, system.name):
                continue
            try:
                child = child or self.start(system)
                if row.key == "put_cold":
                    self.note(row, system.name, child.ask("cold", 60)["value"])
                else:
                    self.note(row, system.name, child.ask(row.key, 60)["seconds"])
            except RowError as error:
                self.fail(row, system.name, error)
        if child is not None and child.usable:
            child.quit()

    def measure_idle(self) -> None:
        rows = self.wanted(IDLE)
        if not rows:
            return
        for system in self.systems:
            try:
                figures = self.idle_figures(system)
            except RowError as error:
                for row in rows:
                    self.fail(row, system.name, error)
                continue
            for row in rows:
                self.note(row, system.name, figures[row.key])

    def idle_figures(self, system: System) -> dict[str, float]:
        child = self.start(system)
        try:
            child.ask("init", 60)
            child.ask("first", 60)
            time.sleep(SETTLE_IDLE)
            names = child.family()
            size = procs.memory(child.process.pid, names)
            cpu, switches = procs.cpu_seconds(names), procs.switches(names)
            time.sleep(IDLE_SECONDS)
            used, woken = procs.cpu_seconds(names) - cpu, procs.switches(names) - switches
        finally:
            if child.usable:
                child.quit()
        return {
            "memory": size / 1e6,
            "processes": len(names),
            "idle_cpu": 100 * used / IDLE_SECONDS,
            "idle_switches": woken / IDLE_SECONDS,
        }

    # Rows measured window by window.

    def measure_windows(self) -> None:
        for row in sorted(self.wanted(WINDOWS), key=lambda row: row.key == "drain"):
            if row.key == "put_cold":
                continue
            print(f"  {row.title}", file=sys.stderr, flush=True)
            if self.options.separate:
                self.measure_apart(row)
            else:
                self.measure_in_turn(row)

    def takes_part(self, row: Row, system: System, window: int) -> bool:
        if system.name == "Pool" and not row.pool:
            return False
        # A minute a time is enough of this one.
        once = row.key == "drain" and system.name == "Ray"
        return not (once and window > 0) and not self.failed(row, system.name)

    def measure_in_turn(self, row: Row) -> None:
        for window in range(self.options.windows):
            for system in self.systems:
                if self.takes_part(row, system, window):
                    self.window(row, system)
            self.measure_floor(row)
        for system in self.systems:
            self.end_row(row, system)

    def measure_apart(self, row: Row) -> None:
        for system in self.systems:
            for window in range(self.options.windows):
                if self.takes_part(row, system, window):
                    self.window(row, system)
            self.stop(system)
        for _ in range(self.options.windows):
            self.measure_floor(row)

    def command_key(self, row: Row) -> str:
        return "drain_tenth" if row.key == "drain" and self.options.quick else row.key

    def window(self, row: Row, system: System) -> None:
        key = self.command_key(row)
        tenth = key != row.key
        try:
            child = self.child(system)
            # What the neighbour still had to tidy up is over.
            time.sleep(SETTLE)
            value = child.ask(f"run {key} {self.options.seconds}", row.timeout)["value"]
            self.note(
                row,
                system.name,
                value * 10 if tenth else value,
                **({"scaled": True} if tenth else {}),
            )
        except RowError as error:
            self.fail(row, system.name, error)

    def end_row(self, row: Row, system: System) -> None:
        child = self.children.get(system.name)
        if child is not None and child.usable:
            try:
                child.ask(f"end {self.command_key(row)}", 30)
            except RowError as error:
                # The figures stand: what failed is the tidying after them.
                print(f"{system.name}, after {row.key}: {error}", file=sys.stderr)

    def measure_floor(self, row: Row) -> None:
        if row.floor is not None:
            self.note(
                row,
                "floor",
                row.from_floor(self.floor.measure(row.floor, min(self.options.seconds, 0.5))),
            )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mobula beside Ray and multiprocessing.Pool.")
    parser.add_argument(
        "--mobula", type=Path, default=Path(".venv/bin/python"), help="a Python that has Mobula"
    )
    parser.add_argument(
        "--ray", type=Path, default=Path(".venv-bench/bin/python"), help="a Python that has Ray"
    )
    parser.add_argument("--cpus", type=int, default=2, help="CPUs given to each system (2)")
    parser.add_argument(
        "--windows", type=int, default=3, help="windows a row and system; the best counts (3)"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a window (1.5)")
    parser.add_argument(
        "--quick", action="store_true", help="2 windows of 0.5 s; 10,000 tasks queued, times 10"
    )
    parser.add_argument("--separate", action="store_true", help="only one system up at a time")
    parser.add_argument("--only", default="", help="systems, by name and comma: mobula,ray,pool")
    parser.add_argument(
        "--rows", default="", help="rows, by key and comma: " + ",".join(row.key for row in ROWS)
    )
    parser.add_argument(
        "--page", choices=("bench", "node"), default="bench", help="node: the rows of NODE alone"
    )
    parser.add_argument(
        "--out", type=Path, help="folder to write into (docs/figures; bench/partial for a part)"
    )
    options = parser.parse_args()
    options.whole = not (options.quick or options.rows or options.only)
    options.rows = set(filter(None, options.rows.split(",")))
    if options.page == "node" and not options.rows:
        options.rows = {row.key for row in NODE}
    unknown = options.rows - {row.key for row in ROWS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if options.quick:
        options.windows, options.seconds = 2, 0.5
    return options


def find_systems(options: argparse.Namespace, scratch: Path) -> list[System]:
    """The systems that are installed. A home and a temp folder of its own keep Ray from leaving
    files in the user's.
    """
    # Not resolved: a virtual environment is known by the link's place, not by where it points.
    mobula, ray = Path(os.path.abspath(options.mobula)), Path(os.path.abspath(options.ray))
    home = scratch / "home"
    home.mkdir()
    for_ray = {"HOME": str(home), "RAY_TMPDIR": str(scratch), "RAY_USAGE_STATS_ENABLED": "0"}
    systems = [
        System("Mobula", mobula, "workload.py", options.cpus, scratch),
        System("Ray", ray, "workload.py", options.cpus, scratch, for_ray),
        System("Pool", ray if ray.exists() else mobula, "workload_pool.py", options.cpus, scratch),
    ]
    only = {name for name in options.only.lower().split(",") if name}
    found = []
    for system in systems:
        if only and system.name.lower() not in only:
            continue
        if system.python.exists():
            found.append(system)
        else:
            print(
                f"{system.name} is left out: it has no Python at the place given", file=sys.stderr
            )
    return found


def measure(options: argparse.Namespace, scratch: Path) -> dict:
    load = os.getloadavg()[0]
    bench = Bench(find_systems(options, scratch), Floor(scratch), options)
    try:
        print("  fresh systems", file=sys.stderr, flush=True)
        bench.measure_fresh()
        bench.measure_idle()
        bench.measure_windows()
    finally:
        bench.stop_all()
    return {
        "versions": bench.versions,
        "cpus": options.cpus,
        "windows": options.windows,
        "seconds": options.seconds,
        "separate": options.separate,
        "load": [load, os.getloadavg()[0]],
        "wake_us": {
            mode: min(bench.floor.measure(mode, 0.5) for _ in range(3)) for mode in ("wake", "near")
        },
        "rows": bench.rows,
    }


def complete(results: dict, page: str) -> bool:
    """Every system was there: a table without Ray does not replace one that has it. A pool has no
    answer to the rows of NODE.
    """
    needed = {"Mobula", "Ray", "Pool"} if page == "bench" else {"Mobula", "Ray"}
    return needed <= set(results["versions"])


def main() -> None:
    options = parse()
    scratch = Path(tempfile.mkdtemp(prefix="mb"))
    try:
        results = measure(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(table.plain(results))
    pages.write(
        options.page, results, options.whole and complete(results, options.page), options.out
    )


if __name__ == "__main__":
    main()
