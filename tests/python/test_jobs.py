"""Several programs at once on one node: each is a job, and none notices the others."""

import collections
import os
import random
import signal
import sys
import threading
import time

import drivers
import numpy as np
import pytest
import support

import ray
from ray.exceptions import ActorDiedError, ActorHandleNotFoundError, RayError
from ray.util.state import list_jobs

NODE = {"num_cpus": 2, "options": ["--object-store-memory=100000000"]}
pytestmark = pytest.mark.usefixtures("node")

kept = {}  # in a driver: what stays between two calls of it


@ray.remote
def echo(x):
    return x


@ray.remote
def about():
    context = ray.get_runtime_context()
    return os.getpid(), context.get_job_id(), context.namespace


@ray.remote
class Holder(drivers.Keeper):
    def job(self):
        return ray.get_runtime_context().get_job_id()


@pytest.fixture(autouse=True)
def only_the_daemon(node):
    """After each test nothing runs on the node, and it holds nothing."""
    yield
    ray.shutdown()
    assert support.wait_until(lambda: not drivers.on_node(node)), support.processes()
    assert support.wait_until(lambda: resources_used(node) == {}), resources_used(node)


def resources_used(node):
    rows = ray._core.observe(node.socket, ray._core.QUERY_RESOURCES, 0, 30)
    return {
        name: total - free
        for name, total, free in rows
        if total - free > 1e-9 and name != "object_store_memory"
    }


def objects(node):
    return ray._core.observe(node.socket, ray._core.QUERY_OBJECTS, 1000, 30)[0]


def jobs(node, status):
    return [row for row in list_jobs(node.folder, limit=10000) if row.status == status]


def append(path, line):
    """A whole line, whoever else writes."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def lines(path):
    return open(path).read().split() if os.path.exists(path) else []


def wait_until(condition, seconds=40):
    assert support.wait_until(condition, seconds)


# ---- what a job has of its own ----


def look_around(count):
    ray.get([echo.remote(i) for i in range(count)])
    found = ray.get([about.remote() for _ in range(count)])
    context = ray.get_runtime_context()
    assert {row[1:] for row in found} == {(context.get_job_id(), context.namespace)}
    return {row[0] for row in found}, context.get_job_id(), context.namespace


def test_workers_job_ids_and_namespaces_are_a_jobs_own(driver):
    makers = [driver(), driver(), driver()]
    for each in makers:
        each.begin(look_around, 300)
    found = [each.result() for each in makers]
    workers = [pid for pids, _, _ in found for pid in pids]
    assert len(workers) == len(set(workers))
    assert len({job for _, job, _ in found}) == len({space for _, _, space in found}) == 3


def test_a_namespace_that_was_given(driver):
    a, b = driver(namespace="ours"), driver(namespace="ours")
    assert a.call(look_around, 1)[2] == b.call(look_around, 1)[2] == "ours"


def environment_and_folder(name):
    @ray.remote
    def look():
        return os.environ.get(name), os.getcwd(), sys.path[-1]

    return ray.get(look.remote())


def change_to(folder):
    os.mkdir(folder)
    os.chdir(folder)
    sys.path.append(folder)


def join_with_a_path(folder, address):
    """A folder of modules that only this program knows."""
    change_to(folder)
    support.script(folder, f"WHERE = {folder!r}\n", "only_of_this_job.py")
    ray.init(address=address)

    @ray.remote
    def where():
        import only_of_this_job

        return only_of_this_job.WHERE

    return ray.get(where.remote())


def test_environment_folder_and_modules_are_a_jobs_own(node, folder):
    for name in "ab":
        with drivers.Driver(folder, None, env={"ONLY_OF_THIS_JOB": name}) as each:
            place = f"{folder}/{name}"
            assert each.call(join_with_a_path, place, node.address) == place
            assert each.call(environment_and_folder, "ONLY_OF_THIS_JOB") == (name, place, place)


def print_much(word, count):
    @ray.remote
    def say(i):
        print(f"{word} {i}")

    ray.get([say.remote(i) for i in range(count)])


def test_prints_go_to_their_own_driver(driver, monkeypatch):
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")  # every line is looked at
    a, b = driver(), driver()
    a.begin(print_much, "apple", 100)
    b.begin(print_much, "birch", 100)
    a.result(), b.result()
    assert (a.end(), b.end()) == (0, 0)
    for each, word, other in ((a, "apple", "birch"), (b, "birch", "apple")):
        printed = each.printed() + each.told()
        assert other not in printed
        assert sorted(int(line.split()[-1]) for line in each.printed().splitlines()) == list(
            range(100)
        ), printed
        assert f") {word} " in printed


def fail_unseen():
    @ray.remote
    def unseen():
        raise ZeroDivisionError("nobody looks")

    ref = unseen.remote()
    ray.wait([ref])


def test_failures_are_told_to_their_own_driver(driver):
    a, b = driver(), driver()
    b.call(look_around, 1)
    a.call(fail_unseen)
    wait_until(lambda: "nobody looks" in a.told())
    b.call(look_around, 1)
    assert b.end() == 0
    assert "nobody looks" not in b.told()


# ---- CPUs ----


@ray.remote
def log_and_sleep(path, name):
    append(path, name)
    time.sleep(0.004)


def submit(path, name, count, cpus=1):
    refs = [log_and_sleep.options(num_cpus=cpus).remote(path, name) for _ in range(count)]
    kept["refs"] = kept.get("refs", []) + refs


def wait_for_all():
    ray.get(kept.pop("refs"))


@pytest.mark.parametrize("cpus", [1, 0.5])
def test_two_jobs_get_equal_shares_whatever_their_backlog(driver, folder, cpus):
    """While the small job has work, each gets about half of the CPUs."""
    path = f"{folder}/log"
    big, small = driver(), driver()
    small.call(look_around, 10)
    big.call(submit, path, "big", 1500, cpus)
    wait_until(lambda: len(lines(path)) > 50)
    small.call(submit, path, "small", 200)
    small.call(wait_for_all)
    log = lines(path)
    first, last = log.index("small"), len(log) - 1 - log[::-1].index("small")
    counts = collections.Counter(log[first:last])
    assert 60 < counts["big"] * cpus < 600, counts
    assert len(log) < 1500
    big.kill()


@ray.remote
def hold(folder, name):
    support.touch(f"{folder}/{name}.runs")
    support.wait_for_file(f"{folder}/{name}.open")


def hold_many(folder, count):
    kept["refs"] = [hold.remote(folder, f"held{i}") for i in range(count)]


def begin_one(x):
    kept["one"] = echo.remote(x)


def one_is_done():
    return bool(ray.wait([kept["one"]], timeout=0)[0])


def test_the_next_cpu_is_for_the_job_that_has_none(driver, folder):
    big, small = driver(), driver()
    small.call(look_around, 1)
    big.call(hold_many, folder, 50)
    running = lambda: {n[:-5] for n in os.listdir(folder) if n.endswith(".runs")}  # noqa: E731
    wait_until(lambda: len(running()) == 2)
    small.call(begin_one, 7)
    for _ in range(30):  # a lease is used for some milliseconds more before it is recalled
        first = sorted(running())[0]
        os.rename(f"{folder}/{first}.runs", f"{folder}/{first}.was")
        support.touch(f"{folder}/{first}.open")
        wait_until(lambda: small.call(one_is_done) or len(running()) == 2)
        if small.call(one_is_done):
            break
    assert small.call(one_is_done)
    assert big.end() == 0  # with tasks that run, wait, and are handed out ahead


def test_a_job_that_stands_still_disturbs_nobody(driver):
    a, b = driver(), driver()
    a.call(look_around, 10)
    os.kill(a.pid, signal.SIGSTOP)
    try:
        assert b.call(look_around, 100)
        assert driver().call(look_around, 10)
    finally:
        os.kill(a.pid, signal.SIGCONT)
    assert a.call(look_around, 100)


# ---- the end of a job ----


def make_much(folder):
    """Tasks that run and wait, actors with names and without, objects small and large."""
    kept["actors"] = [Holder.options(num_cpus=0).remote(i) for i in range(3)]
    kept["named"] = Holder.options(num_cpus=0, name="mine", namespace="everybody's").remote()
    kept["circle"] = [Holder.options(num_cpus=0).remote() for _ in range(2)]
    one, other = kept["circle"]
    ray.get([one.put.remote([other]), other.put.remote([one])])
    kept["objects"] = [ray.put(i) for i in range(100)] + [ray.put(np.ones(1 << 20))]
    kept["refs"] = [hold.remote(folder, f"held{i}") for i in range(20)]
    kept["nested"] = kept["actors"][0].put.remote([kept["objects"], kept["refs"]])
    return [ray.get(a.pid.remote()) for a in kept["actors"] + kept["circle"] + [kept["named"]]]


def end_by_exit():
    os._exit(3)


def end_by_shutdown():
    ray.shutdown()


@pytest.mark.parametrize("how", ["kill", "end", "shutdown", "_exit"])
def test_a_job_leaves_nothing(node, driver, folder, how):
    other = driver()
    before = other.call(count_and_hold, 1000)
    objects_before = objects(node)
    ended = driver()
    pids = ended.call(make_much, folder)
    wait_until(lambda: len([n for n in os.listdir(folder) if n.endswith(".runs")]) == 2)
    assert objects(node) > objects_before + 100
    if how == "kill":
        ended.kill()
    elif how == "end":
        assert ended.end() == 0
    elif how == "shutdown":
        ended.call(end_by_shutdown)
    else:
        ended.begin(end_by_exit)
        assert ended.process.wait(drivers.LIMIT) == 3
    wait_until(lambda: not ended.processes() and not any(map(support.alive, pids)))
    wait_until(lambda: objects(node) <= objects_before)
    assert ray.util.state.list_jobs(node.folder)[0].status == (
        "SUCCEEDED" if how in ("end", "shutdown") else "FAILED"
    )
    assert other.call(is_unharmed, 1000) == before
    assert other.call(find, "mine", "everybody's") is None
    assert len([n for n in os.listdir(folder) if n.endswith(".runs")]) == 2  # no other began


def count_and_hold(count):
    kept["actor"] = Holder.options(num_cpus=0).remote("held")
    kept["array"] = ray.get(ray.put(np.arange(count)))
    kept["values"] = [ray.put(i) for i in range(count)]
    return is_unharmed(count)


def is_unharmed(count):
    assert ray.get(kept["values"]) == list(range(count))
    assert (kept["array"] == np.arange(count)).all()
    assert ray.get(kept["actor"].get.remote()) == "held"
    assert ray.get([echo.remote(i) for i in range(100)]) == list(range(100))
    return ray.get(kept["actor"].pid.remote())


def find(name, namespace):
    try:
        return ray.get(ray.get_actor(name, namespace).pid.remote())
    except ValueError:
        return None


def test_a_job_without_end_does_not_hold_up_others(node, driver, folder):
    """Its workers have half a second to end; meanwhile and after it the others go on."""
    stubborn, other = driver(), driver()
    stubborn.call(refuse_to_end, f"{folder}/runs")
    pids = stubborn.processes()
    stubborn.kill()
    assert other.call(look_around, 50)
    wait_until(lambda: not any(map(support.alive, pids)))
    assert other.call(look_around, 50)


def refuse_to_end(path):
    @ray.remote(num_cpus=0)
    def run():
        support.touch(path)
        while True:
            try:
                time.sleep(100)
            except BaseException:
                pass

    kept["refs"] = [run.remote()]
    wait_until(lambda: os.path.exists(path))


def make_detached(name, value):
    """An actor that outlives this job, with an object that this job made."""
    actor = Holder.options(name=name, namespace="shared", lifetime="detached", num_cpus=0).remote()
    made = [ray.put(value), echo.remote(value)]
    ray.wait(made, num_returns=2)
    ray.get(actor.put.remote(made))
    return ray.get(actor.pid.remote())


def read_detached(name):
    refs = ray.get(ray.get_actor(name, "shared").get.remote())
    return ray.get(refs)


def kill_detached(name):
    ray.kill(ray.get_actor(name, "shared"))


@pytest.mark.parametrize("how", ["kill", "end"])
def test_what_a_detached_actor_holds_stays(node, driver, how):
    maker, reader = driver(), driver()
    value = {"array": np.arange(1 << 17), "text": "x" * 1000}
    before = objects(node)
    pid = maker.call(make_detached, f"keeper-{how}", value)
    maker.kill() if how == "kill" else maker.end()
    for got in reader.call(read_detached, f"keeper-{how}"):
        assert (got["array"] == value["array"]).all() and got["text"] == value["text"]
    reader.call(kill_detached, f"keeper-{how}")
    wait_until(lambda: not support.alive(pid) and not maker.processes())
    reader.end()
    wait_until(lambda: objects(node) <= before)


def name_an_actor(name, value):
    kept[name] = Holder.options(name=name, namespace="shared", num_cpus=0).remote(value)
    return ray.get(kept[name].pid.remote())


def take_an_actor(name):
    kept[name] = ray.get_actor(name, "shared")
    kept["got"] = kept[name].get.remote()
    return ray.get(kept["got"])


def call_a_dead_one(name):
    assert ray.get(kept["got"]) == 5  # it was made before the end
    with pytest.raises(ActorDiedError):
        ray.get(kept[name].get.remote(), timeout=40)
    return ray.get(echo.remote(1))


def test_an_actor_ends_with_its_job_though_others_hold_it(driver):
    maker, other = driver(), driver()
    pid = maker.call(name_an_actor, "shared-one", 5)
    assert other.call(take_an_actor, "shared-one") == 5
    maker.kill()
    wait_until(lambda: not support.alive(pid))
    assert other.call(call_a_dead_one, "shared-one") == 1
    assert other.call(find, "shared-one", "shared") is None


def call_and_wait(name, path):
    kept["waits"] = ray.get_actor(name, "shared").wait.remote(path)


@ray.remote
class Waiter:
    def wait(self, path):
        support.touch(f"{path}.runs")
        support.wait_for_file(path)
        return path

    def pid(self):
        return os.getpid()


def name_a_waiter(name):
    kept[name] = Waiter.options(name=name, namespace="shared", num_cpus=0).remote()
    return ray.get(kept[name].pid.remote())


def get_waits():
    return ray.get(kept["waits"], timeout=40)


def test_a_callers_death_does_not_harm_the_actor_of_another_job(driver, folder):
    owner, caller = driver(), driver()
    owner.call(name_a_waiter, "waiter")
    caller.call(call_and_wait, "waiter", f"{folder}/gate")
    wait_until(lambda: os.path.exists(f"{folder}/gate.runs"))
    caller.kill()
    support.touch(f"{folder}/gate")
    again = driver()
    again.call(call_and_wait, "waiter", f"{folder}/gate2")
    support.touch(f"{folder}/gate2")
    assert again.call(get_waits) == f"{folder}/gate2"


def test_the_call_that_runs_fails_when_its_actors_job_ends(driver, folder):
    owner, caller = driver(), driver()
    owner.call(name_a_waiter, "waiter")
    caller.call(call_and_wait, "waiter", f"{folder}/gate")
    wait_until(lambda: os.path.exists(f"{folder}/gate.runs"))
    owner.kill()
    with pytest.raises(RayError):
        caller.call(get_waits)


def work(seconds):
    end = time.monotonic() + seconds
    total = 0
    holders = [Holder.options(num_cpus=0).remote(i) for i in range(2)]
    while time.monotonic() < end:
        refs = [echo.remote(i) for i in range(50)]
        refs.append(echo.remote(refs[0]))
        arrays = [ray.put(np.full(20000, i)) for i in range(5)]
        ray.get([holder.put.remote(arrays) for holder in holders])
        assert ray.get(refs) == [*range(50), 0]
        assert [int(a[-1]) for a in ray.get(arrays)] == list(range(5))
        total += len(refs)
    return total


def test_jobs_come_and_go_by_kills_while_others_work(node, driver, folder):
    steady = [driver(), driver()]
    for each in steady:
        each.begin(work, 8)
    random.seed(1)
    for _ in range(6):
        with drivers.Driver(folder, {"address": node.folder}) as short:
            short.begin(work, 60)
            wait_until(lambda short=short: len(short.processes()) > 1)
            time.sleep(random.random() * 0.3)
            os.kill(random.choice([short.pid, *short.processes()]), signal.SIGKILL)
            short.kill()
    assert all(each.result() > 0 for each in steady)


# ---- list_jobs ----


def test_list_jobs(node, driver):
    before = len(jobs(node, "RUNNING"))
    a, b = driver(namespace="of a"), driver()
    running = {row.driver_info["pid"]: row for row in jobs(node, "RUNNING")}
    assert len(running) == before + 2
    row = running[str(a.pid)]
    assert row.job_id == a.call(look_around, 1)[1]
    assert row.type == "DRIVER" and row.namespace == "of a" and "drivers.py" in row.entrypoint
    assert row.end_time is None and row.start_time <= time.time() * 1000
    assert row["status"] == row.get("status") == "RUNNING"
    a.end()
    b.kill()
    wait_until(lambda: len(jobs(node, "RUNNING")) == before)
    ended = {row.job_id: row for row in list_jobs(node.address)}
    assert ended[row.job_id].status == "SUCCEEDED"
    assert ended[row.job_id].end_time >= ended[row.job_id].start_time
    other = running[str(b.pid)].job_id
    assert ended[other].status == "FAILED" and "killed" in ended[other].message
    (only,) = list_jobs(node.address, filters=[("job_id", "=", other)])
    assert only.driver_info["pid"] == str(b.pid)
    assert len(list_jobs(node.address, limit=1)) == 1


def list_own():
    return [row.job_id for row in list_jobs() if row.status == "RUNNING"]


def test_a_driver_lists_the_jobs_of_its_own_node(driver):
    a, b = driver(), driver()
    assert set(a.call(list_own)) == set(b.call(list_own))
    assert len(a.call(list_own)) == 2


def test_a_detached_actor_has_its_makers_job_id(node, driver):
    maker, reader = driver(), driver()
    made = maker.call(make_detached, "whose", 1)
    job = maker.call(look_around, 1)[1]
    assert reader.call(job_of, "whose") == job
    maker.end()
    wait_until(lambda: job not in [row.job_id for row in jobs(node, "RUNNING")])
    assert reader.call(job_of, "whose") == job
    reader.call(kill_detached, "whose")
    wait_until(lambda: not support.alive(made))


def job_of(name):
    return ray.get(ray.get_actor(name, "shared").job.remote())


# ---- shutdown and init in one process ----


def test_again_and_again_on_one_node(node):
    seen = set()
    files = None
    for i in range(30):
        ray.init(address=node.address)
        seen.add(ray.get_runtime_context().get_job_id())
        if i % 3 == 0:
            assert ray.get([echo.remote(j) for j in range(20)]) == list(range(20))
        if i % 5 == 0:
            holder = Holder.options(num_cpus=0).remote(i)
            assert ray.get(holder.get.remote()) == i
        assert ray.get(ray.put(i)) == i
        ray.shutdown()
        if i == 5:
            wait_until(lambda: not drivers.on_node(node))
            files = len(os.listdir(f"/proc/{node.pid}/fd"))
    assert len(seen) == 30
    wait_until(lambda: not drivers.on_node(node))
    wait_until(lambda: len(os.listdir(f"/proc/{node.pid}/fd")) <= files)


def test_old_references_are_refused(node):
    ray.init(address=node.address)
    ref, result, holder = ray.put("old"), echo.remote(1), Holder.options(num_cpus=0).remote(1)
    assert ray.get([result, holder.get.remote()]) == [1, 1]
    ray.shutdown()
    ray.init(address=node.address)
    fresh = [ray.put(f"new {i}") for i in range(50)]  # which may have the same numbers inside
    for old in (ref, result):
        for use in (
            lambda old=old: ray.get(old, timeout=20),
            lambda old=old: ray.wait([old], timeout=20),
            lambda old=old: echo.remote(old),
            lambda old=old: echo.remote([old]),
            lambda old=old: ray.put([old]),
            lambda old=old: ray.cancel(old),
        ):
            with pytest.raises(RayError, match="session|shutdown"):
                use()
    for use in (holder.get.remote, lambda: ray.kill(holder)):
        with pytest.raises(ActorHandleNotFoundError, match="shutdown"):
            use()
    for use in (lambda: ray.put(holder), lambda: echo.remote(holder)):
        with pytest.raises(RayError, match="shutdown"):
            use()
    assert ray.get(fresh) == [f"new {i}" for i in range(50)]


def test_arrays_that_are_read_stay_right(node, driver):
    """After a shutdown, while another job fills the store, and after the next init."""
    other = driver()
    ray.init(address=node.address)
    made = [np.random.default_rng(i).integers(0, 1 << 60, 1 << 17) for i in range(4)]
    seen = ray.get([ray.put(each) for each in made])
    views = [each[100:200] for each in seen]
    ray.shutdown()
    wait_until(
        lambda: jobs(node, "RUNNING") == jobs_of(node, other.pid)
    )  # it has ended all the same
    other.call(fill_the_store)
    ray.init(address=node.address)
    again = ray.get(ray.put(made[0]))
    other.call(fill_the_store)
    for have, want in zip(seen, made):
        assert (have == want).all()
    del seen, have
    ray.shutdown()
    ray.init(address=node.address)
    other.call(fill_the_store)
    for have, want in zip(views, made):
        assert (have == want[100:200]).all()
    assert (again == made[0]).all()
    del views, again, have
    ray.shutdown()
    other.call(fill_the_store)


def jobs_of(node, pid):
    return [row for row in jobs(node, "RUNNING") if row.driver_info["pid"] == str(pid)]


def fill_the_store():
    """Writes all of the store's memory once, in pieces that come and go."""
    total = int(ray.cluster_resources()["object_store_memory"])
    size = max(total // 64, 1 << 20)
    for i in range(min(total // size + 8, 80)):
        assert int(ray.get(ray.put(np.full(size // 8, i)))[-1]) == i


def test_a_program_may_leave_while_its_threads_are_busy(node):
    errors = []

    def use():
        try:
            while True:
                ray.get([echo.remote(i) for i in range(20)])
        except (RayError, RuntimeError):
            pass
        except BaseException as error:
            errors.append(error)

    for _ in range(3):
        ray.init(address=node.address)
        threads = [threading.Thread(target=use) for _ in range(2)]
        for thread in threads:
            thread.start()
        ray.get(echo.remote(1))
        with pytest.MonkeyPatch.context() as patch:
            # a call after the shutdown would start a session anew
            patch.setattr(ray._private.worker, "init", refuse)
            ray.shutdown()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
    assert errors == []


def refuse(*args, **kwargs):
    raise RuntimeError("not now")


# ---- ends that meet others ----


def make_what_can_not_start(count):
    for i in range(count):
        actor = Holder.options(lifetime="detached", name=f"never{i}", resources={"none": 1})
        ray.kill(actor.remote())


def test_a_detached_actor_that_never_began_leaves_no_job(node, driver):
    maker = driver()
    maker.call(make_what_can_not_start, 3)
    maker.end()
    wait_until(lambda: jobs(node, "RUNNING") == [])


@ray.remote(num_cpus=0)
class Slow:
    def wait(self, path):
        support.wait_for_file(path)

    def quick(self):
        return "quick"


def make_slow_and_keeper():
    for kind, name in ((Slow, "slow"), (Holder, "keeper")):
        kind.options(lifetime="detached", name=name, num_cpus=0).remote()
    ray.get(ray.get_actor("slow").quick.remote())


def call_slow(gate):
    slow = ray.get_actor("slow")
    slow.wait.remote(gate)
    ray.get(ray.get_actor("keeper").put.remote([slow.quick.remote()]))


def cancel_kept():
    (ref,) = ray.get(ray.get_actor("keeper").get.remote())
    ray.cancel(ref)
    try:
        return ray.get(ref, timeout=40)
    except RayError as error:
        return type(error).__name__


def end_slow_and_keeper():
    for name in ("slow", "keeper"):
        ray.kill(ray.get_actor(name))


def test_a_call_of_an_ended_job_is_cancelled(node, driver, folder):
    space = {"namespace": "calls"}
    maker = driver(**space)
    maker.call(make_slow_and_keeper)
    caller = driver(**space)
    caller.call(call_slow, f"{folder}/gate")
    caller.end()
    other = driver(**space)
    assert other.call(cancel_kept) in ("TaskCancelledError", "quick")
    support.touch(f"{folder}/gate")
    assert other.call(cancel_kept) in ("TaskCancelledError", "quick")
    other.call(end_slow_and_keeper)
