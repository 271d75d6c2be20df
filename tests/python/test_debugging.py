"""A worker that crashes shows where; a debugger that needs a terminal says that there is none."""

import os
import sys

import pytest
import support

import ray

CRASH = """
import ctypes, faulthandler, os, resource, sys, ray
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
ray.init(num_cpus=1)

def crash_inside():
    if "segfault" in sys.argv or "disabled" in sys.argv:
        ctypes.string_at(0)
    if "abort" in sys.argv:
        os.abort()
    ctypes.pythonapi.Py_FatalError(b"on purpose")

@ray.remote(max_retries=0)
def crash():
    sys.argv[:] = arguments
    if "disabled" in sys.argv:
        faulthandler.disable()
    crash_inside()

@ray.remote
class Actor:
    def crash(self):
        sys.argv[:] = arguments
        crash_inside()

arguments = sys.argv
ref = Actor.remote().crash.remote() if "actor" in sys.argv else crash.remote()
try:
    ray.get(ref)
except ray.exceptions.RayError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("who", ["task", "actor"])
@pytest.mark.parametrize(
    "how, words",
    [("segfault", "Segmentation fault"), ("abort", "Aborted"), ("fatal", "on purpose")],
)
def test_a_crash_shows_its_stack(folder, who, how, words):
    result = support.run_driver(support.script(folder, CRASH), how, who)
    assert result.stdout.split() == ["ActorDiedError" if who == "actor" else "WorkerCrashedError"]
    assert "Fatal Python error" in result.stderr and words in result.stderr, result.stderr
    assert "in crash_inside" in result.stderr and "in crash\n" in result.stderr, result.stderr


def test_the_user_may_disable_that(folder):
    result = support.run_driver(support.script(folder, CRASH), "disabled", "task")
    assert result.stdout.split() == ["WorkerCrashedError"] and "Fatal" not in result.stderr


def stop():
    breakpoint()
    return "went on"


def stop_in_pdb():
    import pdb

    pdb.set_trace()
    return "went on"


@pytest.mark.parametrize("function, word", [(stop, "breakpoint()"), (stop_in_pdb, "pdb")])
def test_a_debugger_says_what_to_do_instead(start, function, word):
    start(num_cpus=1)
    with pytest.raises(ray.exceptions.RayTaskError) as info:
        ray.get(ray.remote(function).remote())
    text = str(info.value)
    assert f"a worker has no terminal, so {word}" in text and "PYTHONBREAKPOINT" in text


def test_a_hook_of_ones_own(start):
    start(num_cpus=1)

    @ray.remote
    def own():
        before, sys.breakpointhook = sys.breakpointhook, lambda: "own"
        try:
            return breakpoint()
        finally:
            sys.breakpointhook = before

    assert ray.get(own.remote()) == "own"


@pytest.mark.parametrize("value", ["0", "os.getpid"])
def test_the_environments_choice(start, monkeypatch, value):
    monkeypatch.setenv("PYTHONBREAKPOINT", value)
    start(num_cpus=1)
    assert ray.get(ray.remote(stop).remote()) == "went on"


def test_a_debugger_with_an_input_of_its_own(start):
    start(num_cpus=1)

    @ray.remote
    def leave():
        import io
        import pdb

        pdb.Pdb(stdin=io.StringIO("quit\n"), stdout=io.StringIO()).set_trace()
        return os.getpid()

    with pytest.raises(ray.exceptions.RayTaskError) as info:
        ray.get(leave.remote())
    assert "BdbQuit" in str(info.value) and "terminal" not in str(info.value)
