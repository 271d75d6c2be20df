"""Remote functions: calls, results, options, and the world that a task finds itself in."""

import os
import sys
import time

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def add(a, b=10):
    return a + b


@ray.remote
def pid():
    return os.getpid()


def test_a_call_returns_a_ref_at_once(folder):
    @ray.remote
    def slow():
        support.wait_for_file(f"{folder}/go")
        return "done"

    ref = slow.remote()
    assert isinstance(ref, ray.ObjectRef)
    support.touch(f"{folder}/go")
    assert ray.get(ref) == "done"


def test_tasks_run_in_other_processes():
    assert ray.get(pid.remote()) != os.getpid()


def test_a_worker_knows_which_cpu_it_runs_on():
    """The C library keeps the number where the kernel writes it, which has to be told so in each
    worker.
    """

    @ray.remote
    def cpus():
        import ctypes

        found, allowed = [], os.sched_getaffinity(0)
        for cpu in sorted(allowed) * 2:
            os.sched_setaffinity(0, {cpu})
            found.append(ctypes.CDLL(None).sched_getcpu() == cpu)
        os.sched_setaffinity(0, allowed)
        return found

    assert all(ray.get(cpus.remote()))


def test_tasks_run_at_the_same_time(folder):
    meet = ray.remote(support.meet)
    ray.get([meet.remote(folder, "task", 4) for _ in range(4)])


def test_results_keep_the_order_of_the_refs():
    assert ray.get([add.remote(i, i) for i in range(1000)]) == [2 * i for i in range(1000)]


def test_ten_thousand_tasks():
    assert sum(ray.get([add.remote(i, 1) for i in range(10_000)])) == sum(range(10_000)) + 10_000


def test_chain_of_tasks():
    ref = 0
    for _ in range(200):
        ref = add.remote(ref, 1)
    assert ray.get(ref) == 200


def test_tasks_start_tasks():
    @ray.remote
    def tree(depth):
        return 1 if depth == 0 else sum(ray.get([tree.remote(depth - 1), tree.remote(depth - 1)]))

    assert ray.get(tree.remote(5)) == 32


def test_a_task_may_return_the_ref_of_another():
    @ray.remote
    def outer():
        return [add.remote(1, 2)]

    (ref,) = ray.get(outer.remote())
    assert ray.get(ref) == 3


def test_num_returns():
    @ray.remote(num_returns=3)
    def three():
        return 1, "two", [3]

    refs = three.remote()
    assert isinstance(refs, list) and ray.get(refs) == [1, "two", [3]]

    @ray.remote(num_returns=1)
    def pair():
        return 1, 2

    assert ray.get(pair.remote()) == (1, 2)

    @ray.remote(num_returns=0)
    def nothing(path):
        support.touch(path)

    path = os.path.join(support.run_folder(), "nothing-ran")
    assert nothing.remote(path) is None
    assert support.wait_until(lambda: os.path.exists(path))


def test_num_returns_takes_any_sequence_and_many():
    @ray.remote
    def numbers(n):
        return list(range(n))

    assert ray.get(numbers.options(num_returns=2).remote(2)) == [0, 1]
    assert ray.get(numbers.options(num_returns=3000).remote(3000)) == list(range(3000))


@pytest.mark.parametrize("made", [[1], [1, 2, 3], 5, None], ids=str)
def test_wrong_number_of_results_is_an_error_at_get(made):
    @ray.remote(num_returns=2)
    def give():
        return made

    for ref in give.remote():
        with pytest.raises((ValueError, TypeError)) as info:
            ray.get(ref)
        assert isinstance(info.value, ray.exceptions.RayTaskError)
    assert ray.get(add.remote(1)) == 11


def test_calls_with_arguments_and_options_as_values():
    @ray.remote
    def pair(a, b):
        return a, b

    assert ray.get(pair._remote(args=[1], kwargs={"b": 2})) == (1, 2)
    assert ray.get(pair._remote((1, 2), num_returns=2)) == [1, 2]


def test_options_do_not_change_the_function():
    @ray.remote
    def two():
        return 1, 2

    assert ray.get(two.options(num_returns=2).remote()) == [1, 2]
    assert ray.get(two.remote()) == (1, 2)
    assert ray.get(two.options(name="other").options(num_cpus=2).remote()) == (1, 2)


def test_old_name_of_num_returns():
    @ray.remote(num_return_vals=2)
    def two():
        return 1, 2

    assert ray.get(two.remote()) == [1, 2]
    assert ray.get(two.options(num_return_vals=1).remote()) == (1, 2)


def test_remote_as_a_plain_call():
    def plain(x):
        return x + 1

    assert ray.get(ray.remote(plain).remote(1)) == 2
    assert ray.get(ray.remote(num_cpus=2)(plain).remote(1)) == 2
    assert plain(1) == 2


def test_docstring_and_name_stay():
    @ray.remote
    def documented():
        """What it does."""

    assert documented.__doc__ == "What it does."
    assert documented.__name__ == "documented"


def test_builtin_and_imported_functions():
    import math

    assert ray.get(ray.remote(math.sqrt).remote(16)) == 4
    assert ray.get(ray.remote(len).remote([1, 2])) == 2
    assert ray.get(ray.remote(os.path.join).remote("a", "b")) == "a/b"
    assert ray.get(ray.remote(max).remote(3, 5)) == 5  # has no signature to look at
    with pytest.raises(TypeError):
        ray.remote(len).remote()
    with pytest.raises(TypeError):
        ray.remote(math.sqrt).remote(1, 2)


@pytest.mark.parametrize(
    "thing", [5, "text", None, object(), [len]], ids=lambda thing: type(thing).__name__
)
def test_remote_takes_functions_and_classes_only(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        ray.remote(thing)


def test_an_async_function_can_not_be_remote():
    async def wait():
        return 1

    with pytest.raises(ValueError, match="async function"):
        ray.remote(wait)


def test_retry_exceptions(folder):
    @ray.remote(retry_exceptions=True, max_retries=3)
    def third_time():
        tries = len(os.listdir(folder))
        support.touch(f"{folder}/{tries}")
        if tries < 2:
            raise ValueError("not yet")
        return tries

    assert ray.get(third_time.remote()) == 2


def test_retry_exceptions_of_some_classes_only(folder):
    @ray.remote(max_retries=2)
    def always(kind):
        support.touch(f"{folder}/{kind.__name__}-{time.monotonic_ns()}")
        raise kind("no")

    picky = always.options(retry_exceptions=[KeyError])
    for kind in (KeyError, ValueError):
        with pytest.raises(kind):
            ray.get(picky.remote(kind))
    names = [name.split("-")[0] for name in os.listdir(folder)]
    assert (names.count("KeyError"), names.count("ValueError")) == (3, 1)
    with pytest.raises(ValueError):  # what is asked for last counts
        ray.get(picky.options(retry_exceptions=True).remote(ValueError))
    assert len([name for name in os.listdir(folder) if name.startswith("ValueError")]) == 4


def test_an_exception_is_not_retried_unasked(folder):
    @ray.remote(max_retries=5)
    def once():
        support.touch(f"{folder}/{time.monotonic_ns()}")
        raise ValueError("no")

    with pytest.raises(ValueError):
        ray.get(once.remote())
    assert len(os.listdir(folder)) == 1


def test_max_calls_gives_a_new_process():
    @ray.remote(max_calls=1)
    def once():
        return os.getpid()

    pids = [ray.get(once.remote()) for _ in range(4)]
    assert len(set(pids)) == 4


def test_workers_do_not_share_random_state():
    @ray.remote(max_calls=1)
    def draw():
        import random

        import numpy

        return random.random(), float(numpy.random.random()), os.urandom(4)

    drawn = ray.get([draw.remote() for _ in range(8)])
    for column in zip(*drawn):
        assert len(set(column)) == 8


def test_workers_have_the_drivers_environment_and_folder():
    @ray.remote
    def where():
        return os.environ.get("MOBULA_TEST_RUN"), os.getcwd(), dict(os.environ)

    run, folder, environment = ray.get(where.remote())
    assert (run, folder) == (support.run_folder(), os.getcwd())
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        assert environment.get(name) == os.environ.get(name)


def test_workers_have_the_drivers_numbers_of_threads(folder, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    code = """
import os, ray
ray.init(num_cpus=1)
@ray.remote
def numbers():
    return [os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")]
print(*ray.get(numbers.remote()))
"""
    for given, expected in (({}, "1 None None"), ({"OPENBLAS_NUM_THREADS": "3"}, "1 3 None")):
        env = {**given, "RAY_TMPDIR": folder}  # so that no node of this user's is joined
        result = support.run_driver(support.script(folder, code), env=env)
        assert result.stdout.strip() == expected, result.stderr


def test_a_worker_finds_its_modules_loaded(folder):
    """What the process that workers are forked from has not loaded, each worker would have to."""
    code = """
import subprocess, sys, ray
ray.init(num_cpus=1)
@ray.remote
class Actor:
    def modules(self):
        import sys
        return set(sys.modules)
code = "import sys; from ray._private import zygote; zygote.load(); print(*sys.modules)"
listing = [sys.executable, "-c", code]
known = subprocess.check_output(listing, text=True)
print("more:", *sorted(ray.get(Actor.remote().modules.remote()) - set(known.split())))
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.strip() == "more:", result.stderr


def test_workers_have_the_drivers_search_path():
    @ray.remote
    def search_path():
        return sys.path

    found = ray.get(search_path.remote())
    assert [path for path in sys.path if path and path not in found] == []


def test_a_module_beside_the_script_is_found(folder):
    support.script(
        folder,
        "VALUE = 42\nclass Thing:\n    pass\ndef double(x):\n    return 2 * x\n",
        "beside_it.py",
    )
    code = """
import os, ray, beside_it
ray.init(num_cpus=1)
os.chdir("/")  # after init: the folder of the script still counts
@ray.remote
def use(thing):
    import beside_it as again
    assert isinstance(thing, again.Thing)
    return beside_it.double(again.VALUE)
print(ray.get(use.remote(beside_it.Thing())), ray.get(ray.remote(beside_it.double).remote(4)))
"""
    result = support.run_driver(support.script(folder, code), cwd="/tmp")
    assert result.stdout.split() == ["84", "8"], result.stderr


def test_classes_of_the_main_script(folder):
    code = """
import ray, collections, enum, dataclasses
class Base:
    def name(self): return type(self).__name__
class Thing(Base):
    def name(self): return "the " + super().name()
Pair = collections.namedtuple("Pair", "a b")
class Colour(enum.Enum):
    RED = 1
@dataclasses.dataclass
class Data:
    x: int
@ray.remote
def use(thing, pair, colour, data):
    assert colour is Colour.RED and isinstance(pair, Pair) and isinstance(thing, Base)
    return Thing(), Pair(1, 2), Colour.RED, Data(data.x + 1), thing.name()
thing, pair, colour, data, name = ray.get(use.remote(Thing(), Pair(1, 2), Colour.RED, Data(1)))
assert isinstance(thing, Thing) and colour is Colour.RED
assert pair == Pair(1, 2) and data == Data(2), (pair, data)
print(name)
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.strip() == "the Thing", result.stderr


def test_a_task_sees_the_environment_as_of_init_not_a_stale_one(folder):
    code = """
import os, ray
os.environ["COLOUR"] = "green"
ray.init(num_cpus=1)
@ray.remote
def colour(): return os.environ["COLOUR"]
print(ray.get(colour.remote()))
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.strip() == "green", result.stderr


def test_dropping_the_ref_does_not_cancel_the_task(folder):
    @ray.remote
    def mark():
        support.wait_for_file(f"{folder}/go")
        support.touch(f"{folder}/ran")

    mark.remote()
    support.touch(f"{folder}/go")
    assert support.wait_until(lambda: os.path.exists(f"{folder}/ran"))


def test_a_tasks_thread_may_outlive_it():
    @ray.remote
    def leave_a_thread():
        import threading

        threading.Thread(target=time.sleep, args=(0.5,)).start()
        return 1

    assert ray.get([leave_a_thread.remote() for _ in range(4)]) == [1] * 4
    assert ray.get(add.remote(1)) == 11


def test_tasks_may_use_threads_and_subprocesses():
    @ray.remote
    def helpers():
        import concurrent.futures
        import subprocess

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            values = list(pool.map(lambda x: ray.get(add.remote(x, 1)), range(6)))
        return values, subprocess.run(
            ["echo", "hi"], capture_output=True, text=True, check=True
        ).stdout

    assert ray.get(helpers.remote()) == ([1, 2, 3, 4, 5, 6], "hi\n")


def test_tasks_may_use_multiprocessing():
    @ray.remote
    def pool():
        import multiprocessing

        with multiprocessing.Pool(2) as workers:
            return workers.map(abs, [-1, -2, 3])

    assert ray.get(pool.remote()) == [1, 2, 3]
    assert ray.get(add.remote(1)) == 11


def test_deep_recursion_in_a_task():
    @ray.remote
    def deep(n):
        def go(n):
            return 0 if n == 0 else 1 + go(n - 1)

        return go(n)

    assert ray.get(deep.remote(800)) == 800
    with pytest.raises(RecursionError):
        ray.get(deep.remote(10**6))
    assert ray.get(add.remote(1)) == 11


def test_results_that_change_while_they_are_stored():
    @ray.remote(num_returns=3, max_retries=0)
    def clears():
        class Clearing:
            def __reduce__(self):
                results.clear()
                return int, ()

        results = [Clearing(), [1, 2], [3]]
        return results

    assert ray.get(clears.remote()) == [0, [1, 2], [3]]
