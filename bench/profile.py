"""Where the time of a task goes: samples of the driver and of one worker, by step, in nanoseconds a
task.

Usage: profile.py [--seconds 5]        with the Python that has Mobula; needs the program `perf`

Samples are taken by the CPU's clock, so they also show where a process only waits for the other
(spins). The tables are also written into docs/figures; with another --seconds into bench/partial.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pages
import profile_table

SECONDS = 5
# The first that matches a symbol, in this order, is its step.
STEPS = [
    (
        "spins, looking for the other",
        r"client_spin|client_may_spin|last_is_sealed|work_is_there|client_lease_look",
    ),
    (
        "submit: arguments, record, queue",
        r"submit|draft|argument|write_|body_write|record_write|task_check|may_queue|"
        r"queue_choose|client_queue_push|client_queue_tell|shm_queue_push|shm_node_rouse"
        r"|client_record|pool_|wire_body_size",
    ),
    (
        "references: made, counted, dropped",
        r"ref_|mob_ref|client_slot|store_slot_drop|store_slot_open",
    ),
    (
        "get: look, decode",
        r"core_get|get_one|wait_all|load_all|mob_get|client_is_sealed|has_error|refs_of|refs_check|"
        r"core_value_load|core_direct_read",
    ),
    (
        "take: queue, claim",
        r"queue_take|queues_have|entry_claim|client_run_claim|run_take|mob_run_next|mob_run_try|"
        r"client_listen|client_call_take|client_lease|client_looking|client_queues|wire_body_split"
        r"|shm_queue",
    ),
    (
        "call: function, arguments",
        r"core_run_call|core_call|core_run_callable|run_name_set|core_run_take|core_serve",
    ),
    ("result: encode, store", r"result|core_value_store|core_direct|size_of|client_buffer|target_"),
    (
        "publish: done, seal, wake, timeline",
        r"mob_run_finish|run_end|run_close|core_run_end|store_slot_seal|"
        r"event_tell|shm_events|client_wake|record_free|lending|shm_bell|value_store",
    ),
]
ORDER = [name for name, _ in STEPS] + [
    "the clock",
    "the C library: locks, copies, memory",
    "Python",
    "the kernel",
    "else",
]


def step_of(library: str, symbol: str) -> str:
    """The step that a sample belongs to."""
    if library.startswith("[kernel"):
        return "the kernel"
    if "vdso" in library or "clock" in symbol:
        return "the clock"
    if "_core" in library:
        for name, pattern in STEPS:
            if re.search(pattern, symbol):
                return name
        return "else"
    if "libpython" in library or library.startswith("python"):
        return "Python"
    return "the C library: locks, copies, memory" if library.startswith(("libc", "ld-")) else "else"


def samples(data: str) -> dict:
    """Counts by process and step, from perf's report."""
    report = subprocess.run(
        ["perf", "report", "-i", data, "--stdio", "-n", "--sort", "pid,dso,symbol", "-t", "|"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found: dict = collections.defaultdict(collections.Counter)
    for line in report.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if line.startswith("#") or len(fields) < 5:
            continue
        pid = int(fields[2].split(":")[0])
        symbol = re.sub(r"^\[.\] ", "", fields[4])
        found[pid][step_of(fields[3], symbol)] += int(fields[1])
    return found


def work(mode: str, seconds: float):
    """The child: says who it is, waits for a line, then runs tasks and says how many."""
    import ray

    ray.init(num_cpus=1, include_dashboard=False)

    @ray.remote
    def nothing():
        return None

    @ray.remote
    def pid():
        return os.getpid()

    ray.get([nothing.remote() for _ in range(20_000)])
    print(os.getpid(), ray.get(pid.remote()), flush=True)
    sys.stdin.readline()
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        if mode == "many":
            ray.get([nothing.remote() for _ in range(1000)])
            done += 1000
        else:
            for _ in range(100):
                ray.get(nothing.remote())
            done += 100
    print(done, flush=True)


def measure(mode: str, seconds: float) -> tuple[int, dict, dict]:
    """Tasks run, and nanoseconds a task by step, of the driver and of the worker."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--work", mode, "--seconds", str(seconds)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with child, tempfile.TemporaryDirectory() as folder:
        driver, worker = map(int, child.stdout.readline().split())
        data = os.path.join(folder, "perf.data")
        frequency = 5000
        perf = subprocess.Popen(
            "perf record -q -e cpu-clock".split()
            + ["-F", str(frequency), "-o", data, "-p", f"{driver},{worker}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(0.5)  # it attaches
        child.stdin.write("go\n")
        child.stdin.flush()
        done = int(child.stdout.readline())
        perf.terminate()
        perf.wait()
        found = samples(data)
        per_task = {
            pid: {step: count * 1e9 / frequency / done for step, count in found[pid].items()}
            for pid in (driver, worker)
        }
    return done, per_task[driver], per_task[worker]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.seconds)
        return
    if shutil.which("perf") is None:
        sys.exit("profile.py needs the program perf (Debian: linux-perf)")
    results: dict = {"steps": ORDER, "modes": {}}
    for mode, title in (("many", "a task, 1,000 at once"), ("one", "a task, one at a time")):
        done, driver, worker = measure(mode, options.seconds)
        results["modes"][title] = {
            "tasks_per_s": done / options.seconds,
            "driver": driver,
            "worker": worker,
        }
    print(profile_table.markdown(results))
    pages.write("profile", results, whole=options.seconds == SECONDS)


if __name__ == "__main__":
    main()
