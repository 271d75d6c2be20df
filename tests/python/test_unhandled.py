"""What the driver is told of failures that nobody asks about: on its stderr, once each."""

import os
import re

import pytest
import support

UNHANDLED = "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): "
PRELUDE = """
import asyncio, os, sys
sys.path.append(os.environ["MOBULA_TEST_PATH"])
import ray, support
ray.init(num_cpus=2)
here = sys.argv[1]

@ray.remote
def fail(what="no luck"):
    raise ValueError(what)

@ray.remote
def echo(*values):
    return values

def done(*refs):
    ray.wait(list(refs), num_returns=len(refs), timeout=40)

class Listener:
    said = ""
    def write(self, text):
        self.said += text
        return sys.__stderr__.write(text)
    def flush(self):
        sys.__stderr__.flush()

sys.stderr = Listener()

def hear(*words):
    assert support.wait_until(lambda: all(word in sys.stderr.said for word in words), 40)
"""


def told(folder, body, **env):
    """What a driver with this body prints on its stderr."""
    path = os.path.dirname(os.path.abspath(support.__file__))
    result = support.run_driver(
        support.script(folder, PRELUDE + body),
        folder,
        env={**os.environ, "MOBULA_TEST_PATH": path, **env},
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_a_reference_that_goes(folder):
    text = told(folder, "ref = fail.remote()\ndone(ref)\ndel ref")
    assert text.startswith(f"{UNHANDLED}ray::fail() (pid=")
    assert text.endswith("ValueError: no luck\n") and "in fail\n" in text
    assert text.count("Unhandled") == 1


def test_a_reference_that_went_before_its_task_was_done(folder):
    body = """
@ray.remote
def late():
    support.wait_for_file(f"{here}/go")
    raise KeyError("late")

late.remote()
support.touch(f"{here}/go")
hear("KeyError")
"""
    text = told(folder, body)
    assert text.count("Unhandled") == 1 and "KeyError: 'late'" in text


def test_the_switch(folder):
    body = "ref = fail.remote()\ndone(ref)\ndel ref"
    assert told(folder, body, RAY_IGNORE_UNHANDLED_ERRORS="1") == ""
    assert UNHANDLED in told(folder, body, RAY_IGNORE_UNHANDLED_ERRORS="0")


@pytest.mark.parametrize(
    "handling",
    [
        "ray.get(fail.remote())",
        "ray.get([echo.remote(), fail.remote(1), fail.remote(2)])",
        "ref = fail.remote(); done(ref); ray.get(ref)",
        "asyncio.run(awaited())",
        "fail.remote().future().result(40)",
        "ray.get(getter.remote([fail.remote()]))",
        "ray.get(echo.remote(fail.remote()))",
        "ray.get(Actor.remote().fail.remote())",
    ],
)
def test_what_is_handled(folder, handling):
    body = f"""
@ray.remote
def getter(refs):
    try:
        ray.get(refs[0])
    except ValueError:
        pass
    raise ValueError("its own")

@ray.remote
class Actor:
    def fail(self):
        raise ValueError("in an actor")

async def awaited():
    await fail.remote()

try:
    {handling}
except ValueError:
    pass
ref = None
ray.get(echo.remote())
"""
    assert told(folder, body) == ""


def test_what_is_still_held_at_the_end(folder):
    assert told(folder, "ref = fail.remote()\ndone(ref)") == ""
    assert told(folder, "ref = fail.remote()\ndone(ref)\nray.shutdown()\ndel ref") == ""


def test_a_time_that_ran_out_is_no_answer(folder):
    body = """
@ray.remote
def late():
    support.wait_for_file(f"{here}/go")
    raise KeyError("late")
ref = late.remote()
try:
    ray.get([ref], timeout=0.01)
except ray.exceptions.GetTimeoutError:
    pass
support.touch(f"{here}/go")
done(ref)
del ref
"""
    assert "KeyError: 'late'" in told(folder, body)


def test_a_failed_argument_counts_for_the_task_that_got_it(folder):
    text = told(folder, "ref = echo.remote(fail.remote())\ndone(ref)\ndel ref")
    assert text.count("Unhandled") == 1
    assert text.startswith(f"{UNHANDLED}ray::echo() (pid=") and "ray::fail() (pid=" in text


def test_references_of_workers(folder):
    body = """
@ray.remote
def nested():
    ref = fail.remote("deep down")
    ray.wait([ref])
ray.get(nested.remote())
"""
    text = told(folder, body)
    assert text.count("Unhandled") == 1 and "ValueError: deep down" in text


def test_a_call_of_an_actor(folder):
    body = """
@ray.remote
class Actor:
    def fail(self):
        raise ValueError("in an actor")
actor = Actor.remote()
ref = actor.fail.remote()
done(ref)
del ref
"""
    text = told(folder, body)
    assert text.startswith(f"{UNHANDLED}ray::Actor.fail() (pid=") and text.count("Unhandled") == 1


def test_a_task_without_results(folder):
    body = """
fail.options(num_returns=0).remote("nothing to hold")
echo.options(num_returns=0).remote(fail.remote("an argument"))
hear("nothing to hold", "an argument")
"""
    text = told(folder, body)
    assert "ValueError: nothing to hold" in text and "ValueError: an argument" in text
    assert text.count("Unhandled") == 2


def test_a_crash(folder):
    body = """
@ray.remote(max_retries=0)
def crash():
    os._exit(3)
ref = crash.remote()
done(ref)
del ref
"""
    text = told(folder, body)
    assert re.fullmatch(
        re.escape(UNHANDLED) + r"the worker \(pid \d+\) that ran crash died: .*code 3\. To run.*\n",
        text,
    )


def test_an_actor_that_died_by_itself_and_one_that_was_killed(folder):
    body = """
@ray.remote
class Actor:
    def end(self, how):
        if how == "exit":
            ray.actor.exit_actor()
        support.wait_for_file(f"{here}/go") if how == "wait" else os._exit(3)
for how in ("exit", "wait", "crash"):
    actor = Actor.remote()
    refs = [actor.end.remote(how), actor.end.remote(how)]
    if how == "wait":
        ray.kill(actor)
    done(*refs)
    del refs, actor
"""
    text = told(folder, body)
    assert "it exited with code 3" in text and "class_name: Actor" in text
    assert text.count("Unhandled") <= 2 and "killed" not in text and "code 0" not in text


def test_an_actor_that_could_not_be_made(folder):
    body = """
@ray.remote
class Stillborn:
    def __init__(self, how):
        if how == "raise":
            raise ValueError("no life")
        os._exit(3)
    def call(self):
        pass
actor = Stillborn.remote("raise")
done(*[actor.call.remote() for _ in range(3)])
Stillborn.remote("crash")
hear("code 3")
"""
    text = told(folder, body)
    lines = text.splitlines()
    assert len([line for line in lines if "Exception raised in creation task: " in line]) == 2
    assert all(re.match(r"\(Stillborn pid=\d+\) ", line) for line in lines)
    assert text.count("ValueError: no life") == 1 and "it exited with code 3" in text


def test_retries(folder):
    body = """
@ray.remote(max_retries=2)
def crash():
    with open(f"{here}/crashes", "a") as file:
        file.write("x")
    if os.path.getsize(f"{here}/crashes") < 3:
        os._exit(4)

@ray.remote(max_retries=-1, retry_exceptions=[KeyError])
def picky():
    with open(f"{here}/tries", "a") as file:
        file.write("x")
    if os.path.getsize(f"{here}/tries") < 2:
        raise KeyError("x" * 20000 + "not yet")

ray.get([crash.remote(), picky.remote()], timeout=40)
"""
    text = told(folder, body)
    told_of_crashes = re.findall(r"Task crash failed\. There are (\d) retries remaining", text)
    assert told_of_crashes == ["2", "1"] and text.count("it exited with code 4") == 2
    assert text.count("Task picky failed. It may be retried without end") == 1
    assert "not yet" in text and "Unhandled" not in text
    assert all(line.startswith("(raylet) ") for line in text.splitlines())


def test_a_flood_is_counted(folder):
    body = """
refs = [fail.remote(i) for i in range(10000)]
done(*refs)
del refs
"""
    text = told(folder, body)
    assert len(text) < 10000
    assert text.count("Traceback") == 1
    assert sum(map(int, re.findall(r"(\d+) more like this: ray::fail\(\)", text))) == 9999
