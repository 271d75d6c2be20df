"""What takes too long for the tests, or is a time: kills, a million tasks, half a minute of
nothing, fairness.

    .venv/bin/python bench/proof.py [kills] [flat] [idle] [fair]

Prints a line for each thing that it saw, and ends with 1 if one of them is not as it must be. The
lines of a run of all of them are also written into docs/figures, those of some into bench/partial.
MOBULA_FAST_PATH=0 sends everything through the daemon, as always.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

import pages
import procs
from soak import anonymous, workers

import ray
from ray import _core
from ray.exceptions import WorkerCrashedError

TASKS = 100_000
MANY = 1_000_000
IDLE_SECONDS = 30
GROWTH = 2 << 20  # bytes that a process may have more after a million
FAIR_MS = 20.0

failures: list[str] = []
seen: list[str] = []


def check(good: bool, text: str) -> None:
    seen.append(text if good else f"{text}  WRONG")
    print(seen[-1], flush=True)
    if not good:
        failures.append(text)


def daemon_pid() -> int:
    return _core.session()["daemon_pid"]


class Killer:
    """Ends one of the workers that wrote the last lines, every few milliseconds while the block
    runs.
    """

    def __init__(self, path: str) -> None:
        self.count = 0
        self._path = path
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        generator = random.Random(5)
        while not self._ending.wait(generator.uniform(0.002, 0.03)):
            try:
                with open(self._path, "rb") as file:
                    file.seek(-200, os.SEEK_END)
                    pids = {int(line.split()[1]) for line in file.read().split(b"\n")[1:-1]}
                os.kill(generator.choice(sorted(pids)), signal.SIGKILL)
                self.count += 1
            except OSError:  # nobody has written yet, or it is dead already
                pass

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ending.set()
        self._thread.join()


@ray.remote
def note(path, i):
    """One write of 16 bytes at a file's end: they lie in one page, so a kill does not cut them in
    two.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, b"%7d %7d\n" % (i, os.getpid()))
    os.close(file)
    return i


def lines(path: str) -> list[int]:
    with open(path) as file:
        return [int(line.split()[0]) for line in file]


def kills() -> None:
    """Workers are killed while 100,000 tasks run, twice: all may be run again; none may."""
    folder = tempfile.mkdtemp(prefix="mobula-proof-")
    for retries in (-1, 0):
        ray.init(num_cpus=4)
        path = f"{folder}/{retries}"
        task = note.options(max_retries=retries)
        results, crashed = 0, 0
        with Killer(path) as killer:
            refs = [task.remote(path, i) for i in range(TASKS)]
            for i, ref in enumerate(refs):
                try:
                    results += ray.get(ref, timeout=60) == i
                except WorkerCrashedError:
                    crashed += 1
        del refs, ref
        ran = lines(path)
        missing = TASKS - len(set(ran))
        told = f"max_retries={retries}: {killer.count} kills, {results} results, {crashed} told as crashed, "
        told += f"{len(ran)} runs of {len(set(ran))} tasks"
        if retries == 0:
            check(
                len(ran) == len(set(ran)) and results + crashed == TASKS and missing <= crashed,
                told,
            )
        else:
            check(results == TASKS and missing == 0, told)
        limit = time.monotonic() + 10
        while ray.available_resources().get("CPU") != 4 and time.monotonic() < limit:
            time.sleep(0.1)
        check(ray.available_resources().get("CPU") == 4, "all CPUs are free again")
        ray.shutdown()
        os.unlink(path)
    os.rmdir(folder)


@ray.remote
def nothing(i):
    return i


def flat() -> None:
    """A million tasks and a million puts, each dropped at once: every process keeps its size."""
    ray.init(num_cpus=2)

    def call_and_drop(count: int) -> None:
        for _ in range(count // 1000):
            ray.wait([nothing.remote(i) for i in range(1000)], num_returns=1000)

    def put_and_drop(count: int) -> None:
        for i in range(count):
            ray.put(i)

    # pools and the timeline, which keeps 262,144 runs, have their size then
    call_and_drop(MANY // 2)
    put_and_drop(MANY // 10)
    for work, name in ((call_and_drop, "tasks"), (put_and_drop, "puts")):
        pids = {"driver": os.getpid(), "daemon": daemon_pid()}
        pids.update({f"worker {pid}": pid for pid in workers(daemon_pid())})
        before = {who: anonymous(pid) for who, pid in pids.items()}
        free = ray.available_resources()["object_store_memory"]
        work(MANY)
        grown = {
            who: anonymous(pid) - before[who]
            for who, pid in pids.items()
            if os.path.exists(f"/proc/{pid}")
        }
        text = ", ".join(f"{who} {bytes_ >> 10:+} KiB" for who, bytes_ in grown.items())
        lost = free - ray.available_resources()["object_store_memory"]
        check(
            max(grown.values()) < GROWTH and lost < GROWTH,
            f"{MANY} {name}: {text}, store {-lost / 1024:+.0f} KiB",
        )
    ray.shutdown()


def idle() -> None:
    """Nothing is asked of a session that has worked."""
    ray.init(num_cpus=2)
    ray.get([nothing.remote(i) for i in range(1000)])
    time.sleep(5)
    family = procs.family(os.getpid(), "")
    before, cpu = procs.switches(family), procs.cpu_seconds(family)
    time.sleep(IDLE_SECONDS)
    woken, used = procs.switches(family) - before, procs.cpu_seconds(family) - cpu
    check(
        woken == 0 and used == 0,
        f"{len(family)} processes, idle for {IDLE_SECONDS} s: {woken} wake-ups, {used} s of CPU",
    )
    ray.shutdown()


@ray.remote
def short():
    """A millisecond of work."""
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass


def stolen() -> int:
    """Ticks in which a CPU of this machine had work, and its host ran something else."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8])


def times_of(options: dict) -> tuple[list[float], int]:
    """Submits tasks, one at a time: how long each took, in ms. Those in which the machine itself
    stood still for a tick say nothing about us; they are only counted.
    """
    task, times, disturbed = nothing.options(**options), [], 0
    while len(times) < 100 and disturbed < 100:
        before, begin = stolen(), time.perf_counter()
        ray.get(task.remote(1))
        took = 1000 * (time.perf_counter() - begin)
        if stolen() == before:
            times.append(took)
        else:
            disturbed += 1
        time.sleep(0.01)
    return times, disturbed


@ray.remote
def submitter(path: str):
    """Says that it is there, waits for the backlog to be there, then submits beside it."""
    os.mkdir(path)
    while os.path.exists(path):
        time.sleep(0.001)
    return times_of({})


def fair() -> None:
    """Others submit beside a driver whose backlog of tasks of 1 ms would take seconds."""
    ray.init(num_cpus=2)
    ray.get([nothing.remote(i) for i in range(100)])
    # the zygote loads numpy behind the first tasks: a third process that wants one of two CPUs
    time.sleep(1)

    def told(name: str, found: tuple[list[float], int], backlog: list) -> None:
        waiting = len(ray.wait(backlog, num_returns=len(backlog), timeout=0)[1])
        times, disturbed = sorted(found[0]), found[1]
        if disturbed > len(times):
            check(
                False,
                f"{name}: the machine stood still in {disturbed} of {len(times) + disturbed} calls",
            )
            return
        middle, late, most = statistics.median(times), times[int(0.9 * len(times))], times[-1]
        text = f"{name}: {middle:.1f} ms in the middle, {late:.1f} ms nine of ten, {most:.1f} ms at most"
        text += f" of {len(times)} ({disturbed} others met a machine that stood still)"
        check(
            most <= FAIR_MS and waiting > 0,
            f"{text}; {waiting} of {len(backlog)} tasks of 1 ms still wait",
        )
        ray.get(backlog)

    path = f"{tempfile.gettempdir()}/mobula-proof-{os.getpid()}"
    times = submitter.remote(path)
    while not os.path.exists(path):
        time.sleep(0.001)
    backlog = [short.remote() for _ in range(TASKS // 5)]
    os.rmdir(path)
    told("a task that submits", ray.get(times), backlog)
    backlog = [short.remote() for _ in range(TASKS // 5)]
    told("tasks of half a CPU", times_of({"num_cpus": 0.5}), backlog)
    ray.shutdown()


if __name__ == "__main__":
    every = {"kills": kills, "flat": flat, "idle": idle, "fair": fair}
    for chosen in sys.argv[1:] or every:
        every[chosen]()
    pages.write("proof", {"lines": seen}, whole=len(sys.argv) == 1)
    sys.exit(bool(failures))
