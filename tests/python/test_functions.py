"""Where functions and classes may be defined: anywhere."""

import functools
import os

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def factorial(n):
    return 1 if n < 2 else n * ray.get(factorial.remote(n - 1))


@ray.remote
def is_even(n):
    return True if n == 0 else ray.get(is_odd.remote(n - 1))


@ray.remote
def is_odd(n):
    return False if n == 0 else ray.get(is_even.remote(n - 1))


def test_lambdas():
    assert ray.get(ray.remote(lambda x, y=2: x * y).remote(4)) == 8


def test_closures():
    def adder(n):
        @ray.remote
        def add(x):
            return x + n

        return add

    adders = [adder(n) for n in range(10)]
    assert ray.get([add.remote(100) for add in adders]) == [100 + n for n in range(10)]


def test_closures_over_mutable_state_are_taken_at_the_first_call():
    seen = [1]

    @ray.remote
    def look():
        return list(seen)

    assert ray.get(look.remote()) == [1]
    assert ray.get(look.remote()) == [1]


def test_closures_over_modules_and_classes():
    import json

    class Box:
        def __init__(self, x):
            self.x = x

    @ray.remote
    def use(x):
        return json.dumps(Box(x).x)

    assert ray.get(use.remote([1])) == "[1]"


def test_recursive_functions():
    assert ray.get(factorial.remote(5)) == 120

    @ray.remote
    def countdown(n):
        return [n] + (ray.get(countdown.remote(n - 1)) if n else [])

    assert ray.get(countdown.remote(3)) == [3, 2, 1, 0]


def test_functions_that_call_each_other():
    assert ray.get(is_even.remote(6)) is True
    assert ray.get(is_even.remote(7)) is False


def test_redefined_functions():
    results = []
    for version in range(5):

        @ray.remote
        def same_name():
            return version  # noqa: B023

        results.append(same_name.remote())
        ray.get(results[-1])
    assert ray.get(results) == [0, 1, 2, 3, 4]


def test_a_redefinition_leaves_waiting_tasks_alone(folder):
    @ray.remote
    def gate():
        support.wait_for_file(f"{folder}/go")

    def define(value):
        @ray.remote
        def f(_):
            return value

        return f

    f = define("old")
    old = f.remote(gate.remote())
    f = define("new")
    assert ray.get(f.remote(None)) == "new"
    support.touch(f"{folder}/go")
    assert ray.get(old) == "old"


def test_redefined_classes():
    def define(value):
        @ray.remote
        class Same:
            def value(self):
                return value

        return Same

    first, second = define(1).remote(), define(2).remote()
    assert ray.get([first.value.remote(), second.value.remote()]) == [1, 2]


def test_a_thousand_different_functions():
    functions = [ray.remote(lambda n=n: n) for n in range(1000)]
    assert ray.get([f.remote() for f in functions]) == list(range(1000))


def test_a_function_is_shipped_once():
    class Counted:
        pickled = 0

        def __reduce__(self):
            Counted.pickled += 1
            return str, ()

    token = Counted()

    @ray.remote
    def use():
        return token

    assert ray.get([use.remote() for _ in range(20)]) == [""] * 20
    assert ray.get(use.options(num_cpus=2).remote()) == ""
    assert Counted.pickled == 1


def test_a_function_is_unpickled_once_in_a_worker():
    @ray.remote
    def outer():
        @ray.remote
        def state():
            state_of.setdefault("calls", 0)
            state_of["calls"] += 1
            return os.getpid(), state_of["calls"]

        state_of = {}
        return [ray.get(state.remote()) for _ in range(10)]

    calls = {}
    for pid, count in ray.get(outer.remote()):
        calls.setdefault(pid, []).append(count)
    for counts in calls.values():
        assert counts == list(range(1, len(counts) + 1))


def test_big_closures():
    data = b"x" * 5_000_000

    @ray.remote
    def size():
        return len(data)

    assert ray.get([size.remote() for _ in range(4)]) == [5_000_000] * 4


def test_decorated_functions():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return 2 * function(*args, **kwargs)

        return wrapper

    @ray.remote
    @twice
    def f(x, y=1):
        return x + y

    assert ray.get(f.remote(1)) == 4
    assert ray.get(f.remote(1, y=5)) == 12


def test_a_function_defined_by_exec():
    scope = {"ray": ray}
    exec(
        "import math\n@ray.remote\ndef root(x):\n    return math.sqrt(helper(x))\ndef helper(x):\n "
        "   return x",
        scope,
    )
    assert ray.get(scope["root"].remote(16)) == 4


def test_functions_defined_in_tasks():
    @ray.remote
    def outer(n):
        @ray.remote
        def inner(m):
            return n + m

        return ray.get([inner.remote(i) for i in range(3)])

    assert ray.get(outer.remote(10)) == [10, 11, 12]


def test_a_remote_function_returned_from_a_task():
    @ray.remote
    def make(n):
        return ray.remote(lambda x: x + n)

    assert ray.get(ray.get(make.remote(5)).remote(1)) == 6


def test_a_remote_function_in_an_objects_state():
    class Runner:
        def __init__(self):
            self.function = factorial

        def run(self, n):
            return ray.get(self.function.remote(n))

    @ray.remote
    def use(runner):
        return runner.run(4)

    assert ray.get(use.remote(Runner())) == 24


def test_a_method_as_a_remote_function():
    class Thing:
        def __init__(self, x):
            self.x = x

        def plus(self, y):
            return self.x + y

    thing = Thing(1)
    assert ray.get(ray.remote(lambda y: thing.plus(y)).remote(2)) == 3


def test_redefinition_in_a_script_and_a_notebook(folder):
    code = """
import ray
def cell(source):
    exec(compile(source, "<cell>", "exec"), globals())
cell("@ray.remote\\ndef f():\\n    return helper() + 1\\ndef helper():\\n    return 1")
cell("print(ray.get(f.remote()))")
cell("@ray.remote\\ndef f():\\n    return helper() + 100")
cell("print(ray.get(f.remote()))")
cell("@ray.remote\\nclass A:\\n    def m(self):\\n        return helper()")
cell("a = A.remote()\\nprint(ray.get(a.m.remote()))")
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.split() == ["2", "101", "1"], result.stderr


def test_from_standard_input_and_from_the_command_line():
    import subprocess
    import sys

    code = "import ray\n@ray.remote\ndef f(x):\n    return x + 1\nprint(ray.get(f.remote(1)))\n"
    for command, given in (([sys.executable, "-"], code), ([sys.executable, "-c", code], None)):
        found = subprocess.run(command, input=given, capture_output=True, text=True, timeout=50)
        assert found.stdout == "2\n", found.stderr


def test_what_can_not_be_pickled_is_named():
    import threading

    lock = threading.Lock()

    @ray.remote
    def f():
        return lock

    with pytest.raises(TypeError, match="lock") as info:
        f.remote()
    assert "f" in str(info.value)


UNLOADED = """
import gc, os, sys
import ray
sys.path.append(TESTS)
import support
ray.init(num_cpus=CPUS)
DRIVER = os.getpid()

@ray.remote
def one():
    return 1

class Last:
    def __del__(self):
        if os.getpid() != DRIVER:
            FINALIZER

def make():
    last = Last()

    @ray.remote
    def function():
        return last is not None

    return function

function = make()
print(ray.get(function.remote()))
del function
gc.collect()
support.wait_for_file(FOLDER + "/begun")
print(sum(ray.get(one.remote(), timeout=30) for _ in range(10)))
support.touch(FOLDER + "/go")
"""


def unload(folder, finalizer, cpus):
    """Runs a driver whose worker unloads a function, whose finalizer makes the file `begun`."""
    code = UNLOADED.replace("FINALIZER", finalizer).replace("CPUS", str(cpus))
    code = code.replace("TESTS", repr(os.path.dirname(support.__file__))).replace(
        "FOLDER", repr(folder)
    )
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "True\n10\n", result.stdout + result.stderr
    return result.stderr


def test_a_finalizer_that_waits_while_its_function_is_unloaded(folder):
    """The worker has no task then, and what it waited for could only be run by itself."""
    waits = """try:
                ray.get(one.remote())
            finally:
                support.touch(FOLDER + "/begun")"""
    assert "can't be waited for while a worker unloads a function" in unload(folder, waits, 1)


@pytest.mark.skipif(
    os.environ.get("MOBULA_FAST_PATH") == "0",
    reason="the daemon takes a worker that unloads for an idle one",
)
def test_a_slow_finalizer_holds_nobody_up(folder):
    """Tasks in the queue go to another worker meanwhile."""
    waits = """support.touch(FOLDER + "/begun")
            support.wait_for_file(FOLDER + "/go")"""
    unload(folder, waits, 2)


@ray.remote
def make_things():
    @ray.remote
    def inner(x):
        return x * 3

    @ray.remote
    def outer(x):
        return ray.get(inner.remote(x)) + 1

    @ray.remote
    class Made:
        def call(self, x):
            return ray.get(outer.remote(x))

    return outer, Made, outer.options(num_returns=1), lambda x: outer.remote(x)


def test_what_came_by_get_works_in_the_next_session():
    made = ray.get(make_things.remote())
    for _ in range(2):
        ray.shutdown()
        ray.init(num_cpus=4)
        outer, cls, optioned, plain = made
        assert ray.get([outer.remote(2), optioned.remote(3), plain(4)]) == [7, 10, 13]
        assert ray.get(cls.remote().call.remote(5)) == 16
