"""The Redis that `ray start --head` starts for its cluster's control state.

It has a folder redis_PORT beside those of the sessions, with its configuration, its data and the
cluster's id. It outlives the head: a head that is started after the first one's death finds it
again, and so goes on with the same cluster. `ray stop` ends it with the cluster's last node.

The folder's lock belongs to a `ray start` until its daemon is there: nobody else takes or ends the
server meanwhile. The password comes from the cluster's token, so every node knows it; it is in the
configuration only, a file that no other user can read, and never among the arguments.
"""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import time

from ray._private import sessions

PROGRAMS = ("redis-server", "valkey-server")
_TRIES = 20  # ports that somebody else takes first
_START_LIMIT = 20.0  # seconds until it answers; it may have to read its file again
_END_LIMIT = 10.0


class RedisError(OSError):
    """Why there is no Redis to use."""


class RedisServer:
    """One that this user's `ray start` has started on this machine."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "about")) as file:
            self.host, port, self.cluster = file.read().split("\n")[:3]
        self.port = int(port)
        with open(os.path.join(folder, "password")) as file:
            self.password = file.read()

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"

    def pid(self) -> "int | None":
        """Of the server; None: it does not run."""
        try:
            with open(os.path.join(self.folder, "pid")) as file:
                pid = int(file.read())
            if os.path.samefile(f"/proc/{pid}/cwd", self.folder):
                return pid
        except (OSError, ValueError):
            pass
        return None

    def ask(self, *words) -> str:
        """The answer to one command; OSError if there is none, or an error."""
        with socket.create_connection((self.host, self.port), timeout=5) as link:
            link.sendall(_command("AUTH", self.password) + _command(*words))
            with link.makefile("rb") as answers:
                _answer(answers)
                return _answer(answers)

    def clients(self) -> int:
        """How many others are connected: each node is."""
        said = dict(
            line.split(":", 1) for line in self.ask("INFO", "clients").split("\r\n") if ":" in line
        )
        return int(said["connected_clients"]) - 1

    def run(self, program):
        """Starts it, unless it runs; returns when it answers."""
        if self.pid() is None:
            configuration = os.path.join(self.folder, "redis.conf")
            done = subprocess.run(
                [program, configuration],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                cwd=self.folder,
            )
            if done.returncode != 0:
                raise RedisError(f"{program} could not be started: {done.stderr or done.stdout}")
        end = time.monotonic() + _START_LIMIT
        while True:
            try:
                self.ask("PING")
                return
            except OSError as error:
                if self.pid() is None and time.monotonic() > end - _START_LIMIT + 1:
                    raise RedisError(f"{program} ended at once: {self._last_words()}") from None
                if time.monotonic() > end:
                    raise RedisError(
                        f"{program} at {self.address} does not answer: {error}"
                    ) from None
            time.sleep(0.02)

    def kill(self, number=signal.SIGKILL, patience=_END_LIMIT):
        """Ends the process, by SIGKILL where another signal does not do in that many seconds."""
        pid = self.pid()
        if pid is None:
            return
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            if self.pid() != pid:
                return
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, number)
                if not select.select([process], [], [], patience)[0]:
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    select.select([process], [], [], patience)
        finally:
            os.close(process)

    def end(self):
        """Ends it, and removes its folder: the cluster is over."""
        self.kill(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(self.folder))

    def _last_words(self):
        try:
            with open(os.path.join(self.folder, "log"), errors="replace") as file:
                return " ".join(file.read().split("\n")[-4:]).strip() or "its log is empty"
        except OSError:
            return "it has left no log"


def program() -> "str | None":
    """The server that is on PATH; None: none is."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def servers() -> list:
    """Those of this user here, running or not."""
    found = []
    for folder in sorted(sessions.folders("redis_")):
        with contextlib.suppress(OSError, ValueError):  # one that is being made, or removed
            found.append(RedisServer(folder))
    return found


def of_cluster(cluster) -> "RedisServer | None":
    """The one that was started here for this cluster."""
    return next((server for server in servers() if cluster and server.cluster == cluster), None)


@contextlib.contextmanager
def for_head(host, port, password):
    """The Redis of a cluster whose head is about to be started at this address: (server, whether it
    was found again), or (None, False) if no program for one is on PATH. A new one ends where the
    block raises.
    """
    path = program()
    with contextlib.ExitStack() as locks:
        server = _left_behind(host, port, password, locks)
        if server is not None and path is not None:
            server.run(path)
            yield server, True
        elif path is None:
            yield None, False
        else:
            server = _new(path, host, port, password, locks)
            try:
                yield server, False
            except BaseException:
                server.end()
                raise


def end_unused(clusters=None, force=False) -> "tuple[int, list]":
    """Ends servers that no node uses any more: of these clusters, or all. With `force` also those
    that nodes of other machines use. How many ended, and words about those that were left.
    """
    ended, left = 0, []
    for server in servers():
        if clusters is not None and server.cluster not in clusters:
            continue
        with contextlib.ExitStack() as locks:
            if not _locked(server.folder, locks) or _has_nodes_here(server):
                continue
            words = None if force else _why_used(server)
            if words is None:
                ended += server.pid() is not None
                server.end()
            else:
                left.append(words)
    return ended, left


def _why_used(server):
    if server.pid() is None:
        return None
    try:
        count = server.clients()
    except OSError as error:
        return f"Redis at {server.address} does not answer ({error}): --force ends it"
    if count == 0:
        return None
    return (
        f"Redis at {server.address} stays: {count} connections of other nodes of its cluster are "
        "open. `ray stop --force` ends it"
    )


def _left_behind(host, port, password, locks):
    """One whose head has died, and that no node here uses."""
    for server in servers():
        fits = server.host == host and server.password == password and port in (0, server.port)
        if fits and not _has_nodes_here(server):
            with contextlib.ExitStack() as lock:
                # another `ray start` may have had it until now, and its node is here
                if _locked(server.folder, lock) and not _has_nodes_here(server):
                    locks.push(lock.pop_all())
                    return server
    return None


def _has_nodes_here(server) -> bool:
    return any(node.cluster == server.cluster for node in sessions.live_nodes())


def _new(path, host, port, password, locks):
    for attempt in range(_TRIES):
        server = _prepared(host, port or _free_port(host), password, locks)
        if server is None:  # another one has its folder
            if port:
                raise RedisError(f"another Redis of this user has the port {port}")
            continue
        try:
            server.run(path)
            return server
        except OSError as error:
            server.end()
            if port or attempt == _TRIES - 1 or "bind" not in str(error).lower():
                raise
    raise RedisError(f"no port of {host} is free for Redis")


def _prepared(host, port, password, locks):
    folder = os.path.join(sessions.parent_folder(), f"redis_{port}")
    while True:
        os.makedirs(sessions.parent_folder(), mode=0o700, exist_ok=True)
        try:
            os.mkdir(folder, 0o700)
            break
        except FileExistsError:
            return None
        except FileNotFoundError:  # a session that ended has removed the folder above it
            continue
    if not _locked(folder, locks):
        return None
    _write(folder, "redis.conf", _configuration(folder, host, port, password))
    _write(folder, "password", password)
    _write(folder, "about", f"{host}\n{port}\n{os.urandom(16).hex()}\n")
    return RedisServer(folder)


def _configuration(folder, host, port, password):
    """Every write is on the disk before it is answered: who is dead is never forgotten."""
    quoted = folder.replace("\\", "\\\\").replace('"', '\\"')
    return f"""bind {host}
port {port}
requirepass {password}
dir "{quoted}"
daemonize yes
pidfile "{quoted}/pid"
logfile "{quoted}/log"
appendonly yes
appendfsync always
save ""
maxmemory-policy noeviction
tcp-keepalive 30
"""


def _write(folder, name, text):
    fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "w") as file:
        file.write(text)


def _free_port(host):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def _locked(folder, locks) -> bool:
    """Takes the folder's lock, until `locks` ends."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    locks.callback(os.close, fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.lstat(folder))
    except OSError:
        return False


def _command(*words) -> bytes:
    parts = [word.encode() for word in words]
    return b"".join([b"*%d\r\n" % len(parts), *[b"$%d\r\n%s\r\n" % (len(p), p) for p in parts]])


def _answer(file) -> str:
    line = file.readline().decode(errors="replace").rstrip()
    if not line:
        raise RedisError("it closed the connection")
    if line[0] == "-":
        raise RedisError(line[1:])
    if line[0] == "$":
        return file.read(int(line[1:]) + 2)[:-2].decode(errors="replace")
    return line[1:]
