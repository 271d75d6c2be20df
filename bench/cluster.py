"""Several nodes on this machine: Mobula beside Ray's ray.cluster_utils.Cluster, in one run.

    python bench/cluster.py --mobula .venv/bin/python --ray .venv-bench/bin/python

Every figure is of a fresh cluster (workload_cluster.py), the systems in turn, the best of several;
beside some what the machine itself does, or a node that is alone. Prints a table, and writes it with
every figure into docs/figures; a run of some rows, or without Ray, into bench/partial.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import fresh
import pages
from table import number

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str = "/s"
    less: bool = False
    goal: float | None = None
    count: int = 0
    ray_count: int = 0  # where Ray would take too long for the whole
    beside: str = ""
    share: float = 1.0  # of what stands beside it, which is the goal
    has_ray: bool = True
    limit: float = 240


ROWS = [
    Row("task_one", "task on the other node, one at a time", "us", True, 250),
    Row("task_many", "1,000 tasks there at once", goal=100_000),
    Row("call_one", "an actor's call there, one at a time", "us", True),
    Row("call_many", "1,000 calls there at once"),
    Row(
        "backlog",
        "100,000 tasks of 0.1 ms over 4 nodes",
        count=100_000,
        ray_count=10_000,
    ),
    Row("pull", "pull of 1 GiB", "GB/s", beside="a socket", share=0.8),
    Row("to_one", "100 MiB to 1 node", "s", True),
    Row("to_eight", "100 MiB to 8 nodes", "s", True, beside="2 pulls, 8 copies"),
    Row("actors", "1,000 actors over 4 nodes", count=1000, ray_count=40),
    Row("groups", "groups over 2 nodes, made and removed"),
    Row("join", "a join to the first task there", "s", True, 1),
    Row("death", "a node's death to its task's retried result", "s", True),
    Row("local_one", "task on the own node, one at a time", "us", True, beside="alone"),
    Row("local_many", "1,000 tasks on it at once", beside="alone"),
    Row("idle_cpu", "CPU of an idle node", "%", True, 0.2),
    Row("redis_idle", "commands at Redis of an idle node", "/s", True, 6, has_ray=False),
    Row("redis_tasks", "commands at Redis for a task elsewhere", "", True, has_ray=False),
    Row("redis_actors", "commands at Redis for an actor elsewhere", "", True, has_ray=False),
    Row("redis_groups", "commands at Redis for a group of 2 nodes", "", True, has_ray=False),
]
HEAD = ["row", "Mobula", "Ray", "x Ray", "goal", "beside it"]


class Bench:
    """One run: the systems, and every window's figures."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.options = options
        self.env = {
            "HOME": str(scratch),
            "RAY_TMPDIR": str(scratch),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        }
        self.rows: dict[str, dict[str, list[fresh.Figure]]] = {}

    def figure(self, python: str, key: str, count: int, limit: float) -> fresh.Figure:
        command = [python, str(HERE / "workload_cluster.py"), key, str(count)]
        return fresh.measure(command, limit, self.env)

    def measure(self, row: Row) -> None:
        found = self.rows[row.key] = {"Mobula": [], "Ray": [], "beside": []}
        for window in range(self.options.windows):
            mobula, ray = self.options.mobula, self.options.ray
            found["Mobula"].append(self.figure(mobula, row.key, row.count, row.limit))
            if ray and row.has_ray and (window == 0 or not isinstance(found["Ray"][-1], str)):
                count = row.ray_count or row.count
                found["Ray"].append(self.figure(ray, row.key, count, row.limit))
            if row.beside:
                found["beside"].append(self.beside(row))

    def beside(self, row: Row) -> fresh.Figure:
        if row.beside == "a socket":
            return socket_rate()
        if row.beside == "alone":
            key = row.key.replace("local", "alone")
            return self.figure(self.options.mobula, key, 0, row.limit)
        pulled = fresh.best(self.rows.get("to_one", {}).get("Mobula", []), True)
        return pulled if isinstance(pulled, str) else 2 * pulled + 8 * copy_seconds(100 * MIB)


def socket_rate() -> fresh.Figure:
    """GB/s of one TCP connection on this machine, by iperf3."""
    port = "5207"
    try:
        server = subprocess.Popen(["iperf3", "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        return "error: there is no iperf3"
    try:
        time.sleep(0.3)
        done = subprocess.run(
            ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "3", "-J"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8e9
    except (ValueError, KeyError):
        return "error: iperf3 has no figure"
    finally:
        server.kill()
        server.wait()


def copy_seconds(size: int) -> float:
    """Of so many bytes in memory that was used before; the best of several."""
    source, target = bytes(size), bytearray(size)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - begin)
    return best


def cells(row: Row, figures: dict[str, list]) -> list[str]:
    """A row of the table, from every window's figures."""
    mine, other, beside = (
        fresh.best(figures[name], less)
        for name, less in (("Mobula", row.less), ("Ray", row.less), ("beside", row.less))
    )
    times = text = ""
    goal = row.goal
    if not isinstance(beside, str):
        goal = row.share * beside
        text = f"{number(beside, row.unit)}: {row.beside}"
    if not isinstance(mine, str) and not isinstance(other, str) and min(mine, other) > 0:
        times = number(other / mine if row.less else mine / other)
    note = f" (of {row.ray_count:,})" if row.ray_count and not isinstance(other, str) else ""
    mine, other = (
        figure if isinstance(figure, str) else number(figure, row.unit) for figure in (mine, other)
    )
    return [row.title, mine, other + note, times, goal and number(goal, row.unit) or "", text]


def markdown(results: dict) -> str:
    """For a page. Why there is no figure stands below."""
    notes = [
        f"Best of {results['windows']} fresh clusters; all nodes are on this machine, and 2 of them "
        "unless said."
    ]
    rows = []
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mobula", required=True)
    parser.add_argument("--ray", help="Ray's Python; without it only Mobula is measured")
    parser.add_argument("--rows", default="", help="only these, by key, with commas between")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, help="folder to write into (docs/figures; bench/partial for a part)"
    )
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.rows or row.key in options.rows.split(",")]
    scratch = Path(tempfile.mkdtemp(prefix="mb"))
    bench = Bench(options, scratch)
    print("\n".join(pages.table(HEAD, [])))
    try:
        for row in rows:
            bench.measure(row)
            print("| " + " | ".join(cells(row, bench.rows[row.key])) + " |", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    results = {"windows": options.windows, "rows": bench.rows}
    pages.write("cluster", results, bool(options.ray) and not options.rows, options.out)


if __name__ == "__main__":
    main()
