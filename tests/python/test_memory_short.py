"""Memory runs short: tasks are held back, ended and run again, and the driver is told; nobody else
is harmed.

In a control group of its own, with a limit of its own.
"""

import os
import re
import subprocess
import sys
import time

import pytest
import support

MB = 1 << 20
how_much = pytest.mark.one_path("how much is in use, whoever ends or moves what")


def own_group():
    """The folder of this process's memory group (v1); None: there is none, or it can't be divided."""
    try:
        with open("/proc/self/cgroup") as file:
            found = re.search(r"^\d+:memory:(.*)$", file.read(), re.M)
    except OSError:
        return None
    for path in [f"/sys/fs/cgroup/memory{found[1]}", "/sys/fs/cgroup/memory"] if found else []:
        if os.path.exists(path) and os.access(path, os.W_OK):
            return path
    return None


@pytest.fixture
def run_limited(tmp_path):
    """Runs a driver in a group with so much memory: a CompletedProcess, all of it as text in .said."""
    support.skip_if_sanitized()
    parent = own_group()
    if parent is None:
        pytest.skip("there is no memory control group (v1) to make another one in")
    group = os.path.join(parent, f"mobula-test-{os.getpid()}")
    try:
        os.mkdir(group)
        with open(os.path.join(group, "memory.limit_in_bytes"), "w") as file:
            file.write(str(400 * MB))
    except OSError as error:
        pytest.skip(f"no memory control group can be made: {error}")

    # By a program of its own: what Python does after a fork, beside the threads of the test's own
    # process, may fail.
    enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]

    def run(code, timeout=100, **environment):
        path = support.script(str(tmp_path), PREFIX + code)
        done = subprocess.run(
            [*enter, sys.executable, path],
            capture_output=True,
            text=True,
            timeout=timeout,
            # What it printed until it crashed, and where it did.
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **environment},
        )
        said = f"--- its output:\n{done.stdout}\n--- its errors:\n{done.stderr}"
        done.said = f"exit code {done.returncode}\n{said}"
        return done

    yield run
    assert support.wait_until(lambda: not open(os.path.join(group, "cgroup.procs")).read())
    end = time.monotonic() + 5
    while True:
        try:
            os.rmdir(group)
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)


PREFIX = """
import os, time
import ray
FOLDER = os.path.dirname(os.path.abspath(__file__))
from ray.exceptions import ActorDiedError, OutOfMemoryError
ray.init(num_cpus=4, object_store_memory=60 << 20)

def meet(name, count):
    # goes on when so many tasks have come: each has a worker of its own then
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "%d-%d" % (os.getpid(), time.monotonic_ns())), "w").close()
    while len(os.listdir(folder)) < count:
        time.sleep(0.01)

def grow(megabytes, seconds):
    kept = []
    for _ in range(megabytes // 5):
        kept.append(bytearray(os.urandom(1 << 16)) * 80)
        time.sleep(0.02)
    time.sleep(seconds)
    return megabytes

@ray.remote(max_retries=1)
def eat(megabytes, seconds=0.5):
    return grow(megabytes, seconds)

eat_once = eat.options(max_retries=0)
"""


def test_spill_files_go_past_the_page_cache(run_limited, tmp_path):
    folder = str(tmp_path / "spilled")
    done = run_limited(f"""
import glob, sys, numpy as np
sys.path.append({os.path.dirname(__file__)!r})
from disks import share_in_cache
ray.shutdown()
# most of the group's 400 MB are the driver's own
own = bytearray(os.urandom(1 << 20)) * 270
ray.init(num_cpus=1, object_store_memory=60 << 20, object_spilling_directory={folder!r})
refs = [ray.put(np.full(2 << 20, i, dtype=np.uint8)) for i in range(60)]
assert all((ray.get(ref) == i).all() for i, ref in enumerate(refs))
files = [path for path in glob.glob({folder!r} + "/*/*") if os.path.isfile(path)]
print(len(files) > 0, share_in_cache(files))
""")
    there, share = done.stdout.split()
    assert there == "True" and float(share) < 0.1, done.said


def test_tasks_are_ended_and_run_again_until_all_are_done(run_limited):
    done = run_limited("print(ray.get([eat.remote(120) for _ in range(6)], timeout=50))")
    assert done.stdout == "[120, 120, 120, 120, 120, 120]\n", done.said
    told = re.findall(
        r"^\(raylet\) Memory is short, .* the task eat \(pid \d+\) was ended, .*$",
        done.stderr,
        re.M,
    )
    kernel = re.findall(r"^\(raylet\) The worker \d+: The kernel ended it", done.stderr, re.M)
    assert told or kernel, done.said
    for line in told:
        assert re.search(r"Largest processes: worker \d+ \(the task eat\) \d+ MiB, ", line), line


def test_a_task_that_needs_more_than_there_is(run_limited):
    done = run_limited("""
for task in (eat, eat_once):
    try:
        ray.get(task.remote(600), timeout=50)
    except OutOfMemoryError as error:
        print(error)
print(ray.get(eat.remote(20), timeout=30))
""")
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[2] == "20", done.said
    assert all("that ran eat died" in line and "memory" in line.lower() for line in lines[:2])


def test_while_memory_is_short_tasks_are_held_back(run_limited):
    """One after the other is let through: nobody takes the memory from the driver, and all would
    wait for ever else.
    """
    done = run_limited(
        """
@ray.remote(max_retries=-1)
def warm():
    meet("warm", 4)

@ray.remote(max_retries=-1)
def span():
    begin = time.monotonic()
    time.sleep(0.2)
    return begin, time.monotonic()

def overlaps():
    spans = sorted(ray.get([span.remote() for _ in range(20)], timeout=50))
    return sum(begin < end for (_, end), (begin, _) in zip(spans, spans[1:]))

ray.get([warm.remote() for _ in range(4)], timeout=50)
before = overlaps()
kept = [bytearray(os.urandom(1 << 16)) * 80 for _ in range(40)]
time.sleep(0.6)
during = overlaps()
kept.clear()
time.sleep(0.6)
print(before, during, overlaps())
""",
        RAY_memory_usage_threshold="0.45",
    )
    before, during, after = map(int, done.stdout.split())
    # Some begin before it is noticed.
    assert 2 * during < before and 2 * during < after, done.said


@how_much
def test_the_default_store_is_a_share_of_the_groups_memory(run_limited):
    done = run_limited("""
ray.shutdown()
ray.init(num_cpus=1)
print(ray.cluster_resources()["object_store_memory"])
""")
    assert 0.25 * 400 * MB < float(done.stdout) <= 0.3 * 400 * MB, done.said


def test_one_that_may_not_be_run_again_is_spared_as_long_as_others_are_there(run_limited):
    done = run_limited("""
first = eat_once.remote(120, 3)
time.sleep(1.5)
print(ray.get([first] + [eat.remote(120) for _ in range(3)], timeout=50))
""")
    assert done.stdout == "[120, 120, 120, 120]\n", done.said


def test_an_actor_is_the_last_to_go(run_limited):
    done = run_limited("""
@ray.remote
class Keeper:
    def grow(self, megabytes):
        self.kept = [bytearray(os.urandom(1 << 16)) * 80 for _ in range(megabytes // 5)]
        return megabytes

keeper = Keeper.remote()
print(ray.get(keeper.grow.remote(100), timeout=30))
print(ray.get([eat.remote(120) for _ in range(4)], timeout=50))
print(ray.get(keeper.grow.remote(10), timeout=30))
for expected in (OutOfMemoryError, ActorDiedError):
    try:
        ray.get(keeper.grow.remote(600), timeout=50)
    except expected as error:
        print("memory" in str(error).lower())
""")
    assert done.stdout == "100\n[120, 120, 120, 120]\n10\nTrue\nTrue\n", done.said


def test_an_idle_worker_that_kept_memory_goes_before_a_task(run_limited):
    done = run_limited("""
kept = []

@ray.remote(max_retries=0)
def cache(megabytes, number):
    for i in range(4):  # one after the other
        meet("turn %d" % i, 4)
        if i == number:
            kept.extend(bytearray(os.urandom(1 << 16)) * 80 for _ in range(megabytes // 5))
    meet("end", 4)
    return os.getpid()

pids = ray.get([cache.remote(70, i) for i in range(4)], timeout=30)
print(len(set(pids)), ray.get(eat_once.remote(200), timeout=50))
""")
    assert done.stdout == "4 200\n", done.said


@how_much
def test_objects_go_to_disk_before_anybody_is_ended(run_limited):
    done = run_limited(
        """
import numpy as np
refs = [ray.put(np.random.bytes(5 << 20)) for _ in range(10)]
print(ray.get(eat.remote(310, 1.5), timeout=50))
print([len(value) for value in ray.get(refs)] == [5 << 20] * 10)
""",
        RAY_memory_usage_threshold="0.9",
    )
    assert done.stdout == "310\nTrue\n", done.said
    assert "was ended" not in done.stderr, done.said


@how_much
def test_files_that_were_read_are_not_memory_in_use(run_limited, tmp_path):
    """The kernel keeps them as long as nobody needs the memory; those that were read twice count as
    active.
    """
    done = run_limited(f"""
with open({str(tmp_path / "data")!r}, "w+b") as file:
    for _ in range(200):
        file.write(os.urandom(1 << 20))
    file.flush()
    os.fsync(file.fileno())
    for _ in range(3):
        file.seek(0)
        while file.read(1 << 20):
            pass
print(ray.get(eat_once.remote(250, 1.5), timeout=50))
""")
    assert done.stdout == "250\n" and "was ended" not in done.stderr, done.said


@how_much
def test_a_task_that_leaps_goes_through_for_objects_move(run_limited, tmp_path):
    done = run_limited(f"""
import numpy as np
ray.shutdown()
ray.init(num_cpus=2, object_store_memory=280 << 20, object_spilling_directory={str(tmp_path)!r})
refs = [ray.put(np.full(10 << 20, i, dtype=np.uint8)) for i in range(26)]

@ray.remote
def leap(times):
    kept = []
    for _ in range(times):
        kept.append(bytearray(b"x") * (50 << 20))
        time.sleep(0.5)
    return times

print(ray.get([leap.remote(4)]))
print([ray.get(ref)[0] for ref in refs] == list(range(26)))
# Now they have copies on disk, and room is made at once.
print(ray.get([leap.remote(4)]))
""")
    assert done.stdout == "[4]\nTrue\n[4]\n", done.said


@how_much
def test_the_watch_can_be_switched_off(run_limited):
    done = run_limited(
        """
print(ray.get([eat.remote(50) for _ in range(4)], timeout=50))
""",
        RAY_memory_usage_threshold="0.2",
        RAY_memory_monitor_refresh_ms="0",
    )
    assert done.stdout == "[50, 50, 50, 50]\n" and "Memory" not in done.stderr, done.said


@how_much
def test_the_threshold(run_limited):
    done = run_limited(
        """
try:
    print(ray.get(eat_once.remote(150, 3), timeout=50))
except OutOfMemoryError as error:
    print("ended")
""",
        RAY_memory_usage_threshold="0.3",
    )
    assert done.stdout == "ended\n", done.said


def test_memory_that_was_asked_for_is_the_limit_if_enforced(run_limited):
    code = """
small = eat.options(memory=60 << 20)
for size in (20, 150):
    try:
        print(ray.get(small.remote(size, 1), timeout=50))
    except OutOfMemoryError as error:
        print("memory=%d" % (60 << 20) in str(error))
"""
    done = run_limited(code, MOBULA_ENFORCE_MEMORY="1")
    assert done.stdout == "20\nTrue\n", done.said
    done = run_limited(code)
    assert done.stdout == "20\n150\n", done.said


def test_memory_counts_from_the_beginning_of_a_task_and_with_its_processes(run_limited):
    done = run_limited(
        """
import subprocess, sys
ray.shutdown()
ray.init(num_cpus=1)

@ray.remote
def keep():
    sys.kept = bytearray(b"x") * (100 << 20)
    return os.getpid()

@ray.remote(memory=40 << 20, max_retries=0)
def small():
    time.sleep(1)
    return os.getpid()

@ray.remote(memory=40 << 20, max_retries=0)
def start():
    subprocess.run([sys.executable, "-c", "import time; x = bytearray(b'x') * (100 << 20); time.sleep(60)"])

print(ray.get(keep.remote()) == ray.get(small.remote(), timeout=30))
try:
    ray.get(start.remote(), timeout=30)
except OutOfMemoryError as error:
    print("memory=%d" % (40 << 20) in str(error))
""",
        MOBULA_ENFORCE_MEMORY="1",
    )
    assert done.stdout == "True\nTrue\n", done.said
    assert re.search(
        r"Largest processes: worker \d+ \(the task start\) [12]\d\d MiB", done.stderr
    ), done.said


def test_memory_that_was_asked_for_is_the_limit_of_actors_too(run_limited):
    done = run_limited(
        """
@ray.remote(memory=60 << 20)
class Keeper:
    def __init__(self, megabytes):
        grow(megabytes, 0)

    def grow(self, megabytes):
        return grow(megabytes, 1)

keeper = Keeper.remote(10)
print(ray.get(keeper.grow.remote(20), timeout=30))
for call, expected in ((keeper.grow.remote(150), OutOfMemoryError), (keeper.grow.remote(1), ActorDiedError),
                       (Keeper.remote(300).grow.remote(1), ActorDiedError)):
    try:
        ray.get(call, timeout=30)
    except expected as error:
        print("memory=%d" % (60 << 20) in str(error))
""",
        MOBULA_ENFORCE_MEMORY="1",
    )
    assert done.stdout == "20\nTrue\nTrue\nTrue\n", done.said
