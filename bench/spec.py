"""The table's rows: what each is called, what is better, what Mobula aims at, and what the machine
itself allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WAKE_UPS = 2  # of the worker and of the caller


@dataclass(frozen=True)
class Row:
    """One line of the table. `floor` is a mode of the floor program, `from_floor` turns its figure
    into the row's.
    """

    key: str
    title: str
    unit: str
    goal: float | None
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


def _call_us(wake_us: float) -> float:
    return WAKE_UPS * wake_us


def _trips(microseconds: float) -> float:
    """Round trips a second."""
    return 1e6 / microseconds


def _copies(gigabytes: float) -> float:
    """1 MB arrays per second that two copies each leave room for."""
    return gigabytes * 1e9 / 2e6


def _copies_of(size: float) -> Callable[[float], float]:
    """Copies a second of so many bytes."""
    return lambda gigabytes: gigabytes * 1e9 / size


FRESH = [
    Row(
        "init",
        "init",
        "s",
        0.08,
        less=True,
        floor="fork",
        from_floor=lambda us: us / 1e6,
        pool=True,
    ),
    Row("first", "first task after it", "s", 0.02, less=True, pool=True),
]

IDLE = [
    Row("memory", "memory of the idle system", "MB", 30, less=True, pool=True),
    Row("processes", "its processes", "", 4, less=True, pool=True),
    Row("idle_cpu", "its CPU while idle", "%", 0, less=True, pool=True),
    Row(
        "idle_switches", "its voluntary context switches while idle", "/s", 0, less=True, pool=True
    ),
]

# Of a node that drivers join, and of what survives: a page of their own too.
NODE = [
    Row("cancel", "10,000 waiting tasks cancelled", "s", 0.1, less=True, timeout=400),
    Row("start_node", "`ray start --head`, until it is ready", "s", 0.1, less=True, timeout=120),
    Row("join", 'init(address="auto") of a second driver', "s", 0.03, less=True, timeout=120),
    Row("join_first", "that driver's first task", "s", 0.05, less=True, timeout=120),
    Row("driver", "its whole program: import, init, task, end", "s", 0.2, less=True, timeout=120),
    Row("named", "get_actor by name", "/s", 500e3),
    Row("restart", "actor restarted, kill -9 to first answer", "s", 0.03, less=True, timeout=120),
]

# Of ray.util.
UTIL = [
    Row("queue_items", "Queue: an item put, then got", "/s", 100e3),
    Row("pool_map", "util's Pool.map of 10,000, items", "/s", 1e6, pool=True),
    Row("joblib_tasks", "joblib: 1,000 small tasks", "/s", 20e3),
    Row(
        "allreduce",
        "allreduce of 100 MB over 4 actors",
        "/s",
        None,
        floor="copy",
        from_floor=_copies_of(4 * 2 * 100e6),
        goal_of_floor=0.4,
        timeout=120,
    ),
    Row("allreduce_by_hand", "... by a get of all and a sum", "/s", None, timeout=120),
]

WINDOWS = [
    Row("tasks_one", "tasks one at a time", "/s", 150e3, False, "spin", _trips, pool=True),
    Row(
        "tasks_apart",
        "a task every 300 us, time of a call",
        "us",
        70,
        True,
        "wake",
        _call_us,
        pool=True,
    ),
    Row("tasks_many", "tasks, 1,000 at once", "/s", 400e3, pool=True),
    Row("tasks_kilobyte", "... each with a 1 KB argument", "/s", 300e3, pool=True),
    Row(
        "tasks_megabyte",
        "50 at once, a 1 MB array there and back",
        "/s",
        4e3,
        False,
        "copy",
        _copies,
        pool=True,
    ),
    Row("tasks_chain", "chain of 100 dependent tasks", "/s", 100e3),
    Row("tasks_nested", "tasks submitted by tasks", "/s", 100e3),
    Row("drain", "100,000 queued, then drained", "s", 0.5, less=True, timeout=400, pool=True),
    Row("actor_one", "actor call, one at a time", "/s", 150e3, False, "spin", _trips),
    Row("actor_many", "actor call, 1,000 at once", "/s", 500e3),
    Row("async_one", "async actor, one at a time", "/s", 15e3),
    Row("async_many", "async actor, 1,000 at once", "/s", 150e3),
    Row("items", "items of a generator, each got", "/s", 400e3),
    Row("items_actor", "... of an actor's method", "/s", 400e3),
    Row("items_async", "... of an async actor's, in an event loop", "/s", 100e3),
    Row("groups", "concurrency groups' calls, 1,000 at once", "/s", 100e3),
    Row(
        "actors_created", "actors created", "/s", 400, floor="fork", from_floor=_trips, timeout=120
    ),
    Row("placement", "placement groups created and removed", "/s", 20e3, timeout=120),
    Row("placement_ready", "... each awaited", "/s", 5e3, timeout=120),
    Row("bundle_many", "tasks in a bundle, 1,000 at once", "/s", 500e3),
    Row("environments", "tasks, each in a new runtime environment", "/s", 40, timeout=400),
    Row("environment", "tasks in one that is there, one at a time", "/s", 100e3, timeout=120),
    Row("put_small", "put of a small value", "/s", 1e6),
    Row("get_small", "get of one", "/s", 2e6),
    Row("put_cold", "put of a 200 MiB array, the first", "GB/s", None, floor="cold"),
    Row("put_large", "put of a 200 MiB array, warm", "GB/s", None, floor="copy", goal_of_floor=0.9),
    Row("get_large", "get of a 200 MiB array", "/s", 500e3),
    Row(
        "image",
        "put and get of a Pillow image of 12 megapixels",
        "/s",
        None,
        floor="copy",
        from_floor=_copies_of(36e6),
        goal_of_floor=0.25,
    ),
    Row(
        "frame",
        "put and get of a pandas frame of 5 million numbers",
        "/s",
        None,
        floor="copy",
        from_floor=_copies_of(40e6),
        goal_of_floor=0.5,
    ),
    Row("wait_each", "wait for 1,000 tasks one by one, rounds", "/s", 100),
    Row("get_refs", "get of one object that contains 10,000 refs", "/s", 300),
    *UTIL,
    *NODE,
]

ROWS = FRESH + IDLE + WINDOWS


def goal(row: Row, floor: float | None) -> float | None:
    """The row's goal; that of a copy depends on what a copy costs here. `floor` is in the row's
    unit.
    """
    if row.goal_of_floor is not None and floor is not None:
        return row.goal_of_floor * floor
    return row.goal


def verdict(row: Row, mobula: float | None, floor: float | None) -> str:
    """Whether the row's goal is reached. Empty if it can't be said."""
    aim = goal(row, floor)
    if mobula is None or aim is None:
        return ""
    return "reached" if row.better(mobula, aim) == mobula else "SHORT"
