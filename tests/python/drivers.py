"""Nodes of `ray start`, and programs of their own that use them.

A Driver is such a program: it calls functions of a test's module, one after the other, and sends
back what they return or raise. Run as a script, this file is that program.
"""

import contextlib
import os
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe

import support

RAY = os.path.join(os.path.dirname(sys.executable), "ray")
LIMIT = 60  # seconds for what one call of a driver, or one command, takes on a busy machine


def command(*args, env=None, timeout=LIMIT):
    """Runs the `ray` command; a subprocess.CompletedProcess. `env`: what differs; None: unset."""
    return subprocess.run(
        [RAY, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(env or {}),
    )


def environment(changes) -> dict:
    merged = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


@contextlib.contextmanager
def node(options=(), num_cpus=4, env=None):
    """A node for as long as the `with` lasts, at a port of its own; a sessions.Node."""
    from ray._private import redis_server, sessions

    result = command("start", "--head", "--port=0", f"--num-cpus={num_cpus}", *options, env=env)
    assert result.returncode == 0, result.stderr
    started = sessions.live_nodes()[0]
    try:
        yield started
    finally:
        if support.alive(started.pid):
            ended = command("stop", "--address", started.folder)
            assert ended.returncode == 0, ended.stderr
        else:
            redis_server.end_unused({started.cluster})


def on_node(node) -> list:
    """The processes of the node's jobs: without the daemon, and the one that it keeps to fork from."""
    return [
        pid for pid, title in support.processes() if pid != node.pid and "ray::mother" not in title
    ]


class Failed(AssertionError):
    """A driver's function raised something that can't be sent, or the driver died."""


class Driver:
    """A program that has joined a node, or any other program with `init=None`."""

    def __init__(self, folder, init={}, env=None):  # noqa: B006  (it is only read)
        self._pipe, theirs = Pipe()
        self._mark = f"MOBULA_TEST_DRIVER={os.urandom(8).hex()}"
        self.out = os.path.join(folder, f"driver-{os.urandom(4).hex()}.out")
        self.err = self.out[:-3] + "err"
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), support.run_folder()],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment({**(env or {}), **dict([self._mark.split("=")])}),
            )
        theirs.close()
        self.pid = self.process.pid
        if init is not None:
            self.call(join, init)

    def call(self, function, *args):
        """What the function returns there; raises what it raises."""
        self.begin(function, *args)
        return self.result()

    def begin(self, function, *args):
        self._pipe.send((function.__module__, function.__qualname__, args))

    def result(self):
        if not self._pipe.poll(LIMIT):
            raise Failed(f"the driver {self.pid} took longer than {LIMIT} s\n{self.told()}")
        try:
            good, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise Failed(f"the driver {self.pid} died\n{self.told()}") from None
        if not good:
            raise value
        return value

    def processes(self) -> list:
        """The living processes of its job, without itself."""
        found = []
        for pid, _ in support.processes():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self._mark.encode() in file.read() and pid != self.pid:
                        found.append(pid)
            except OSError:  # it has just ended
                continue
        return found

    def printed(self) -> str:
        with open(self.out) as file:
            return file.read()

    def told(self) -> str:
        with open(self.err) as file:
            return file.read()

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self._pipe.close()

    def end(self) -> int:
        """Ends it as a program ends; its exit status."""
        if not self._pipe.closed:
            self._pipe.close()
        try:
            return self.process.wait(LIMIT)
        finally:
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()


class Keeper:
    """What an actor of a test begins with."""

    def __init__(self, value=None):
        self.value = value

    def get(self):
        return self.value

    def put(self, value):
        self.value = value

    def pid(self):
        return os.getpid()


def join(options):
    """In a driver: joins the node; its job's id."""
    import ray

    ray.init(**{"address": "auto", **options})
    return ray.get_runtime_context().get_job_id()


def _sendable(error):
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
        return error
    except Exception:
        return Failed(f"{type(error).__name__}: {error}")


def _serve(pipe):
    from importlib import import_module

    while True:
        try:
            module, name, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = (True, getattr(import_module(module), name)(*args))
        except Exception as error:
            answer = (False, _sendable(error))
        pipe.send(answer)


if __name__ == "__main__":
    import drivers

    drivers._serve(Connection(int(sys.argv[1])))
