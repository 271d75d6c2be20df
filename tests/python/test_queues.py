"""Many small tasks: all run, once, in fair turns, however workers and submitters come and go.

These are the tasks that workers take by themselves from queues in shared memory. From here nothing
of that is to be seen, and all of this holds without it too (MOBULA_FAST_PATH=0), unless a test says
otherwise.
"""

import collections
import gc
import json
import os
import random
import signal
import threading
import time

import pytest
import support

import ray
from ray.exceptions import WorkerCrashedError

INIT = {"num_cpus": 2, "resources": {"special": 1}}
MB = 1_000_000

pytestmark = pytest.mark.usefixtures("cluster")
only_with_queues = pytest.mark.skipif(
    os.environ.get("MOBULA_FAST_PATH") == "0",
    reason="one queue for all is served in the order of submission",
)


@ray.remote
def add(a, b=1):
    return a + b


@ray.remote
def pid():
    return os.getpid()


@ray.remote
def length(data):
    return len(data)


@ray.remote
def hold(folder, name="hold"):
    """Tells that it runs, and does so until release()."""
    support.touch(f"{folder}/{name}.runs")
    support.wait_for_file(f"{folder}/{name}.open")
    return name


def runs(folder, name):
    return support.wait_until(lambda: os.path.exists(f"{folder}/{name}.runs"))


def hold_all(folder):
    """Both CPUs are busy until release(): whatever is submitted meanwhile stays in its queue."""
    refs = [hold.remote(folder, f"hold{i}") for i in range(2)]
    assert support.wait_until(
        lambda: sum(name.endswith(".runs") for name in os.listdir(folder)) == 2
    )
    return refs


def release(folder):
    for name in os.listdir(folder):
        if name.endswith(".runs"):
            support.touch(f"{folder}/{name[:-5]}.open")


def append(path, line):
    """One write, so that lines of many processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def lines(path):
    try:
        with open(path) as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def memory_comes_back(before):
    gc.collect()
    # The driver keeps a few extents of 4 MiB for small values.
    return support.wait_until(lambda: support.store_free() >= before - 16 * MB, 20)


# ---- all run ----


def test_thousands_in_flight():
    refs = [add.remote(i, b=i % 7) for i in range(20_000)]
    assert ray.get(refs, timeout=50) == [i + i % 7 for i in range(20_000)]


def test_one_after_the_other():
    total = 0
    for i in range(1000):
        total = ray.get(add.remote(total, i))
    assert total == sum(range(1000))


def test_bursts_with_pauses_between():
    """The queue is emptied, workers go to sleep, and are woken again."""
    for i in range(60):
        count = (i * 37) % 200 + 1
        assert ray.get([add.remote(k) for k in range(count)], timeout=30) == list(
            range(1, count + 1)
        )
        if i % 3 == 0:
            time.sleep(0.002 * (i % 5))


def test_large_arguments_and_results_in_between():
    sizes = [(i * 7919) % 3000 * (100 if i % 50 == 0 else 1) for i in range(2000)]
    refs = [add.remote(b"x" * size, b"y") for size in sizes]
    assert [len(data) for data in ray.get(refs, timeout=40)] == [size + 1 for size in sizes]


def test_nested_tasks_do_not_wait_for_each_other_for_ever():
    @ray.remote
    def tree(depth):
        if depth == 0:
            return 1
        return 1 + sum(ray.get([tree.remote(depth - 1), tree.remote(depth - 1)]))

    @ray.remote
    def chain(depth):
        return depth if depth == 0 else ray.get(chain.remote(depth - 1)) + 1

    refs = [tree.remote(4)] + [chain.remote(4) for _ in range(3)]
    assert ray.get(refs, timeout=50) == [31, 4, 4, 4]


def test_workers_submit_many_too():
    @ray.remote
    def many(count):
        return sum(ray.get([add.remote(i) for i in range(count)]))

    assert ray.get([many.remote(1000) for _ in range(3)], timeout=40) == [500_500] * 3


def test_an_error_is_seen_though_a_later_task_still_runs(folder):
    @ray.remote
    def fail():
        raise ValueError("early")

    late = hold.remote(folder)
    with pytest.raises(ValueError, match="early"):
        ray.get([add.remote(1), fail.remote(), late], timeout=40)
    release_when_it_runs(folder)
    assert ray.get(late, timeout=40) == "hold"


def release_when_it_runs(folder):
    assert support.wait_until(lambda: any(name.endswith(".runs") for name in os.listdir(folder)))
    release(folder)


def test_wait_gives_each_of_many_once():
    waiting = [add.remote(i) for i in range(1500)]
    found = []
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=min(100, len(waiting)), timeout=40)
        assert ready
        found += ray.get(ready)
    assert sorted(found) == list(range(1, 1501))


def test_an_exception_is_tried_again(folder):
    @ray.remote(max_retries=2, retry_exceptions=True)
    def third_time(i):
        append(f"{folder}/{i}", "")
        if len(lines(f"{folder}/{i}")) < 3:
            raise ValueError
        return i

    assert ray.get([third_time.remote(i) for i in range(30)], timeout=40) == list(range(30))
    assert all(len(lines(f"{folder}/{i}")) == 3 for i in range(30))


# ---- what is told of them ----


def test_the_timeline_has_each_once():
    kept = ray.put(1)
    named = pid.options(name="counted once")

    @ray.remote
    def with_argument(value):
        return os.getpid()

    other = with_argument.options(name="counted once")
    begin = time.time()
    pids = ray.get(
        [named.remote() if i % 5 else other.remote(kept) for i in range(5000)], timeout=40
    )
    end = time.time()
    events = [event for event in ray.timeline() if event["name"] == "counted once"]
    assert len(events) == 5000
    assert collections.Counter(event["args"]["pid"] for event in events) == collections.Counter(
        pids
    )
    for event in events:
        # The clock of the events is the wall clock, of finer steps than Python's.
        assert (
            begin - 0.01 <= event["ts"] / 1e6 <= (event["ts"] + event["dur"]) / 1e6 <= end + 0.01
        ), (
            begin,
            end,
            event,
        )
    rows = collections.defaultdict(list)
    for event in events:
        rows[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1 for before, after in zip(spans, spans[1:]))


def test_the_resources_are_exact_right_after_a_get():
    for i in range(100):
        ray.get([add.remote(k) for k in range(i % 4 + 1)])
        assert ray.available_resources()["CPU"] == 2


def test_the_resources_while_tasks_run(folder):
    refs = [hold.remote(folder)]
    assert runs(folder, "hold")
    ray.get([add.remote(i) for i in range(20)], timeout=40)
    assert ray.available_resources()["CPU"] == 1
    release(folder)
    ray.get(refs)
    assert ray.available_resources()["CPU"] == 2


# ---- what they hold ----


def test_a_function_that_goes_while_its_tasks_wait(folder):
    holders = hold_all(folder)
    big = "f" * 100_000

    @ray.remote
    def gone(i):
        return i, len(big)

    refs = [gone.remote(i) for i in range(300)]
    del gone
    gc.collect()
    release(folder)
    assert ray.get(refs, timeout=40) == [(i, 100_000) for i in range(300)]
    ray.get(holders)


def test_what_a_function_closes_over_goes_with_its_tasks():
    before = support.store_free()
    ref = ray.put(b"x" * 40 * MB)

    @ray.remote
    def closed_over():
        return len(ray.get(ref))

    refs = [closed_over.remote() for _ in range(20)]
    del closed_over
    ref = None
    gc.collect()
    assert ray.get(refs, timeout=40) == [40 * MB] * 20
    del refs
    assert memory_comes_back(before), (before, support.store_free())


def test_what_nobody_waits_for_runs_too(folder):
    before = support.store_free()

    @ray.remote
    def forgotten(i, path):
        append(path, i)
        return b"x" * 30_000

    for i in range(3000):
        forgotten.remote(i, f"{folder}/ran")
    assert support.wait_until(lambda: len(lines(f"{folder}/ran")) >= 3000, 40)
    assert sorted(map(int, lines(f"{folder}/ran"))) == list(range(3000))
    assert memory_comes_back(before), (before, support.store_free())


def test_results_that_are_dropped_before_they_are_there(folder):
    before = support.store_free()

    @ray.remote
    def large(i, path):
        append(path, i)
        return b"x" * MB

    holders = hold_all(folder)
    for i in range(100):
        large.remote(i, f"{folder}/ran")
    release(folder)
    ray.get(holders)
    assert support.wait_until(lambda: len(lines(f"{folder}/ran")) == 100, 40)
    assert memory_comes_back(before), (before, support.store_free())


def test_arguments_that_are_dropped_at_once():
    before = support.store_free()
    results = []
    for i in range(400):
        results.append(length.remote(ray.put(b"x" * (100_000 + i))))
    assert ray.get(results, timeout=40) == [100_000 + i for i in range(400)]

    @ray.remote
    def inside(refs):
        return sum(map(len, ray.get(refs)))

    results = [inside.remote([ray.put(b"x" * 100_000), ray.put(b"y" * i)]) for i in range(200)]
    assert ray.get(results, timeout=40) == [100_000 + i for i in range(200)]
    del results
    assert memory_comes_back(before), (before, support.store_free())


def test_arguments_that_are_dropped_while_the_task_waits(folder):
    before = support.store_free()
    holders = hold_all(folder)
    results = [length.remote(ray.put(b"x" * MB)) for _ in range(30)]
    gc.collect()
    time.sleep(0.1)  # whoever would free them has time to
    ray.put(b"z" * MB)
    release(folder)
    assert ray.get(results, timeout=40) == [MB] * 30
    ray.get(holders)
    del results
    assert memory_comes_back(before), (before, support.store_free())


# ---- in fair turns ----


class Backlog:
    """Tasks of the driver's own for half a minute, which end soon once it is closed."""

    def __init__(self, folder, count=10_000):
        @ray.remote
        def step(stop):
            if not os.path.exists(stop):
                time.sleep(0.006)

        self.stop = f"{folder}/stop"
        self.refs = [step.remote(self.stop) for _ in range(count)]

    def waits(self):
        return bool(ray.wait(self.refs[-1:], timeout=0)[1])

    def close(self):
        support.touch(self.stop)
        ray.get(self.refs, timeout=50)


@only_with_queues
def test_nested_tasks_come_before_the_end_of_a_backlog(folder):
    @ray.remote
    def outer():
        support.touch(f"{folder}/outer.runs")
        support.wait_for_file(f"{folder}/outer.open")
        return [ray.get(add.remote(i)) for i in range(5)]

    ref = outer.remote()
    assert runs(folder, "outer")
    backlog = Backlog(folder)
    try:
        support.touch(f"{folder}/outer.open")
        assert ray.get(ref, timeout=20) == [1, 2, 3, 4, 5]
        assert backlog.waits()
    finally:
        backlog.close()


@only_with_queues
@pytest.mark.parametrize(
    "options",
    [{"num_cpus": 2}, {"resources": {"special": 1}}, {"num_cpus": 0.5}],
    ids=["two", "special", "half"],
)
def test_other_tasks_come_before_the_end_of_a_backlog(folder, options):
    backlog = Backlog(folder)
    try:
        assert ray.get(add.options(**options).remote(1), timeout=20) == 2
        assert backlog.waits()
    finally:
        backlog.close()


@only_with_queues
def test_an_actor_comes_before_the_end_of_a_backlog(folder):
    @ray.remote(num_cpus=1)
    class Actor:
        def hello(self):
            return "hello"

    backlog = Backlog(folder)
    try:
        actor = Actor.remote()
        assert ray.get(actor.hello.remote(), timeout=20) == "hello"
        assert backlog.waits()
        del actor
    finally:
        backlog.close()


def test_a_short_task_does_not_wait_for_a_long_one(folder):
    for i in range(20):
        long = hold.remote(folder, f"long{i}")
        assert ray.get([add.remote(k) for k in range(i % 3 + 1)], timeout=20) == list(
            range(1, i % 3 + 2)
        )
        assert not ray.wait([long], timeout=0)[0]
        assert runs(folder, f"long{i}")
        support.touch(f"{folder}/long{i}.open")
        assert ray.get(long, timeout=20) == f"long{i}"


def test_two_long_ones_run_at_the_same_time(folder):
    for i in range(20):
        refs = [hold.remote(folder, f"a{i}"), hold.remote(folder, f"b{i}")]
        assert runs(folder, f"a{i}")
        assert runs(folder, f"b{i}")
        release(folder)
        ray.get(refs, timeout=20)


# ---- workers that are killed ----


class Killer:
    """Kills workers, a bounded number of them, while the block runs. They tell their pids by files."""

    def __init__(self, folder, most=50):
        self.folder, self.most, self.killed = folder, most, []
        self.random = random.Random(5)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.kill)

    def kill(self):
        while len(self.killed) < self.most and not self.ending.wait(
            self.random.uniform(0.002, 0.05)
        ):
            names = [name for name in os.listdir(self.folder) if name.isdigit()]
            if not names:
                continue
            name = self.random.choice(names)
            os.unlink(f"{self.folder}/{name}")
            try:
                os.kill(int(name), signal.SIGKILL)
                self.killed.append(int(name))
            except ProcessLookupError:
                pass

    def rounds(self):
        """Two, and as many as it takes until enough were killed."""
        count = 0
        while count < 2 or len(self.killed) < 25:
            yield count
            count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()


def teller(folder):
    """For a worker's pid. Nested, so that it brings no module with it that every new worker would
    have to import.
    """

    def tell():
        path = f"{folder}/{os.getpid()}"
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT, 0o600))

    return tell


def test_killed_workers_lose_nothing(folder):
    before = support.store_free()
    tell = teller(folder)

    @ray.remote(max_retries=-1)
    def work(i, more):
        tell()
        assert more == b"m" * len(more)
        return i if i % 100 else b"x" * 10_000

    with Killer(folder) as killer:
        for _ in killer.rounds():
            # Long arguments lie in blocks of their own, which are used again and again.
            refs = [work.remote(i, b"m" * (i % 3 * 200)) for i in range(10_000)]
            for i, value in enumerate(ray.get(refs, timeout=50)):
                assert value == (i if i % 100 else b"x" * 10_000)
    del refs, value
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)
    assert memory_comes_back(before), (before, support.store_free())


def test_killed_workers_repeat_nothing(folder):
    tell = teller(folder)

    @ray.remote(max_retries=0)
    def work(i):
        tell()
        file = os.open(f"{folder}/ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, b"%7d\n" % i)  # 8 bytes, which a kill can't cut in two: they lie in one page
        os.close(file)
        return i

    submitted, crashed = 0, set()
    with Killer(folder) as killer:
        for _ in killer.rounds():
            refs = {i: work.remote(i) for i in range(submitted, submitted + 10_000)}
            submitted += 10_000
            for i, ref in refs.items():
                try:
                    assert ray.get(ref, timeout=50) == i
                except WorkerCrashedError:
                    crashed.add(i)
    ran = list(map(int, lines(f"{folder}/ran")))
    assert len(ran) == len(set(ran))
    assert set(ran) | crashed == set(range(submitted))
    # a worker runs one at a time, and dies with that one only
    assert len(crashed) <= len(killer.killed)
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_killed_workers_and_arguments(folder):
    before = support.store_free()
    tell = teller(folder)

    @ray.remote(max_retries=-1)
    def work(data, i):
        tell()
        return len(data) + i

    with Killer(folder) as killer:
        for _ in killer.rounds():
            refs = [work.remote(ray.put(b"x" * 20_000), i) for i in range(1000)]
            assert ray.get(refs, timeout=50) == [20_000 + i for i in range(1000)]
    del refs
    assert memory_comes_back(before), (before, support.store_free())


def test_a_killed_worker_that_had_submitted(folder):
    path = f"{folder}/ran"

    @ray.remote
    def small(i, data):
        append(path, i)
        time.sleep(0.005)

    @ray.remote(max_retries=0)
    def submitter():
        refs = [small.remote(i, ray.put(b"x" * 50_000) if i % 2 else b"") for i in range(2000)]
        support.touch(f"{folder}/{os.getpid()}.runs")
        ray.get(refs)

    before = support.store_free()
    ref = submitter.remote()
    assert support.wait_until(lambda: any(name.endswith(".runs") for name in os.listdir(folder)))
    (name,) = [name for name in os.listdir(folder) if name.endswith(".runs")]
    os.kill(int(name[:-5]), signal.SIGKILL)
    with pytest.raises(WorkerCrashedError):
        ray.get(ref, timeout=40)
    assert ray.get([add.remote(i) for i in range(100)], timeout=40) == list(range(1, 101))
    # What it had begun runs out, the rest does not begin: nobody can have the results.
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)
    ran = lines(path)
    assert len(ran) == len(set(ran)) < 2000
    del ref
    assert memory_comes_back(before), (before, support.store_free())


def test_a_killed_worker_that_had_submitted_is_tried_again(folder):
    @ray.remote
    def submitter():
        refs = [add.remote(i) for i in range(500)]
        if not os.path.exists(f"{folder}/tried"):
            support.touch(f"{folder}/tried")
            os.kill(os.getpid(), signal.SIGKILL)
        return sum(ray.get(refs))

    assert ray.get(submitter.remote(), timeout=40) == sum(range(501))


def test_a_result_of_a_killed_submitters_task_that_another_holds(folder):
    """What it had submitted is run if somebody else has a reference to the result."""

    @ray.remote
    class Keeper:
        def keep(self, refs):
            self.refs = refs

        def value(self):
            return ray.get(self.refs[0])

    @ray.remote(max_retries=0)
    def submitter(keeper):
        ref = late.remote()
        ray.get(keeper.keep.remote([ref]))
        os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return "late"

    keeper = Keeper.options(num_cpus=0).remote()
    with pytest.raises(WorkerCrashedError):
        ray.get(submitter.remote(keeper), timeout=40)
    support.touch(f"{folder}/go")
    assert ray.get(keeper.value.remote(), timeout=40) == "late"


# ---- idle, and without queues ----


def test_idle_is_idle():
    ray.get([add.remote(i) for i in range(2000)], timeout=40)
    assert ray.get(add.options(num_cpus=2).remote(1), timeout=40) == 2
    ray.get([add.remote(i) for i in range(20)], timeout=40)

    def look():
        found = support.switches(pid for pid, _ in support.processes())
        assert len(found) >= 3
        return found

    # surplus workers of the tests before this one end after two seconds
    assert support.is_quiet(look, 3), look()


MIXED = """
import json, os, sys, time
import ray

ray.init(num_cpus=2, resources={"special": 1})
said = []


@ray.remote
def add(a, b=1):
    return a + b

@ray.remote(num_returns=2)
def pair(x):
    return x, [x]

@ray.remote
def tree(depth):
    return 1 if depth == 0 else sum(ray.get([tree.remote(depth - 1), tree.remote(depth - 1)]))

@ray.remote
def fail(i):
    raise KeyError(i)

@ray.remote(max_retries=0)
def crash():
    os._exit(3)

@ray.remote
def refs_inside(n):
    return [ray.put(b"x" * n), add.remote(n)]

@ray.remote
class Counter:
    def __init__(self):
        self.n = 0
    def add(self, n):
        self.n += n
        return self.n


said.append(ray.get([add.remote(i) for i in range(3000)]))
ref = add.remote(0)
for _ in range(50):
    ref = add.remote(ref)
said.append(ray.get(ref))
a, b = pair.remote(5)
said.append([ray.get(a), ray.get(b)])
said.append(ray.get(tree.remote(4)))
for ref in (fail.remote(1), crash.remote(), add.remote("a", 1), add.remote(fail.remote(2))):
    try:
        ray.get(ref, timeout=30)
        said.append("no error")
    except Exception as error:
        said.append([name for name in ("KeyError", "TypeError", "WorkerCrashedError")
                     if name in [type.__name__ for type in type(error).__mro__]])
inside = ray.get(refs_inside.remote(200_000))
said.append([len(ray.get(inside[0])), ray.get(inside[1])])
counter = Counter.remote()
said.append(ray.get([counter.add.remote(add.remote(i)) for i in range(100)]))
said.append(ray.get([add.options(num_cpus=2).remote(i) for i in range(5)]
                    + [add.options(resources={"special": 1}).remote(i) for i in range(5)]
                    + [add.options(num_cpus=0).remote(i) for i in range(5)]
                    + [add.options(max_calls=1).remote(i) for i in range(3)]))
waiting, found = [add.remote(i) for i in range(200)], []
while waiting:
    ready, waiting = ray.wait(waiting, num_returns=1, timeout=30)
    found += ray.get(ready)
said.append(sorted(found))
data = ray.put(bytes(1_000_000))
said.append([len(x) for x in ray.get([add.remote(data, b"1") for _ in range(20)])])
said.append(len([e for e in ray.timeline() if e["name"] == "add" and e["ph"] == "X"]))
said.append(ray.available_resources()["CPU"])
ray.shutdown()
print(json.dumps(said))
"""


def test_the_same_program_with_queues_and_without(folder):
    """Two drivers of their own: the daemon takes the setting from the process that starts it."""
    path = support.script(folder, MIXED)
    said = {}
    for setting in "01":
        result = support.run_driver(path, env=dict(os.environ, MOBULA_FAST_PATH=setting))
        assert result.returncode == 0, result.stderr
        said[setting] = json.loads(result.stdout.splitlines()[-1])
    assert said["0"] == said["1"]
    assert said["1"][0] == list(range(1, 3001))
    assert said["1"][1:5] == [51, [5, [5]], 16, ["KeyError"]]
    assert said["1"][5:8] == [["WorkerCrashedError"], ["TypeError"], ["KeyError"]]
    assert said["1"][-1] == 2
