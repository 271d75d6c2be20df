"""How workers and actors end: as Python programs do, in a limited time."""

import os
import signal
import subprocess
import sys
import time

import pytest
import support

import ray

LINES = "line\n" * 100


def written(path) -> int:
    with open(path) as file:
        return file.read().count("line\n")


class Keeper:
    """Holds an open file, and notes its own end and that of its process."""

    def __init__(self, path):
        import atexit

        self.path = path
        self.file = open(path, "w")
        atexit.register(support.touch, f"{path}.atexit")

    def write(self):
        self.file.write(LINES)
        return os.getpid()

    def leave(self):
        ray.actor.exit_actor()

    def __del__(self):
        support.touch(f"{self.path}.del")


class AsyncKeeper(Keeper):
    async def write(self):
        import asyncio

        self.task = asyncio.create_task(self.go_on())
        await asyncio.sleep(0)
        return super().write()

    async def go_on(self):
        import asyncio

        try:
            await asyncio.sleep(1000)
        finally:
            support.touch(f"{self.path}.cancelled")

    async def leave(self):
        ray.actor.exit_actor()


KINDS = {
    "plain": (Keeper, {}),
    "threads": (Keeper, {"max_concurrency": 3}),
    "async": (AsyncKeeper, {}),
}


def gone(pid):
    assert support.wait_until(lambda: not support.alive(pid), 30)


@pytest.mark.parametrize("way", ["the last handle", "exit_actor", "shutdown"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_actors_end_loses_nothing(start, folder, kind, way):
    start(num_cpus=2)
    cls, options = KINDS[kind]
    path = f"{folder}/file"
    keeper = ray.remote(num_cpus=1, **options)(cls).remote(path)
    pid = ray.get(keeper.write.remote())
    if way == "exit_actor":
        keeper.leave.remote()
        gone(pid)
    elif way == "the last handle":
        del keeper
        gone(pid)
    else:
        ray.shutdown()
        assert not support.alive(pid)
    assert written(path) == 100
    assert os.path.exists(f"{path}.atexit") and os.path.exists(f"{path}.del")
    assert os.path.exists(f"{path}.cancelled") == (kind == "async")


@pytest.mark.parametrize("way", ["max_calls", "shutdown"])
def test_files_that_modules_and_functions_hold(start, folder, way):
    code = f"""
class Last:
    def __del__(self, touch=open):
        touch({folder + "/last"!r}, "w").close()
last = Last()
"""
    support.script(folder, code, "holder_of_files.py")

    @ray.remote(max_calls=1 if way == "max_calls" else 0)
    def hold():
        import gzip
        import json

        sys.path.append(folder)
        import holder_of_files

        global held
        held = open(f"{folder}/global", "w")
        held.write(LINES)
        holder_of_files.held = open(f"{folder}/module", "w")
        holder_of_files.held.write(LINES)
        holder_of_files.zipped = gzip.open(f"{folder}/zipped", "wt")
        holder_of_files.zipped.write(LINES)
        # in a module that every worker has
        json.held = open(f"{folder}/inherited", "w")
        json.held.write(LINES)
        json.holder = holder_of_files
        return os.getpid()

    start(num_cpus=1)
    pid = ray.get(hold.remote())
    if way == "shutdown":
        ray.shutdown()
    gone(pid)
    import gzip

    assert [written(f"{folder}/{name}") for name in ("global", "module", "inherited")] == [100] * 3
    with gzip.open(f"{folder}/zipped", "rt") as file:
        assert file.read() == LINES
    assert os.path.exists(f"{folder}/last")


def test_a_worker_that_is_sent_home_loses_nothing(start, folder):
    start(num_cpus=1)

    @ray.remote
    def nested(depth):
        # its CPU is lent meanwhile; the workers that stand in for it are too many afterwards
        global held
        held = open(f"{folder}/{os.getpid()}", "w")
        held.write(LINES)
        return [os.getpid()] + (ray.get(nested.remote(depth - 1)) if depth > 0 else [])

    pids = ray.get(nested.remote(4), timeout=40)
    assert support.wait_until(lambda: sum(map(support.alive, pids)) < len(pids), 30)
    for pid in pids:
        if not support.alive(pid):
            assert written(f"{folder}/{pid}") == 100


def test_threads_are_given_a_moment(start, folder):
    start(num_cpus=2)

    @ray.remote
    class Threaded(Keeper):
        def begin(self, endless):
            import threading

            def work():
                while endless:
                    time.sleep(0.01)
                time.sleep(0.2)
                support.touch(f"{folder}/worked")

            threading.Thread(target=work).start()

    patient, other = Threaded.remote(f"{folder}/a"), Threaded.remote(f"{folder}/b")
    pids = ray.get([patient.write.remote(), other.write.remote()])
    ray.get([patient.begin.remote(False), other.begin.remote(True)])
    del patient, other
    for pid in pids:
        gone(pid)
    assert os.path.exists(f"{folder}/worked")
    for name in "ab":  # the one whose thread never ends too
        assert written(f"{folder}/{name}") == 100 and os.path.exists(f"{folder}/{name}.atexit")


def test_what_runs_when_the_session_ends_is_broken_off_in_order(start, folder):
    start(num_cpus=3)

    def work(name):
        with open(f"{folder}/{name}", "w") as file:
            file.write(LINES)
            support.touch(f"{folder}/{name}.begun")
            try:
                time.sleep(1000)
            finally:
                support.touch(f"{folder}/{name}.finally")

    class Actor:
        def work(self, name):
            work(name)

    class Async:
        async def work(self, name):
            import asyncio

            self.file = open(f"{folder}/{name}", "w")
            self.file.write(LINES)
            support.touch(f"{folder}/{name}.begun")
            try:
                await asyncio.sleep(1000)
            finally:
                support.touch(f"{folder}/{name}.finally")

    class Reader:
        def work(self, name, refs):
            with open(f"{folder}/{name}", "w") as file:
                file.write(LINES)
                support.touch(f"{folder}/{name}.begun")
                try:
                    ray.get(refs)
                finally:
                    support.touch(f"{folder}/{name}.finally")

    actors = [ray.remote(cls).remote() for cls in (Actor, Async, Reader)]
    task = ray.remote(work).remote("task")
    refs = [actors[0].work.remote("actor"), actors[1].work.remote("async")]
    refs.append(actors[2].work.remote("reader", [task]))
    names = ("task", "actor", "async", "reader")
    for name in names:
        support.wait_for_file(f"{folder}/{name}.begun")
    ray.shutdown()
    for name in names:
        assert written(f"{folder}/{name}") == 100, name
        assert os.path.exists(f"{folder}/{name}.finally"), name


HANGS = """
import atexit, os, ray, signal, sys, time
ray.init(num_cpus=2)
@ray.remote
class Hanging:
    def begin(self):
        def hang():
            open({mark!r}, "w").close()
            time.sleep(1000)
        atexit.register(hang)
        return os.getpid()
@ray.remote
def echo(x):
    return x
hanging = Hanging.remote()
pid = ray.get(hanging.begin.remote())
print(pid, flush=True)
"""


def test_an_end_that_hangs_is_told_and_killed(folder):
    code = (
        HANGS.format(mark=f"{folder}/hangs")
        + """
del hanging
end = time.monotonic() + 30
while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
    time.sleep(0.01)
assert not os.path.exists(f"/proc/{pid}")
print(ray.get(echo.remote(5)))
"""
    )
    environ = {**os.environ, "RAY_actor_graceful_shutdown_timeout_ms": "300"}
    result = support.run_driver(support.script(folder, code), env=environ)
    pid, echoed = result.stdout.split()
    assert result.returncode == 0 and echoed == "5", result.stderr
    assert f"The actor Hanging (pid={pid}) had not ended 0.3 s" in result.stderr
    assert "RAY_actor_graceful_shutdown_timeout_ms" in result.stderr


@pytest.mark.parametrize("way", ["shutdown", "exit"])
def test_a_session_ends_though_an_actor_does_not(folder, way):
    code = HANGS.format(mark=f"{folder}/hangs") + ("ray.shutdown()" if way == "shutdown" else "")
    result = support.run_driver(support.script(folder, code))
    assert result.returncode == 0
    pid = result.stdout.split()[0]
    assert f"The actor Hanging (pid={pid}) had not ended 1 s" in result.stderr, result.stderr
    assert support.wait_until(lambda: not support.processes(), 5)


def test_a_task_that_can_not_be_broken_off(folder):
    code = """
import os, ray, time
ray.init(num_cpus=1)
@ray.remote
def stubborn():
    open({mark!r}, "w").close()
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass
ref = stubborn.remote()
while not os.path.exists({mark!r}):
    time.sleep(0.01)
"""
    result = support.run_driver(support.script(folder, code.format(mark=f"{folder}/begun")))
    assert result.returncode == 0
    assert "The task stubborn (pid=" in result.stderr, result.stderr
    assert support.wait_until(lambda: not support.processes(), 5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_driver_that_is_interrupted_while_it_ends(folder, number):
    """Nobody waits for the workers any more, and nothing is left of them."""
    path = support.script(folder, HANGS.format(mark=f"{folder}/hangs"))
    driver = support.start_driver(path)
    try:
        support.wait_for_file(f"{folder}/hangs")
        driver.send_signal(number)
        driver.communicate(timeout=30)
    finally:
        driver.kill()
    assert support.wait_until(lambda: not support.processes(), 5)


def test_a_killed_drivers_actors_lose_nothing(folder):
    code = f"""
import os, ray, signal, sys
sys.path[:0] = {sys.path!r}
from test_ends import Keeper
ray.init(num_cpus=2)
keeper = ray.remote(Keeper).remote({folder + "/file"!r})
ray.get(keeper.write.remote())
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = support.run_driver(support.script(folder, code))
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert support.wait_until(lambda: not support.processes(), 5)
    assert written(f"{folder}/file") == 100


def test_what_is_printed_at_the_end_arrives(folder):
    code = """
import atexit, ray
ray.init(num_cpus=1)
@ray.remote
class Speaker:
    def __init__(self):
        atexit.register(print, "from an exit function")
    def __del__(self):
        print("from a destructor")
speaker = Speaker.remote()
ray.get(speaker.__ray_ready__.remote())
"""
    result = support.run_driver(support.script(folder, code))
    assert "from an exit function" in result.stdout and "from a destructor" in result.stdout


def test_a_forked_childs_end_does_not_write_its_parents_files(start, folder):
    start(num_cpus=1)

    @ray.remote
    class Forker(Keeper):
        def fork(self):
            pid = os.fork()
            if pid == 0:
                return  # it ends here
            return os.waitpid(pid, 0)[1]

    forker = Forker.remote(f"{folder}/file")
    ray.get(forker.write.remote())
    assert ray.get(forker.fork.remote()) == 0
    ray.shutdown()
    assert written(f"{folder}/file") == 100


def test_a_file_that_can_not_be_written_is_told(folder):
    code = """
import ray
ray.init(num_cpus=1)
@ray.remote
def hold():
    global held
    held = open("/dev/full", "w")
    held.write("line")
ray.get(hold.remote())
"""
    result = support.run_driver(support.script(folder, code))
    assert "/dev/full" in result.stderr and "No space left on device" in result.stderr


def test_an_interpreter_that_starts_a_thread_by_itself(folder):
    """It can't be forked, and neither could the next: that is told, and nobody waits."""
    with open(f"{folder}/sitecustomize.py", "w") as file:
        file.write("import threading, time\n")
        file.write("threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n")
    code = """
import ray
ray.init(num_cpus=1)
@ray.remote
def f(): return 1
try:
    ray.get(f.remote(), timeout=40)
except ray.exceptions.RaySystemError as error:
    print("sitecustomize" in str(error))
"""
    env = {**os.environ, "PYTHONPATH": folder}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=env)
    assert done.stdout == "True\n", done.stderr
