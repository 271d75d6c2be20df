"""However a driver ends, a second later there is nothing left of its session."""

import os
import signal
import subprocess
import sys
import time

import pytest
import support

import ray

HEAD = """
import ctypes, os, ray, signal, subprocess, sys, time
ray.init(num_cpus=3)
@ray.remote
def quick(): return os.getpid()
@ray.remote
def busy(): time.sleep(1000)
@ray.remote
def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(1000)
@ray.remote(num_cpus=0)
class Holder:
    def pid(self): return os.getpid()
    def child(self):
        self.process = subprocess.Popen(["sleep", "1000"])
        return self.process.pid
holder = Holder.remote()
ray.get([quick.remote(), holder.pid.remote()])
child = ray.get(holder.child.remote())
refs = [busy.remote(), deaf.remote(), busy.remote(), busy.remote()]
kept = ray.put(b"x" * 10_000_000)
time.sleep(0.1)
print(child, flush=True)
"""

ENDS = {
    "return": ("", 0),
    "shutdown": ("ray.shutdown()", 0),
    "exception": ("raise ValueError('end')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("os._exit(4)", 4),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(100)", -signal.SIGTERM),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(100)", -signal.SIGKILL),
    "SIGSEGV": ("ctypes.string_at(0)", -signal.SIGSEGV),
    "SIGHUP": ("os.kill(os.getpid(), signal.SIGHUP); time.sleep(100)", -signal.SIGHUP),
    "abort": ("os.abort()", -signal.SIGABRT),
    "exec": ("os.execv('/bin/true', ['true'])", 0),
    "blocked in get": ("signal.alarm(1); ray.get(refs[0])", -signal.SIGALRM),
}


def prepare():
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.mark.one_path("the daemon ends its children, whoever gave them their tasks")
@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_a_second_after_the_driver(folder, how):
    code, status = ENDS[how]
    result = support.run_driver(support.script(folder, HEAD + code), preexec_fn=prepare)
    ended, stalled = time.monotonic(), support.stalled()
    assert result.returncode == status, result.stderr
    child = int(result.stdout.split()[0])
    assert support.wait_until(lambda: not support.processes()), support.processes()
    assert support.wait_until(lambda: not support.alive(child))
    # What others took from us does not count.
    assert time.monotonic() - ended - (support.stalled() - stalled) < 1
    assert support.wait_until(lambda: not support.sessions())


@pytest.mark.one_path("the daemon ends its children, whoever gave them their tasks")
def test_a_driver_that_dies_in_the_middle_of_init(folder):
    path = support.script(folder, "import ray\nray.init(num_cpus=2)\nray.get([ray.put(1)])\n")
    for delay in (0.02, 0.05, 0.08, 0.11, 0.14):
        driver = subprocess.Popen([sys.executable, path], stderr=subprocess.DEVNULL)
        time.sleep(delay)
        driver.kill()
        driver.wait()
    assert support.wait_until(lambda: not support.processes()), support.processes()


def test_the_daemons_end_is_a_named_error_within_five_seconds(folder):
    code = """
import os, ray, signal, sys, threading, time
ray.init(num_cpus=2, _temp_dir=os.path.dirname(__file__))
@ray.remote
def busy(): time.sleep(1000)
@ray.remote
class A:
    def busy(self): time.sleep(1000)
refs = [busy.remote(), A.remote().busy.remote()]
time.sleep(0.2)
pid = ray._private.worker._core.session()["daemon_pid"]
threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
begin = time.monotonic()
calls = lambda: ray.get(refs), lambda: ray.wait(refs), lambda: ray.get(busy.remote()), ray.nodes
for call in calls:
    try:
        call()
        print("no error")
    except ray.exceptions.RayError as error:
        print(type(error).__name__ if "mobulad is gone" in str(error) and "ray.init" in str(error) else error)
    assert time.monotonic() - begin < 25
ray.shutdown()
ray.init(num_cpus=1, _temp_dir=os.path.dirname(__file__))
print(ray.get(ray.remote(abs).remote(-5), timeout=30))
"""
    result = support.run_driver(support.script(folder, code))
    assert "no error" not in result.stdout and result.stdout.split()[-1] == "5", (
        result.stdout,
        result.stderr,
    )
    assert len(result.stdout.split()) == 5
    assert support.wait_until(lambda: not support.processes()), support.processes()


def test_workers_end_with_a_killed_daemon(folder):
    code = """
import os, ray, signal, time
ray.init(num_cpus=2, _temp_dir=os.path.dirname(__file__))
@ray.remote
def busy(): time.sleep(1000)
refs = [busy.remote() for _ in range(3)]
time.sleep(0.3)
os.kill(ray._private.worker._core.session()["daemon_pid"], signal.SIGKILL)
time.sleep(1)
print([c for c in open("/proc/self/task/%d/children" % os.getpid()).read().split()])
os._exit(0)
"""
    result = support.run_driver(support.script(folder, code))
    assert result.returncode == 0, result.stderr
    assert support.wait_until(lambda: not support.processes()), support.processes()


def test_a_dead_zygote_is_replaced(start):
    start(num_cpus=2)

    @ray.remote(max_calls=1)
    def pid():
        return os.getpid()

    worker = ray.get(pid.remote())
    daemon = support.daemon_pid()
    zygotes = [p for p, _ in support.processes() if p not in (daemon, worker)]
    for zygote in zygotes:
        try:
            os.kill(zygote, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert len(set(ray.get([pid.remote() for _ in range(4)], timeout=40))) == 4


def test_two_drivers_at_once_do_not_meet(folder):
    path = support.script(
        folder,
        HEAD.replace("num_cpus=3", "num_cpus=4")
        + "time.sleep(0.5)\nprint(ray.get(quick.options(num_cpus=0).remote()))",
    )
    drivers = [support.start_driver(path) for _ in range(3)]
    for driver in drivers:
        _, err = driver.communicate(timeout=50)
        assert driver.returncode == 0, err
    assert support.wait_until(lambda: not support.processes()), support.processes()


def test_idle_workers_do_not_outnumber_the_cpus_for_long(start):
    start(num_cpus=2)

    @ray.remote
    def nested(depth):
        return os.getpid() if depth == 0 else ray.get(nested.remote(depth - 1))

    ray.get([nested.remote(6) for _ in range(2)], timeout=40)
    # the daemon, the zygotes, and some workers; those that stood in for blocked ones end when they
    # are idle
    assert support.wait_until(lambda: len(support.processes()) <= 8, 30), support.processes()
