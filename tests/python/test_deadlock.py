"""Tasks and actors that wait for each other: told on the driver, and raised where that is asked
for. And what looks like it, and is none.
"""

import os
import subprocess
import sys

import pytest
import support

import ray
from ray.exceptions import DeadlockError

TOLD = "A deadlock: tasks wait for each other"

HEAD = """
import os, ray, time
ray.init(num_cpus=4, resources={"R": 1}, num_gpus=1, _temp_dir=os.path.dirname(__file__))

@ray.remote
class Actor:
    def set(self, other): self.other = other
    def first(self): return ray.get(self.other.second.remote())
    def second(self): return ray.get(self.other.third.remote())
    def third(self): return 3

def pair(**options):
    a, b = Actor.options(**options).remote(), Actor.options(**options).remote()
    ray.get([a.set.remote(b), b.set.remote(a)])
    return a

def ends(ref):
    try:
        print("ended", ray.get(ref, timeout=40))
    except Exception as error:
        print(type(error).__name__, isinstance(error, ray.exceptions.DeadlockError))
"""


def run(folder, code, raises=True):
    """What a driver prints, and what it is told."""
    before = os.environ.get("RAY_deadlock_raise")
    os.environ["RAY_deadlock_raise"] = str(int(raises))
    try:
        result = support.run_driver(support.script(folder, HEAD + code))
    finally:
        del os.environ["RAY_deadlock_raise"]
        if before is not None:
            os.environ["RAY_deadlock_raise"] = before
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


def test_two_actors_that_call_each_other(folder):
    out, err = run(folder, "ends(pair().first.remote())")
    assert out == "RayTaskError(DeadlockError) True\n"
    assert err.count(TOLD) == 1
    assert "Actor.first (task " in err and "Actor.second (task " in err and "pid=" in err
    assert "has waited for " in err and "the actor Actor has a place" in err
    assert "max_concurrency" in err


def test_it_is_told_once_where_nobody_raises(folder):
    code = """
ref = pair().first.remote()
time.sleep(12)
assert ray.wait([ref], timeout=0) == ([], [ref])
"""
    _, err = run(folder, code, raises=False)
    assert err.count(TOLD) == 1 and err.count("has waited for") == 2, err
    assert "RAY_deadlock_raise=1" in err


def test_an_actor_that_calls_itself(folder):
    code = """
a = Actor.remote()
ray.get(a.set.remote(a))
ends(a.first.remote())
"""
    out, err = run(folder, code)
    assert out == "RayTaskError(DeadlockError) True\n" and err.count(TOLD) == 1


@pytest.mark.parametrize("what", ['resources={"R": 1}', "num_gpus=1", "num_gpus=0.6"])
def test_a_task_that_holds_what_its_subtask_asks_for(folder, what):
    code = f"""
@ray.remote({what})
def child(): pass

@ray.remote({what})
def parent(): return ray.get([child.remote() for _ in range(20)])

ends(parent.remote())
"""
    out, err = run(folder, code)
    assert out == "RayTaskError(DeadlockError) True\n"
    assert err.count(TOLD) == 1 and "child (task " in err and "and for 19 more" in err
    assert "which waits for {" in err and ("R: 1}" if "R" in what else "GPU: ") in err


def test_an_actor_whose_creation_asks_for_it(folder):
    code = """
@ray.remote(resources={"R": 1})
class Child:
    def call(self): pass

@ray.remote(resources={"R": 1})
class Parent:
    def call(self): return ray.get(Child.remote().call.remote())

p = Parent.remote()
ends(p.call.remote())
"""
    out, err = run(folder, code)
    assert out == "RayTaskError(DeadlockError) True\n" and err.count(TOLD) == 1
    assert "Child" in err


def test_by_way_of_an_argument_and_of_wait(folder):
    code = """
@ray.remote
def after(x): return x

@ray.remote
class Waits:
    def call(self, me):
        refs = [after.remote(me[0].call.remote(me))]
        return ray.wait(refs, num_returns=1)

w = Waits.remote()
ends(w.call.remote([w]))
"""
    out, err = run(folder, code)
    assert out == "RayTaskError(DeadlockError) True\n" and err.count(TOLD) == 1
    assert "after (task " in err and "argument" in err


def test_every_thread_of_an_actor(folder):
    """One of two places is enough to go on; both are not."""
    code = """
@ray.remote(max_concurrency=2)
class Threads:
    def nest(self, me, depth): return depth and ray.get(me[0].nest.remote(me, depth - 1))

t = Threads.remote()
ends(t.nest.remote([t], 1))
time.sleep(0.1)
ends(t.nest.remote([t], 2))
"""
    out, err = run(folder, code)
    assert out == "ended 0\nRayTaskError(DeadlockError) True\n" and err.count(TOLD) == 1


def test_two_knots_are_both_undone(folder):
    out, err = run(
        folder, "refs = [pair().first.remote() for _ in range(2)]\nfor r in refs: ends(r)"
    )
    assert out == "RayTaskError(DeadlockError) True\n" * 2 and TOLD in err


def test_what_is_none(folder):
    """All of it at once, for long enough to be told."""
    code = """
@ray.remote
def nest(depth): return depth if depth == 0 else ray.get(nest.remote(depth - 1))

@ray.remote
def long(): time.sleep(9); return "long"

@ray.remote
def waits(refs): return ray.get(refs[0])

@ray.remote
def waits_for_some(refs): return len(ray.wait(refs, num_returns=1)[0])

@ray.remote
def tries(refs):
    for i in range(9):
        try: return ray.get(refs[0], timeout=1)
        except TimeoutError: pass

@ray.remote(resources={"R": 1})
def holds(): time.sleep(8); return "holds"

@ray.remote
def deep(): return ray.get(nest.remote(9))

@ray.remote
class Async:
    async def call(self, me, n): return n and await me[0].call.remote(me, n - 1)
    async def wait(self, refs): return await refs[0]

@ray.remote
class Plain:
    def wait(self, refs): return ray.get(refs[0])
    def call(self): return "call"

slow = long.remote()
held, behind = holds.remote(), holds.remote()
a, p, q = Async.remote(), Plain.remote(), Plain.remote()
refs = [nest.remote(6), deep.remote(), waits.remote([slow]), waits.remote([behind]),
        waits.remote([waits.remote([slow])]), waits_for_some.remote([behind, slow]),
        tries.remote([behind]), a.call.remote([a], 5), a.wait.remote([slow]),
        p.wait.remote([slow]), p.call.remote(), q.wait.remote([p.call.remote()])]
print(ray.get(refs))
"""
    out, err = run(folder, code)
    assert out == f"{[0, 0, 'long', 'holds', 'long', 1, None, 0, 'long', 'long', 'call', 'call']}\n"
    assert TOLD not in err and "Deadlock" not in err


def test_the_variable_is_checked(folder):
    env = {**os.environ, "RAY_deadlock_raise": "yes"}
    code = "import ray; ray.init(num_cpus=1)"
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "ValueError" in result.stderr and "RAY_deadlock_raise=yes" in result.stderr


def test_its_class():
    assert issubclass(DeadlockError, ray.exceptions.RayError)
