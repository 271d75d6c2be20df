"""Tasks that failed, run again in the foreground with the arguments that they had."""

import gc
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import support

import ray
from ray._private import sessions

INIT = {"num_cpus": 2, "object_store_memory": 64 << 20}


@pytest.fixture(autouse=True)
def session(cluster):
    return cluster


@ray.remote
def scale(values, factor=2, *, by=1):
    if factor == 3:
        raise ValueError(f"no {factor}, sum {values.sum()}, by {by}")
    return values * factor


def failed(ref):
    """The id of the task, as its error tells it."""
    with pytest.raises(Exception) as caught:
        ray.get(ref, timeout=40)
    return re.search(r"to run it again here: .*?([0-9a-f]{40})", str(caught.value), re.I).group(1)


def test_an_exception_with_its_arguments():
    ref = ray.put(np.arange(1000))
    task = failed(scale.remote(ref, 3, by={"k": [1]}))
    del ref
    for _ in range(2):
        with pytest.raises(
            ValueError, match=re.escape("no 3, sum 499500, by {'k': [1]}")
        ) as caught:
            ray.util.replay(task)
    assert type(caught.value) is ValueError and caught.value.__traceback__ is not None


def test_it_may_succeed_this_time(folder):
    @ray.remote
    def needs(path):
        return open(path).read()

    task = failed(needs.remote(f"{folder}/missing"))
    with open(f"{folder}/missing", "w") as file:
        file.write("here now")
    assert ray.util.replay(task) == "here now"
    assert ray.util.replay(ray.TaskID.from_hex(task)) == "here now"


def test_references_inside_and_tasks_of_its_own():
    @ray.remote
    def outer(refs, fails):
        total = sum(ray.get(refs)) + ray.get(double.remote(1))
        if not isinstance(fails, str):
            raise KeyError(total)

    @ray.remote
    def double(x):
        return 2 * x

    task = failed(outer.remote([ray.put(10), double.remote(20)], 0))
    with pytest.raises(KeyError, match="52"):
        ray.util.replay(task)


def test_a_constructor():
    class Fragile:
        def __init__(self, word):
            raise LookupError(word)

    task = failed(ray.remote(Fragile).remote("not found").__ray_ready__.remote())
    with pytest.raises(LookupError, match="not found"):
        ray.util.replay(task)


def test_a_worker_that_died():
    @ray.remote(max_retries=0)
    def leave(here):
        if os.getpid() != here:
            os._exit(4)
        return "still here"

    assert ray.util.replay(failed(leave.remote(os.getpid()))) == "still here"


def test_a_task_without_results(capfd):
    @ray.remote(num_returns=0)
    def fail(word):
        raise ValueError(word)

    fail.remote("unheard")
    told = []

    def heard():
        told.append(capfd.readouterr().err)
        return "ValueError: unheard" in "".join(told)

    assert support.wait_until(heard)
    task = re.search(r"[0-9a-f]{40}", "".join(told)).group()

    def kept():  # the words come before the task's end
        with pytest.raises(ValueError) as caught:
            ray.util.replay(task)
        return "nothing is kept" not in str(caught.value)

    assert support.wait_until(kept)
    with pytest.raises(ValueError, match="unheard"):
        ray.util.replay(task)


def test_a_failed_argument_has_the_id_of_its_own_task():
    inner = scale.remote(np.ones(2), 3)
    with pytest.raises(ValueError) as caught:
        ray.get(scale.remote(inner))
    assert str(caught.value).count("to run it again here") == 1
    task = re.search(r"[0-9a-f]{40}", str(caught.value)).group()
    with pytest.raises(ValueError, match="no 3, sum 2.0"):
        ray.util.replay(task)


def test_only_the_newest_are_kept():
    first = failed(scale.remote(np.ones(1), 3))
    # more than 100: the daemon may have yet to hear of the last ones
    rest = [failed(scale.remote(np.ones(i), 3)) for i in range(1, 111)]
    with pytest.raises(ValueError, match="nothing is kept of task"):
        ray.util.replay(first)
    with pytest.raises(ValueError, match="sum 110.0"):
        ray.util.replay(rest[-1])


def test_large_arguments_are_not_kept():
    ref = ray.put(np.ones(1_000_000))  # 8 MB of a store of 64
    task = failed(scale.remote(ref, 3))
    try:
        ray.util.replay(task)
    except ValueError as error:
        assert "sum 1000000.0" in str(error)  # something else holds it
    del ref
    gc.collect()  # the exception's frames
    assert support.wait_until(lambda: support.store_free() > 56 << 20)
    with pytest.raises(ValueError, match="its arguments have 7.6 MiB, and up to 4.0 MiB are kept"):
        ray.util.replay(task)


def test_what_is_kept_of_failures_is_bounded():
    before = support.store_free_settled()
    for i in range(30):
        failed(scale.remote(np.full(250_000, i), 3))  # 2 MB each
    assert support.wait_until(lambda: support.store_free() > before - (8 << 20))


def test_calls_of_actors_have_no_id():
    @ray.remote
    class Actor:
        def fail(self):
            raise ValueError(ray.get_runtime_context().get_task_id())

    with pytest.raises(ValueError) as caught:
        ray.get(Actor.remote().fail.remote())
    assert "run it again" not in str(caught.value)
    with pytest.raises(ValueError, match="call of an actor"):
        ray.util.replay(re.search(r"[0-9a-f]{40}", str(caught.value)).group())


@pytest.mark.parametrize(
    "task, words",
    [
        ("xyz", "is not the id of a task"),
        ("g" * 40, "is not the id of a task"),
        ("0" * 40, "is the id of an object or an actor"),
        ("0" * 16 + "80000001" + "0" * 16, "ran on node 0000000000000000"),
    ],
)
def test_ids_that_make_no_sense(task, words):
    with pytest.raises(ValueError, match=words):
        ray.util.replay(task)


def test_under_pdb(folder):
    body = """
import os, re, ray
ray.init(num_cpus=1)
@ray.remote
def fail(word):
    number = len(word)
    raise ValueError(number)
try:
    ray.get(fail.remote("four"))
except ValueError as error:
    ray.util.replay(re.search("[0-9a-f]{40}", str(error)).group(), pdb=True)
"""
    result = subprocess.run(
        [sys.executable, support.script(folder, body)],
        input="next\np word * number\ncontinue\np number\nquit\n",
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "'fourfourfourfour'" in result.stdout, result.stderr
    assert "ValueError: 4\n" in result.stdout and result.returncode == 1


# ---- from the command line ----


def command(*args, **options):
    program = "import sys; from ray.scripts.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=100,
        **options,
    )


DRIVER = """
import sys, ray
sys.path.append({folder!r})
import helper
ray.init(address="auto")
try:
    ray.get(ray.remote(helper.fail).remote(ray.put("word"), [ray.put(5)]))
except ZeroDivisionError as error:
    print(error)
"""
HELPER = """
import os, ray
def fail(word, refs):
    print("in", os.path.basename(os.getcwd()), word)
    return ray.get(refs[0]) // 0
"""


@pytest.fixture
def node():
    result = command("start", "--head", "--port=0", "--num-cpus=2")
    assert result.returncode == 0, result.stderr
    (found,) = sessions.live_nodes()
    yield found
    assert command("stop", "--address", found.address).returncode == 0


def test_the_command_after_the_driver_has_ended(node, folder):
    os.makedirs(f"{folder}/work")
    with open(f"{folder}/helper.py", "w") as file:
        file.write(HELPER)
    path = support.script(folder, DRIVER.format(folder=folder))
    driver = support.run_driver(path, cwd=f"{folder}/work")
    task = re.search(r"\(to run it again here: ray replay ([0-9a-f]{40})\)", driver.stdout).group(1)
    again = command("replay", task, cwd="/")
    assert again.returncode == 1 and "in work word\n" in again.stdout, again.stderr
    assert again.stderr.endswith("ZeroDivisionError: integer division or modulo by zero\n")
    debugged = command("replay", "--pdb", task, input="next\np word\ncontinue\nquit\n")
    assert "'word'" in debugged.stdout and "ZeroDivisionError" in debugged.stdout
    unknown = command("replay", task[:-1] + "f")
    assert unknown.returncode == 1 and "nothing is kept of task" in unknown.stderr


def test_the_command_without_such_a_node():
    task = failed(scale.remote(np.ones(1), 3))
    result = command("replay", task)
    assert result.returncode == 1 and "call ray.util.replay there" in result.stderr
    assert command("replay", "nonsense").returncode == 1


def test_handles_inside_do_not_keep_their_actors():
    @ray.remote(num_cpus=0)
    class Actor:
        def pid(self):
            return os.getpid()

    @ray.remote
    def fail(handles):
        raise ValueError("with handles")

    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    task = failed(fail.remote(ray.put([actor])))
    del actor
    gc.collect()
    assert support.wait_until(lambda: not support.alive(pid))
    with pytest.raises(ValueError, match="handles of actors inside"):
        ray.util.replay(task)


def test_the_next_session_has_its_own_functions():
    def run(word):
        @ray.remote
        def fail():
            raise ValueError(word)

        with pytest.raises(ValueError, match=word):
            ray.util.replay(failed(fail.remote()))

    for word in ("first", "second"):
        ray.shutdown()
        ray.init(**INIT)
        run(word)
