"""Clusters of several nodes on this machine, for tests."""

import atexit
import json
import os
import signal
import subprocess
import sys
import time

from ray import _core
from ray._private import leftovers, redis_server, roster, services, sessions, system_config

__all__ = ["Cluster"]

_STORE = 150 << 20
_START_LIMIT = 120
# What Ray's tests give its nodes, and what there is nothing to do for here.
_NOTHING_TO_DO = frozenset(
    "dashboard_host dashboard_port include_dashboard include_log_monitor max_worker_port "
    "min_worker_port node_manager_port object_manager_port raylet_socket_name "
    "plasma_store_socket_name".split()
)
_PATH = "import sys; del sys.path[0]; sys.path.insert(0, sys.argv[1]); "
_START = _PATH + (
    "from ray.scripts import start; "
    "sys.exit(start.main(sys.argv[2:], lambda node, part: print(node.folder)))"
)
_START_WATCHED = _PATH + (
    "from ray._private import leftovers; "
    "sys.exit(leftovers.start(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))"
)
_WATCH = (
    "import runpy, sys; del sys.path[0]; file = sys.argv.pop(1); "
    "runpy.run_path(file, run_name='__main__')"
)


class Process:
    """A process of a node, as subprocess.Popen is asked about one."""

    def __init__(self, pid):
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def poll(self) -> "int | None":
        """None while it runs."""
        import select

        if self._fd is not None and select.select([self._fd], [], [], 0)[0]:
            os.close(self._fd)
            self._fd = None
        return None if self._fd is not None else 0

    def wait(self, timeout=None):
        """Returns when it has ended; subprocess.TimeoutExpired."""
        import select

        if self._fd is not None and not select.select([self._fd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        self.poll()

    def send_signal(self, number):
        """Sends a signal; nothing if it has ended."""
        if self.poll() is None:
            try:
                signal.pidfd_send_signal(self._fd, number)
            except ProcessLookupError:
                pass

    def __repr__(self):
        return f"<process {self.pid}{'' if self.poll() is None else ', ended'}>"


class ProcessInfo:
    """What a node's `all_processes` has: `process`."""

    def __init__(self, process):
        self.process = process


class ClusterNode:
    """A node of a Cluster: its daemon, and the head's Redis.

    node = cluster.add_node(num_cpus=2)
    node.kill_raylet()                      # kill -9 of its daemon
    """

    def __init__(self, folder, gcs_address):
        self._node = sessions.Node(folder)
        self._gcs_address = gcs_address or self._node.address
        self.head = gcs_address is None
        self._redis = redis_server.of_cluster(self._node.cluster) if self.head else None
        self.all_processes = {"raylet": [ProcessInfo(Process(self._node.pid))]}
        if self._redis is not None:
            self._note_redis()

    def __repr__(self):
        return f"<node {self.node_id} at {self.address}{', the head' if self.head else ''}>"

    @property
    def node_id(self) -> str:
        """Its id, as `ray.nodes()` shows it."""
        return self._node.node_id

    unique_id = node_id

    @property
    def node_name(self) -> str:
        """Its name."""
        return self._node.name

    @property
    def node_ip_address(self) -> str:
        """Its address, without the port."""
        return self._node.ip

    @property
    def address(self) -> str:
        """Of the head: where nodes and drivers join."""
        return self._gcs_address

    gcs_address = address

    @property
    def redis_address(self) -> "str | None":
        """Of the cluster's Redis, if this node has it."""
        return None if self._redis is None else self._redis.address

    @property
    def session_name(self) -> str:
        """That of its session's folder."""
        return os.path.basename(self._node.folder)

    @property
    def raylet_socket_name(self) -> str:
        """The socket that its drivers and workers connect to."""
        return self._node.socket

    plasma_store_socket_name = _raylet_socket_name = raylet_socket_name

    def get_session_dir_path(self) -> str:
        """The folder of its session."""
        return self._node.folder

    def get_logs_dir_path(self) -> str:
        """The folder with the logs of its session."""
        return os.path.join(self._node.folder, "logs")

    def is_head(self) -> bool:
        """Whether it was the first."""
        return self.head

    def kill_raylet(self, check_alive=True):
        """Kills its daemon, and with it all workers there, at once."""
        (raylet,) = self.all_processes["raylet"]
        self._refuse_dead(check_alive, "raylet")
        raylet.process.send_signal(signal.SIGKILL)
        raylet.process.wait(_START_LIMIT)

    def kill_gcs_server(self, check_alive=True):
        """Kills the cluster's Redis. Its data stays, for start_gcs_server."""
        self._refuse_dead(check_alive, "gcs_server")
        self._redis.kill()
        self.all_processes["gcs_server"][0].process.wait(_START_LIMIT)

    def start_gcs_server(self):
        """Starts the Redis that was killed again, with what it had on disk."""
        if self._redis is None:
            raise ValueError("this node has not started the cluster's Redis")
        self._redis.run(redis_server.program())
        self._note_redis()

    def kill_all_processes(self, check_alive=True, allow_graceful=False, wait=True):
        """Ends the node: with `allow_graceful` as `ray stop` does, else at once."""
        (raylet,) = self.all_processes["raylet"]
        self._refuse_dead(check_alive, "raylet")
        raylet.process.send_signal(signal.SIGTERM if allow_graceful else signal.SIGKILL)
        try:
            raylet.process.wait(30)
        except subprocess.TimeoutExpired:
            raylet.process.send_signal(signal.SIGKILL)
            raylet.process.wait(30)
        sessions.forget_dead()
        if self._redis is not None:
            self._redis.end()
            self.all_processes["gcs_server"][0].process.wait(30)

    def live_processes(self) -> list:
        """(kind, process) of those that run."""
        return self._processes(lambda process: process.poll() is None)

    def dead_processes(self) -> list:
        """(kind, process) of those that have ended."""
        return self._processes(lambda process: process.poll() is not None)

    def any_processes_alive(self) -> bool:
        """Whether one of them runs."""
        return bool(self.live_processes())

    def remaining_processes_alive(self) -> bool:
        """Whether all of them run."""
        return not self.dead_processes()

    def destroy_external_storage(self):
        """Nothing: what was spilled goes with the node."""

    def _processes(self, wanted):
        return [
            (kind, info.process)
            for kind, infos in self.all_processes.items()
            for info in infos
            if wanted(info.process)
        ]

    def _note_redis(self):
        self.all_processes["gcs_server"] = [ProcessInfo(Process(self._redis.pid()))]

    def _refuse_dead(self, check_alive, kind):
        if kind not in self.all_processes:
            raise ValueError(f"this node has no {kind}: {self.all_processes.keys()}")
        if check_alive and self.all_processes[kind][0].process.poll() is not None:
            raise RuntimeError(f"the {kind} of the node {self.node_id} has ended already")


class Cluster:
    """Several nodes on this machine, which need no root and no network, as if each were a machine of
    its own. Needs redis-server or valkey-server. Has a token of its own: no other node can join.

        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        worker = cluster.add_node(num_cpus=4, resources={"special": 1})
        cluster.connect()                       # ray.init(address=cluster.address)
        cluster.remove_node(worker, allow_graceful=False)      # kill -9
        ray.shutdown()
        cluster.shutdown()

    Args:
        initialize_head: whether the head is started at once; else it is the first that is added.
        connect: whether this program joins the head at once.
        head_node_args: what the head has: see add_node.
        shutdown_at_exit: whether the nodes end with this program, however it ends.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: "dict | None" = None,
        shutdown_at_exit: bool = True,
    ):
        if head_node_args and not initialize_head:
            raise ValueError("head_node_args are for initialize_head=True")
        if connect and not initialize_head:
            raise RuntimeError("a program can connect only to a head: initialize_head=True")
        self.head_node = None
        self.worker_nodes = set()
        self.connected = False
        self.redis_address = None
        self._token = os.urandom(32).hex()
        self._token_before = None
        self._pid = os.getpid()
        self._watcher = None
        self._is_watched = shutdown_at_exit
        if shutdown_at_exit:
            atexit.register(self._at_exit)
        if initialize_head:
            self.add_node(**(head_node_args or {}))
        if connect:
            self.connect()

    @property
    def address(self) -> "str | None":
        """Of the head; None: there is none."""
        return None if self.head_node is None else self.head_node.gcs_address

    gcs_address = address

    def add_node(self, wait: bool = True, **node_args) -> ClusterNode:
        """Starts a node: the first one is the head.

            cluster.add_node(num_cpus=4, resources={"special": 1}, labels={"zone": "a"})

        Args:
            wait: whether to wait until all nodes know it.
            num_cpus: 1 by default.
            num_gpus, resources, memory, labels, node_name: as of `ray start`.
            object_store_memory: 150 MiB by default.
            node_ip_address: 127.0.0.1 by default.
            env_vars: environment variables of its daemon.
            temp_dir, object_spilling_directory: folders.
            _system_config: of the head: as `ray start --system-config`.
        """
        settings = system_config.environment(node_args.get("_system_config"))
        if settings and self.head_node is not None:
            raise ValueError("_system_config is for the head: the other nodes have it from there")
        folder = self._started(
            _arguments(node_args, self.address), {**settings, **(node_args.get("env_vars") or {})}
        )
        node = ClusterNode(folder, self.address)
        if self.head_node is None:
            self.head_node = node
            self.redis_address = node.redis_address
        else:
            self.worker_nodes.add(node)
        if wait:
            self._wait_for(node)
        return node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True):
        """Ends a node: as `ray stop` does, or with allow_graceful=False by kill -9. Redis ends with
        the head.

            cluster.remove_node(node, allow_graceful=False)
        """
        from ray._private import worker

        if worker.is_initialized() and _core.session()["session_dir"] == node._node.folder:
            worker.shutdown()
            raise ValueError(
                "Removing a node that is connected to this Ray client is not allowed because it "
                "will break the driver."
            )
        if node not in self.list_all_nodes():
            raise ValueError(f"{node} is not in this cluster, or has been removed")
        node.kill_all_processes(check_alive=False, allow_graceful=allow_graceful)
        if node is self.head_node:
            self.head_node = self.redis_address = None
        else:
            self.worker_nodes.remove(node)

    def wait_for_nodes(self, timeout: float = 30):
        """Waits until exactly the nodes that were added, and not removed, are alive for each of them;
        TimeoutError.

            cluster.wait_for_nodes()
        """
        wanted = {node.node_id for node in self.list_all_nodes()}
        end = time.monotonic() + timeout
        for node in self.list_all_nodes():
            while (seen := _alive(node)) != wanted:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"{node} sees {len(seen)} nodes after {timeout} s, and {len(wanted)} were "
                        f"added: {sorted(seen)}, {sorted(wanted)}"
                    )
                time.sleep(0.02)

    def _wait_for(self, added, timeout=30):
        """Until the nodes that run know it, and it knows them."""
        running = [node for node in self.list_all_nodes() if node.remaining_processes_alive()]
        wanted = {node.node_id for node in running}
        end = time.monotonic() + timeout
        while not (
            _alive(added) >= wanted and all(added.node_id in _alive(node) for node in running)
        ):
            if time.monotonic() > end:
                raise TimeoutError(f"{added} is not known to all others after {timeout} s")
            time.sleep(0.02)

    def list_all_nodes(self) -> list:
        """The nodes, the head first.

        print(len(cluster.list_all_nodes()))
        """
        return [*([self.head_node] if self.head_node else []), *self.worker_nodes]

    def remaining_processes_alive(self) -> bool:
        """Whether all processes of all nodes run."""
        return all(node.remaining_processes_alive() for node in self.list_all_nodes())

    def connect(self, namespace: "str | None" = None):
        """Lets this program join the head.

        cluster.connect(namespace="test")
        """
        import ray

        if self.head_node is None:
            raise RuntimeError("the cluster has no head: add a node first")
        if self.connected:
            raise RuntimeError("this program has joined the cluster already")
        self._token_before = os.environ.get("RAY_AUTH_TOKEN")
        os.environ["RAY_AUTH_TOKEN"] = self._token
        self.connected = True
        try:
            folder = self.head_node.get_session_dir_path()
            ray.init(address=folder, namespace=namespace, ignore_reinit_error=True)
        except BaseException:
            self._forget_token()
            raise

    def shutdown(self):
        """Ends all nodes, and Redis; the program's part in it before that.

        cluster.shutdown()
        """
        from ray._private import worker

        nodes = self.list_all_nodes()
        folders = [node.get_session_dir_path() for node in nodes]
        if worker.is_initialized() and _core.session()["session_dir"] in folders:
            worker.shutdown()
        self._forget_token()
        for node in reversed(nodes):
            self.remove_node(node)
        self._watch_end()
        atexit.unregister(self._at_exit)

    def _at_exit(self):
        if os.getpid() == self._pid:  # a forked child runs its parent's exit functions too
            self.shutdown()

    def _forget_token(self):
        if not self.connected:
            return
        self.connected = False
        os.environ.pop("RAY_AUTH_TOKEN", None)
        if self._token_before is not None:
            os.environ["RAY_AUTH_TOKEN"] = self._token_before

    def _watch_begin(self, path):
        if self._watcher is None or self._watcher.poll() is not None:
            self._watcher = subprocess.Popen(
                [sys.executable, "-c", _WATCH, leftovers.__file__, str(os.getpid()), path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def _watch_end(self):
        if self._watcher is None:
            return
        try:
            with self._watcher.stdin as pipe:
                pipe.write(b"end\n")
        except OSError:  # it was killed
            pass
        self._watcher.wait()
        self._watcher = None

    def _started(self, arguments, env_vars):
        """The folder of the node that `ray start` makes."""
        path = services.program_folder()
        command = [sys.executable, "-c", _START, path]
        pipes = []
        if self._is_watched:
            self._watch_begin(path)
            pipes = [self._watcher.stdin.fileno()]
            command = [
                sys.executable,
                "-c",
                _START_WATCHED,
                path,
                str(os.getpid()),
                *map(str, pipes),
            ]
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_START_LIMIT,
            env={**os.environ, **(env_vars or {}), "RAY_AUTH_TOKEN": self._token},
            pass_fds=pipes,
            start_new_session=self._is_watched,  # a signal to this program's group is not for it
        )
        if done.returncode != 0:
            raise RuntimeError(f"the node could not be started: {done.stderr.strip()}")
        return done.stdout.splitlines()[-1]


def _alive(node) -> set:
    """The ids of the nodes that live for all that this one knows; none if it is dead itself."""
    return {row.node_id for row in roster.look(node.raylet_socket_name) if row.alive}


def _arguments(node_args, address) -> list:
    """What `ray start` is told."""
    given = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": _STORE, **node_args}
    given.pop("env_vars", None)
    ip = given.pop("node_ip_address", None) or services.LOOPBACK
    found = ["--head", "--port=0"] if address is None else [f"--address={address}"]
    found.append(f"--node-ip-address={ip}")
    given.pop("_system_config", None)
    labels = given.pop("labels", None)
    if labels:
        found.append("--labels=" + ",".join(f"{key}={value}" for key, value in labels.items()))
    found.append("--resources=" + json.dumps(given.pop("resources", None) or {}))
    for name, value in given.items():
        if name in _NOTHING_TO_DO or value is None:
            continue
        if name not in _OPTIONS:
            raise TypeError(f"add_node does not know {name}")
        found.append(f"--{name.replace('_', '-')}={value}")
    return found


_OPTIONS = frozenset(
    "memory node_name num_cpus num_gpus object_spilling_directory object_store_memory port "
    "temp_dir".split()
)
