"""Rows about memory: objects that go to disk and come back, and very many of them. Mobula beside
Ray, in one run.

    python bench/memory.py --mobula .venv/bin/python --ray .venv-bench/bin/python

Every figure is of a fresh system (workload_memory.py), the systems in turn, the best of several;
beside them what the disk itself does. Prints a table, and writes it with every figure into
docs/figures; a run of some rows, or without Ray, into bench/partial.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import fresh
import pages
from table import number

HERE = Path(__file__).resolve().parent
GIB = 1 << 30


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    less: bool = False
    count: int = 0
    ray_count: int = 0  # where Ray would take too long for the whole
    device: str = ""
    limit: float = 300


ROWS = [
    Row("spill", "put of 32 MiB arrays that push others to disk", "GB/s", device="write"),
    Row(
        "restore_first",
        "get of them, while others have to be written",
        "GB/s",
        device="both",
    ),
    Row(
        "restore",
        "get of them, when all have a copy on disk",
        "GB/s",
        device="read",
    ),
    Row("put_full", "put of 1 MiB arrays into a full store", "GB/s", device="write"),
    Row("get_many", "100,000 objects in one get", "s", True, 100_000),
    Row("arguments", "10,000 arguments to one task", "s", True, 10_000),
    Row("returns", "3,000 returns of one task", "s", True, 3_000),
    Row("live_refs", "1,000,000 live references, bytes each", "B", True, 1_000_000, 50_000),
]


def pass_through(path: str, write: bool, size: int) -> float:
    """Seconds of one process for a file in pieces of 4 MiB, past the page cache."""
    piece = mmap.mmap(-1, 4 << 20)
    piece.write(os.urandom(len(piece)))
    fd = os.open(path, os.O_DIRECT | (os.O_WRONLY | os.O_CREAT if write else os.O_RDONLY))
    begin = time.perf_counter()
    for _ in range(size // len(piece)):
        os.write(fd, piece) if write else os.readv(fd, [piece])
    os.close(fd)
    return time.perf_counter() - begin


def disk(folder: str) -> dict[str, float]:
    """GB/s of the disk itself, with a file of 1 GiB: written; read, the faster of two, for a disk
    may itself remember what it has read before; and read until a fifth as much has also been
    written, by another thread: what the daemon does during the gets of that row, by its own count
    of bytes.
    """
    path, other = os.path.join(folder, "disk"), os.path.join(folder, "other")
    written = pass_through(path, True, GIB)
    read = min(pass_through(path, False, GIB) for _ in range(2))
    begin = time.perf_counter()
    writer = threading.Thread(target=pass_through, args=(other, True, GIB // 5))
    writer.start()
    pass_through(path, False, GIB)
    writer.join()
    both = time.perf_counter() - begin
    os.unlink(path)
    os.unlink(other)
    return {"write": GIB / 1e9 / written, "read": GIB / 1e9 / read, "both": GIB / 1e9 / both}


def measure(python: str, row: Row, folder: str, count: int) -> fresh.Figure:
    command = [python, str(HERE / "workload_memory.py"), row.key, folder, str(count)]
    return fresh.measure(command, row.limit)


def cells(row: Row, figures: dict[str, list]) -> list[str]:
    """A row of the table, from every window's figures."""
    mine, other, limit = (
        fresh.best(figures.get(name, []), row.less) for name in ("Mobula", "Ray", "disk")
    )
    times = share = ""
    if not isinstance(mine, str) and not isinstance(other, str):
        times = number(other / mine if row.less else mine / other)
    if not isinstance(mine, str) and not isinstance(limit, str):
        share = f"{mine / limit:.2f}"
    fewer = row.ray_count and not isinstance(other, str)
    note = f" (of {row.ray_count:,})" if fewer else ""
    mine, other, limit = (
        figure if isinstance(figure, str) else number(figure, row.unit)
        for figure in (mine, other, limit)
    )
    return [row.title, mine, other + note, times, limit, share]


HEAD = ["row", "Mobula", "Ray", "x Ray", "disk", "of disk"]


def markdown(results: dict) -> str:
    """For a page. Why there is no figure stands below: it is too long for a cell."""
    rows, notes = [], [f"Best of {results['windows']} fresh systems; gets in random order."]
    for row in ROWS:
        if row.key not in results["rows"]:
            continue
        made = cells(row, results["rows"][row.key])
        for column in (1, 2):
            if fresh.is_reason(made[column]):
                notes.append(f"{HEAD[column]}, {row.title}: {made[column]}")
                made[column] = "error"
        rows.append(made)
    return "\n".join([*pages.table(HEAD, rows), "", *map(pages.bullet, notes)]) + "\n"


def measure_row(row: Row, options: argparse.Namespace, folder: str) -> dict[str, list]:
    found: dict[str, list] = {"Mobula": [], "Ray": [], "disk": []}
    for window in range(options.windows):
        found["Mobula"].append(measure(options.mobula, row, folder, row.count))
        if options.ray and (window == 0 or not isinstance(found["Ray"][-1], str)):
            found["Ray"].append(measure(options.ray, row, folder, row.ray_count or row.count))
        if row.device:
            found["disk"].append(disk(folder)[row.device])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mobula", required=True)
    parser.add_argument("--ray", help="Ray's Python; without it only Mobula is measured")
    parser.add_argument("--rows", default="", help="only these, by key, with commas between")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--folder", help="on the disk to use; a temporary one by default")
    parser.add_argument(
        "--out", type=Path, help="folder to write into (docs/figures; bench/partial for a part)"
    )
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.rows or row.key in options.rows.split(",")]
    results: dict = {"windows": options.windows, "rows": {}}
    folder = tempfile.mkdtemp(prefix="mobula-bench-", dir=options.folder)
    print("\n".join(pages.table(HEAD, [])))
    try:
        for row in rows:
            results["rows"][row.key] = measure_row(row, options, folder)
            print("| " + " | ".join(cells(row, results["rows"][row.key])) + " |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    pages.write("memory", results, bool(options.ray) and not options.rows, options.out)


if __name__ == "__main__":
    main()
