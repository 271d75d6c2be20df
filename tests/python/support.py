"""What the tests share. Tasks may name these functions too, so nothing here imports pytest."""

import os
import signal
import sys
import time

import ray


@ray.remote
def echo(x):
    return x


@ray.remote
class Counter:
    def __init__(self):
        self.value = 0

    def add(self, n=1):
        self.value += n
        return self.value


def run_folder() -> str:
    """The folder of this run: sessions live in it, and every process of ours has it in its command
    line, or in the environment that it was started with.
    """
    return os.environ["MOBULA_TEST_RUN"]


def processes() -> list:
    """(pid, command line) of every living process that this run has started: daemons, zygotes,
    workers, drivers.
    """
    mark = run_folder().encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read()
            # zygotes and workers have titles instead
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = mark in command or (command.startswith(b"ray::") and mark in file.read())
        except OSError:  # it has just ended, or is somebody else's
            continue
        if ours and alive(int(name)):
            found.append((int(name), command.replace(b"\0", b" ").decode(errors="replace")))
    return found


def strangers() -> set:
    """Those of them that are neither this session's daemon nor its children, which come and go."""
    daemon = daemon_pid()
    found = set()
    for pid, _ in processes():
        try:
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        if daemon not in (pid, parent):
            found.add(pid)
    return found


def sessions() -> list:
    """The folders of sessions that are there, and what leads to some."""
    return [name for name in _in_user_folder() if not name.startswith("redis_")]


def redis_folders() -> list:
    """Those of the Redis servers of clusters: they outlive a head that is killed."""
    return [name for name in _in_user_folder() if name.startswith("redis_")]


def _in_user_folder():
    try:
        return os.listdir(os.path.join(run_folder(), f"mobula-{os.geteuid()}"))
    except FileNotFoundError:
        return []


def redis_processes() -> list:
    """The process ids of these servers."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd").startswith(run_folder()):
                with open(f"/proc/{name}/comm") as file:
                    if file.read().startswith(("redis-server", "valkey-server")):
                        found.append(int(name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return found


def has_redis() -> bool:
    """Whether a cluster of several nodes can be made on this machine."""
    from ray._private import redis_server

    return redis_server.program() is not None


def state(pid: int) -> str:
    """One letter, as ps shows it; none for a process or thread that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether this process exists and is no zombie."""
    return state(pid) not in ("", "Z", "X")


def kill_both(driver, daemon: int):
    """Ends a driver (a Popen) and its daemon so that neither can clear up after the other."""
    os.kill(driver.pid, signal.SIGSTOP)
    assert wait_until(
        lambda: all(state(int(task)) == "T" for task in os.listdir(f"/proc/{driver.pid}/task"))
    )
    os.kill(daemon, signal.SIGKILL)
    assert wait_until(lambda: not alive(daemon))  # dying takes time, and its lock goes last
    driver.kill()
    driver.wait()


def sanitized() -> bool:
    """Whether this runs under `make sanitize`."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def skip_if_sanitized():
    import pytest

    if sanitized():
        pytest.skip(
            "the address sanitizer keeps memory that was freed: what a process has says nothing"
        )


def wait_until(condition, seconds=20.0) -> bool:
    """Whether the condition comes true in that time; generous, because the machine may be busy."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def switches(pids) -> dict:
    """How often each thread of these processes went to sleep: by (process, thread)."""
    found = {}
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/status") as file:
                    line = next(line for line in file if line.startswith("voluntary_ctxt_switches"))
                found[pid, int(thread)] = int(line.split()[1])
        except OSError:  # it has just ended
            continue
    return found


def is_quiet(look, seconds, patience=40.0) -> bool:
    """Whether what `look` returns stays the same for so long. That time begins when whatever is
    still in hand is done, which may take a while on a busy machine.
    """
    end = time.monotonic() + patience
    last, since = look(), time.monotonic()
    while time.monotonic() < end:
        time.sleep(0.1)
        seen = look()
        if seen != last:
            last, since = seen, time.monotonic()
        elif time.monotonic() - since >= seconds:
            return True
    return False


def stalled() -> float:
    """For how many seconds, since the machine began, somebody has waited for a CPU, the disk or
    memory: what takes longer while this grows is not to blame for it. The kernel counts these
    times one by one, so the sum may be more than has passed.
    """
    total = 0
    for name in ("cpu", "io", "memory"):
        try:
            with open(f"/proc/pressure/{name}") as file:
                total += int(file.readline().rpartition("=")[2])
        except OSError:  # a kernel that does not count them
            return time.monotonic()
    return total / 1e6


def meet(folder, name, count):
    """In a task: goes on when so many have come. Whoever leaves them waiting fails them."""
    touch(os.path.join(folder, f"{name}-{time.monotonic_ns()}-{os.getpid()}"))
    here = lambda: sum(found.startswith(f"{name}-") for found in os.listdir(folder))  # noqa: E731
    if not wait_until(lambda: here() >= count, 40):
        raise TimeoutError(f"{here()} of {count} came")


def touch(path):
    with open(path, "w"):
        pass


def wait_for_file(path, seconds=40.0):
    """Holds a task until the test makes the file."""
    if not wait_until(lambda: os.path.exists(path), seconds):
        raise TimeoutError(f"nobody made {path}")


def store_free() -> int:
    return int(ray.available_resources().get("object_store_memory", 0))


def store_free_settled() -> int:
    """store_free, once what earlier tests let go has been given back."""
    last, since = store_free(), time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.02)
        if store_free() != last:
            last, since = store_free(), time.monotonic()
    return last


def daemon_pid() -> int:
    return ray._private.worker._core.session()["daemon_pid"]


class Tracked:
    """Something that is counted as long as it lives in this process."""

    alive = 0

    def __init__(self):
        type(self).alive += 1

    def __del__(self):
        type(self).alive -= 1


def end(how):
    """Ends this process, in one of the ways of a crash."""
    import ctypes
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if how == "exit":
        os._exit(17)
    if how == "exit 0":
        os._exit(0)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100)


def script(folder, code: str, name="driver.py") -> str:
    """A driver's script in a folder of this run."""
    path = os.path.join(str(folder), name)
    with open(path, "w") as file:
        file.write(code)
    return path


def start_driver(path, *args, **options):
    """A driver of its own as a subprocess.Popen, with its output in pipes."""
    import subprocess

    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([sys.executable, str(path), *map(str, args)], text=True, **options)


def run_driver(path, *args, timeout=100, **options):
    """Runs a driver to its end; a subprocess.CompletedProcess."""
    import subprocess

    driver = start_driver(path, *args, **options)
    try:
        out, err = driver.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        driver.send_signal(signal.SIGKILL)
        out, err = driver.communicate()
        raise AssertionError(
            f"the driver hung\n--- its output:\n{out}\n--- its errors:\n{err}"
        ) from None
    return subprocess.CompletedProcess(driver.args, driver.returncode, out, err)


def hello(role, token=0, magic=0x4D4F4255, kind=1, version=2):
    """The first packet on the daemon's socket (src/wire/message.h)."""
    import struct

    release = ray.__version__.split("mobula.")[1].encode()
    return struct.pack("<IIIIQ40s", magic, kind, version, role, token, release)


def setup_descriptor():
    """The smallest setup of a job (src/wire/setup.h), as a sealed memfd: it has no workers."""
    import fcntl
    import struct

    text = b"\0" * 3
    fd = os.memfd_create("test-setup", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, struct.pack("<IIIIIIQ", 0x4D4F424A, 1, 0, 0, 0, len(text), 0) + text)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd
