"""A forked child of a driver is no client, and does the parent no harm."""

import multiprocessing
import os
import signal
import sys

import numpy as np
import pytest
import support

import ray

pytestmark = pytest.mark.one_path(
    "what a child of a fork may do does not depend on who gave the task"
)


@ray.remote
def add(a, b=1):
    return a + b


@ray.remote
class Counter:
    def add(self):
        return 1


def in_child(work):
    """Runs work in a forked child; gives the text that it returns."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(20)
            os.write(writing, str(work()).encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, (status, text)
    return text


def attempt(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@pytest.mark.parametrize(
    "name", ["put", "get", "wait", "task", "actor call", "kill", "new actor", "nodes"]
)
def test_calls_in_a_child_raise_a_clear_error(start, name):
    start(num_cpus=1)
    ref, counter = ray.put(1), Counter.remote()
    ray.get(add.remote(1))
    ray.get(counter.add.remote())
    calls = {
        "put": lambda: ray.put(1),
        "get": lambda: ray.get(ref),
        "wait": lambda: ray.wait([ref]),
        "task": lambda: add.remote(1),
        "actor call": lambda: counter.add.remote(),
        "kill": lambda: ray.kill(counter),
        "new actor": lambda: Counter.remote(),
        "nodes": lambda: ray.nodes(),
    }
    text = in_child(lambda: attempt(calls[name]))
    assert "fork" in text.lower(), text
    assert ray.get(add.remote(ref)) == 2 and ray.get(counter.add.remote()) == 1


def test_a_child_has_no_session(start):
    start(num_cpus=1)
    assert in_child(ray.is_initialized) == "False"
    for options in ({}, {"ignore_reinit_error": True}):
        text = in_child(lambda options=options: attempt(lambda: ray.init(num_cpus=1, **options)))
        assert "was forked" in text and "spawn" in text
    assert ray.is_initialized() and ray.get(add.remote(1)) == 2


def test_a_childs_end_does_not_end_the_session(start):
    start(num_cpus=1)
    ref = ray.put([1])
    assert ray.get(add.remote(1)) == 2
    for _ in range(3):
        process = multiprocessing.get_context("fork").Process(target=lambda: None)
        process.start()
        process.join(20)
        assert process.exitcode == 0
    assert ray.get(ref) == [1] and ray.get(add.remote(2)) == 3


def test_a_child_that_drops_refs_drops_nothing_of_the_parents(start):
    start(num_cpus=1)
    refs = [ray.put(b"x" * 100_000) for _ in range(20)]

    def drop():
        refs.clear()
        return "dropped"

    assert in_child(drop) == "dropped"
    for _ in range(100):
        ray.put(b"y" * 100_000)
    assert all(ray.get(ref) == b"x" * 100_000 for ref in refs)


def test_a_child_that_exits_the_ordinary_way(start, folder):
    code = """
import os, sys, ray
ray.init(num_cpus=1)
@ray.remote
def f(): return 1
ray.get(f.remote())
pid = os.fork()
if pid == 0:
    sys.exit(0)  # runs the exit functions that it inherited
os.waitpid(pid, 0)
print(ray.get(f.remote(), timeout=30))
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.stderr, result.returncode) == ("1\n", "", 0)


def test_a_child_may_shut_down_what_is_not_its_own(start):
    start(num_cpus=1)
    in_child(lambda: attempt(ray.shutdown))
    assert ray.get(add.remote(1), timeout=30) == 2


def test_a_child_reads_what_its_parent_has_got(start):
    start(num_cpus=1)
    array = ray.get(ray.put(np.full(100_000, 3)))
    assert in_child(lambda: int(array.sum())) == "300000"


def test_the_parent_ends_while_the_child_lives(folder):
    """The daemon watches its driver, not whoever inherited the driver's socket."""
    code = """
import os, ray, sys, time
ray.init(num_cpus=1)
@ray.remote
def f(): return 1
ray.get(f.remote())
if os.fork() == 0:
    os.close(1); os.close(2)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    os._exit(0)
os._exit(0)
"""
    end = os.path.join(folder, "end")
    result = support.run_driver(support.script(folder, code), end)
    assert result.returncode == 0
    assert support.wait_until(
        lambda: not [c for _, c in support.processes() if "driver.py" not in c]
    )
    assert len(support.processes()) == 1  # the child
    support.touch(end)
    assert support.wait_until(lambda: not support.processes())


def test_a_pool_of_the_driver(start):
    start(num_cpus=2)
    ray.get(add.remote(1))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    assert ray.get(add.remote(1)) == 2


def test_a_fork_right_after_init_waits_for_no_import(folder):
    """What ray.init imports while it waits is whole when it returns: a thread would never end its
    import in a child.
    """
    code = """
import os, signal, sys, time

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "cloudpickle":
            time.sleep(2)

sys.meta_path.insert(0, Slow())
import ray
assert "cloudpickle" not in sys.modules
ray.init(num_cpus=1)
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    import cloudpickle
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "3\n", result.stderr


def test_a_fork_in_a_task(start):
    start(num_cpus=1)

    @ray.remote
    def forks():
        return in_child(lambda: attempt(lambda: ray.put(1)))

    assert "fork" in ray.get(forks.remote(), timeout=40).lower()
    assert ray.get(add.remote(1)) == 2


def fork_and(leave):
    """The status of a child that leaves the task or method that forked it, as a shell gives it."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        return leave()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def leave_by_raising():
    raise KeyError("in the child")


WAYS = {
    "sys.exit(0)": (sys.exit, 0),
    "sys.exit(5)": (lambda: sys.exit(5), 5),
    "sys.exit of a text": (lambda: sys.exit("text"), 1),
    "a value": (lambda: "the child's", 0),
    "a large value": (lambda: np.zeros(1 << 20), 0),
    "an exception": (leave_by_raising, 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["task", "actor", "constructor", "threads", "loop"])
def test_a_child_that_leaves_the_task_that_forked_it(start, capfd, where, way):
    """It ends as a child of a driver does, and the job stays its parent's."""
    start(num_cpus=1)
    leave, expected = WAYS[way]

    class Plain:
        def __init__(self, leave=None):
            self.made = leave and fork_and(leave)

        def run(self, leave):
            return self.made if leave is None else fork_and(leave)

    class Loop:
        async def run(self, leave):
            return fork_and(leave)

    if where == "task":
        task = ray.remote(fork_and)
        assert ray.get([task.remote(leave), task.remote(leave)], timeout=40) == [expected] * 2
    else:
        made = {"threads": {"max_concurrency": 2}}.get(where, {})
        actor = ray.remote(Loop if where == "loop" else Plain).options(num_cpus=0, **made)
        actor = actor.remote(leave) if where == "constructor" else actor.remote()
        given = None if where == "constructor" else leave
        assert (
            ray.get([actor.run.remote(given), actor.run.remote(given)], timeout=40)
            == [expected] * 2
        )
    assert ray.get(add.remote(1), timeout=40) == 2
    ray.shutdown()
    said = capfd.readouterr().err
    assert ("KeyError: 'in the child'" in said) == (way == "an exception"), said
    assert "Traceback" not in said or way == "an exception", said


def test_a_spawned_child_is_a_driver_of_its_own(start, folder):
    start(num_cpus=1)
    code = "import ray\nray.init(num_cpus=1)\nprint(ray.get(ray.put(5)))"
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "5\n", result.stderr
    assert ray.get(add.remote(1)) == 2
