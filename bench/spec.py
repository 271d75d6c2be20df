"""The table's rows: what each is called, what is better, what Mobula aims at, and by which rule it is judged.

Rules (they are those of the base path, where every task goes through the daemon):

    goal   the goal is reached
    many   the goal is reached, or Ray's figure is beaten 20 times over: what is asked for in bulk
    one    the goal is reached, or a call takes at most 1.3 times three wake-ups as measured between the same windows:
           what is asked for one at a time has three sleepers on its way, daemon, worker and caller
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MANY_TIMES = 20.0
ONE_SLACK = 1.3
WAKE_UPS = 3


@dataclass(frozen=True)
class Row:
    """One line of the table. `floor` is a mode of the floor program, `from_floor` turns its figure into the row's."""

    key: str
    title: str
    unit: str
    goal: float | None
    rule: str
    less: bool = False
    floor: str | None = None
    from_floor: Callable[[float], float] = lambda number: number
    goal_of_floor: float | None = None
    timeout: float = 60.0
    pool: bool = False

    def better(self, a: float, b: float) -> float:
        """The better of two figures."""
        return min(a, b) if self.less else max(a, b)

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times better ours is."""
        return theirs / ours if self.less else ours / theirs


def _calls(wake_us: float) -> float:
    return 1e6 / (WAKE_UPS * wake_us)


def _call_us(wake_us: float) -> float:
    return WAKE_UPS * wake_us


def _copies(gigabytes: float) -> float:
    """1 MB arrays per second that two copies each leave room for."""
    return gigabytes * 1e9 / 2e6


FRESH = [
    Row("init", "init", "s", 0.08, "goal", less=True, floor="fork", from_floor=lambda us: us / 1e6, pool=True),
    Row("first", "first task after it", "s", 0.02, "goal", less=True, pool=True),
]

IDLE = [
    Row("memory", "memory of the idle system", "MB", 30, "goal", less=True, pool=True),
    Row("processes", "its processes", "", 4, "goal", less=True, pool=True),
    Row("idle_cpu", "its CPU while idle", "%", 0, "goal", less=True, pool=True),
    Row("idle_switches", "its voluntary context switches while idle", "/s", 0, "goal", less=True, pool=True),
]

WINDOWS = [
    Row("tasks_one", "tasks one at a time", "/s", 150e3, "one", floor="wake", from_floor=_calls, pool=True),
    Row("tasks_apart", "a task every 300 us, time of a call", "us", 70, "one", True, "wake", _call_us, pool=True),
    Row("tasks_many", "tasks, 1,000 at once", "/s", 400e3, "many", pool=True),
    Row("tasks_kilobyte", "... each with a 1 KB argument", "/s", 300e3, "many", pool=True),
    Row(
        "tasks_megabyte",
        "50 at once, a 1 MB array there and back",
        "/s",
        4e3,
        "many",
        False,
        "copy",
        _copies,
        pool=True,
    ),
    Row("tasks_chain", "chain of 100 dependent tasks", "/s", 100e3, "many"),
    Row("tasks_nested", "tasks submitted by tasks", "/s", 100e3, "many"),
    Row("drain", "100,000 queued, then drained", "s", 0.5, "many", less=True, timeout=400, pool=True),
    Row("actor_one", "actor call, one at a time", "/s", 150e3, "one", floor="wake", from_floor=_calls),
    Row("actor_many", "actor call, 1,000 at once", "/s", 500e3, "many"),
    Row("async_one", "async actor, one at a time", "/s", 15e3, "one", floor="wake", from_floor=_calls),
    Row("async_many", "async actor, 1,000 at once", "/s", 150e3, "many"),
    Row(
        "actors_created", "actors created", "/s", 400, "goal", floor="fork", from_floor=lambda us: 1e6 / us, timeout=120
    ),
    Row("put_small", "put of a small value", "/s", 1e6, "goal"),
    Row("get_small", "get of one", "/s", 2e6, "goal"),
    Row("put_cold", "put of a 200 MiB array, the first", "GB/s", None, "", floor="cold"),
    Row("put_large", "put of a 200 MiB array, warm", "GB/s", None, "goal", floor="copy", goal_of_floor=0.9),
    Row("get_large", "get of a 200 MiB array", "/s", 500e3, "goal"),
    Row("wait_each", "wait for 1,000 tasks one by one, rounds", "/s", 100, "many"),
    Row("get_refs", "get of one object that contains 10,000 refs", "/s", 300, "goal"),
]

ROWS = FRESH + IDLE + WINDOWS


def goal(row: Row, floor: float | None) -> float | None:
    """The row's goal; that of a copy depends on what a copy costs here. `floor` is in the row's unit."""
    if row.goal_of_floor is not None and floor is not None:
        return row.goal_of_floor * floor
    return row.goal


def verdict(row: Row, mobula: float | None, ray: float | None, floor: float | None) -> str:
    """A few words: whether the row's condition holds, and by which of its branches. Empty if it can't be said."""
    aim = goal(row, floor)
    if mobula is None or aim is None or not row.rule:
        return ""
    if row.better(mobula, aim) == mobula:
        return "pass: goal"
    if row.rule == "goal":
        return "FAIL: goal"
    if row.rule == "many":
        if ray is None:
            return ""
        times = row.ratio(mobula, ray)
        return f"{'pass' if times >= MANY_TIMES else 'FAIL'}: {times:.3g} x Ray, asked {MANY_TIMES:g}"
    if floor is None:
        return ""
    over = 1 / row.ratio(mobula, floor)
    return f"{'pass' if over <= ONE_SLACK else 'FAIL'}: {over:.2f} x three wake-ups, asked {ONE_SLACK}"
