"""Hosts of a cluster on one machine: network namespaces on one bridge, as root, with cuts between
them. A host's processes see its own network only; files are everybody's.
"""

import os
import shutil
import subprocess
import sys

import drivers

from ray._private import sessions

_START = (
    "import sys; del sys.path[0]; from ray.scripts import start; "
    "sys.exit(start.main(sys.argv[1:], lambda node, part: print(node.folder)))"
)


def why_not() -> "str | None":
    """Why there can be none; None: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no program ip (Debian's package iproute2)"
    probe = f"mobula-{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return "this machine lets nobody make network namespaces"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


class Host:
    """One of them: `address` is its own. Its sessions have a folder of their own, too."""

    def __init__(self, space, address, folder):
        self.space = space
        self.address = address
        self.folder = folder
        self.env = {"RAY_TMPDIR": folder}
        os.mkdir(folder)

    def command(self, *words) -> list:
        return ["ip", "netns", "exec", self.space, *words]

    def run(self, *words, **env):
        """Runs a program there, to its end."""
        return subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=drivers.LIMIT,
            env=drivers.environment({**self.env, **env}),
        )

    def start(self, *options, **env) -> sessions.Node:
        """`ray start` there."""
        options = (*options, f"--node-ip-address={self.address}", "--num-cpus=2")
        done = self.run(sys.executable, "-c", _START, *options, **env)
        assert done.returncode == 0, done.stderr
        return sessions.Node(done.stdout.strip().split("\n")[-1])


class Hosts:
    """So many, in a network of their own. Ends the namespaces; the processes are the test's."""

    def __init__(self, count, folder):
        self._mark = f"mobula-{os.getpid()}"
        self._hub = f"{self._mark}-hub"
        self.all = []
        _ip("netns", "add", self._hub)
        try:
            _ip("-n", self._hub, "link", "add", "name", "bridge", "type", "bridge")
            _ip("-n", self._hub, "link", "set", "bridge", "up")
            for i in range(count):
                self.all.append(self._add(i, folder))
        except BaseException:
            self.end()
            raise

    def _add(self, i, folder) -> Host:
        host = Host(f"{self._mark}-{i}", f"10.77.0.{i + 1}", f"{folder}/host-{i}")
        _ip("netns", "add", host.space)
        _ip("-n", host.space, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}",
            "netns", self._hub)  # fmt: skip
        _ip("-n", host.space, "addr", "add", f"{host.address}/24", "dev", "eth0")
        for name in ("lo", "eth0"):
            _ip("-n", host.space, "link", "set", name, "up")
        _ip("-n", self._hub, "link", "set", f"port{i}", "master", "bridge", "up")
        return host

    def cut(self, some, others):
        """Nothing passes any more between these and those, in either direction."""
        self._routes("add", some, others)

    def heal(self, some, others):
        self._routes("del", some, others)

    def _routes(self, what, some, others):
        for one in some:
            for other in others:
                for here, there in ((one, other), (other, one)):
                    _ip("-n", here.space, "route", what, "blackhole", f"{there.address}/32")

    def end(self):
        for space in [*(host.space for host in self.all), self._hub]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
