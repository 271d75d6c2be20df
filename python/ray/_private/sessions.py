"""Sessions of this user on this machine, seen from outside: private ones, and nodes that any driver
may join.
"""

import contextlib
import os


class Node:
    """A node that `ray start` began: its daemon outlives its drivers."""

    def __init__(self, folder):
        with open(os.path.join(folder, "node")) as file:
            lines = [*file.read().split("\n"), "", "", ""][:6]
        address, pid, version, node_id, cluster, name = lines
        self.folder = folder
        self.socket = os.path.join(folder, "socket")
        self.address = address
        self.pid = int(pid)
        self.version = version
        self.node_id = node_id
        self.cluster = cluster  # its id; "": the node is alone
        self.name = name

    @property
    def ip(self) -> str:
        """The address that it is called by, without the port."""
        return self.address.rpartition(":")[0]

    def answers_to(self, address) -> bool:
        """Whether this is what a user calls it: its folder, or IP:PORT."""
        if os.path.isabs(address):
            return os.path.realpath(address) == os.path.realpath(self.folder)
        host, _, port = address.rpartition(":")
        own_port = self.address.rpartition(":")[2]
        return port == own_port and host in (self.ip, "127.0.0.1", "localhost", "0.0.0.0")

    def is_with(self, other) -> bool:
        """Whether both are of one cluster."""
        return self.folder == other.folder or (self.cluster == other.cluster != "")


def find_socket(address=None) -> str:
    """The socket of a session, private or not: of the one that `address` names; of this process's
    own; else of the newest.
    """
    from ray import _core

    if address in (None, "auto", "local"):
        if _core.is_connected():
            return _core.session()["socket"]
        given = os.environ.get("RAY_ADDRESS") if address is None else None
        if given and given not in ("auto", "local"):
            return find_node(given).socket
        nodes = live_nodes()
        if nodes:
            return _chosen(nodes, nodes[0]).socket
        for folder in live_sessions():
            return os.path.join(folder, "socket")
        raise ConnectionError(
            "no session of this user is running here. If one was started with another _temp_dir "
            "or RAY_TMPDIR, set RAY_TMPDIR to that"
        )
    path = os.path.join(os.fspath(address), "socket")
    if os.path.exists(path):
        return path
    if ":" in str(address):
        return find_node(str(address)).socket
    raise ConnectionError(f"{address!r} is not the folder of a session")


def find_node(address: str) -> Node:
    """The node of this machine that a driver joins by this address; ConnectionError if there is
    none. The address may be that of any node of a cluster, also of another machine.
    """
    nodes = live_nodes()
    if address == "auto":
        if nodes:
            return _chosen(nodes, nodes[0])
        raise ConnectionError(
            "no node of this user is running on this machine. Start one with `ray start --head`, "
            "or leave the address out: then ray.init() starts a session of its own. (A node that "
            "was started under another RAY_TMPDIR is found under that.)"
        )
    named = next((node for node in nodes if node.answers_to(address)), None)
    if named is not None:
        return named if os.path.isabs(address) else _chosen(nodes, named, named)
    if os.path.isdir(address):
        return _node_in(address)
    neighbour = _neighbour(nodes, address) or _neighbour(nodes, _in_digits(address))
    if neighbour is not None:
        return _chosen(nodes, neighbour)
    raise ConnectionError(
        f"no node of this user has the address {address!r} on this machine, or is in a cluster with "
        f"one that has it{_those(nodes)}. A program joins a node of its own machine: if {address} "
        f"is a node elsewhere, start one here with `ray start --address={address}`"
    )


def _those(nodes):
    return f"; there are {', '.join(node.address for node in nodes)}" if nodes else ""


def _chosen(nodes, found, default=None):
    """Of the nodes here that are in the cluster of the one found: that which RAY_NODE_ID names, the
    default, or the oldest.
    """
    nodes = [node for node in nodes if node.is_with(found)]
    wanted = os.environ.get("RAY_NODE_ID")
    if wanted:
        for node in nodes:
            if node.node_id == wanted:
                return node
        raise ConnectionError(
            f"RAY_NODE_ID is {wanted!r}, and no node of this user here has that id in the cluster "
            f"of {found.address}{_those(nodes)}"
        )
    return default or min(nodes, key=lambda node: _age(node.folder))


def _in_digits(address) -> str:
    """With what a machine's name stands for; as it is, if that is nothing."""
    from ray._private import addresses

    try:
        return addresses.in_digits(address) if addresses.is_address(address) else address
    except OSError:
        return address


def _neighbour(nodes, address):
    """A node here that is in a cluster with the one of this address."""
    from ray._private import roster

    host, _, port = address.rpartition(":")
    for node in {node.cluster: node for node in nodes if node.cluster}.values():
        for row in roster.look(node.socket):
            if row.alive and str(row.port) == port and host in (row.host, row.hostname):
                return node
    return None


def _node_in(folder) -> Node:
    """The node of that folder, which may be under another RAY_TMPDIR; ConnectionError."""
    if os.stat(folder).st_uid != os.geteuid():
        raise ConnectionError(f"the session in {folder} is another user's")
    if not _lives(folder):
        raise ConnectionError(
            f"no daemon runs in {folder} any more: start another node with `ray start --head`"
        )
    try:
        return Node(folder)
    except FileNotFoundError:
        raise ConnectionError(
            f"the session in {folder} belongs to the program that started it, and can't be joined. "
            "Start a node that can be with `ray start --head`"
        ) from None


def parent_folder() -> str:
    """Where this user's sessions have their folders, unless they were given another."""
    from ray._private.services import temp_folder

    return os.path.join(temp_folder(None), f"mobula-{os.geteuid()}")


def live_sessions() -> list:
    """The folders of sessions whose daemon lives, newest first."""
    return sorted(filter(_lives, folders("session_")), key=_age, reverse=True)


def live_nodes() -> list:
    """The nodes that `ray start` began and that live, newest first."""
    found = {os.path.realpath(folder) for folder in folders("session_") + folders("node_")}
    nodes = []
    for folder in sorted(found, key=_age, reverse=True):
        if not os.path.exists(os.path.join(folder, "node")) or not _lives(folder):
            continue
        try:
            node = Node(folder)
            os.kill(node.pid, 0)  # the folder's lock may be that of a process which removes it
        except (OSError, ValueError):  # it has just ended
            continue
        nodes.append(node)
    return nodes


def register(folder):
    """Lets drivers find a node whose folder lies elsewhere."""
    parent = parent_folder()
    if os.path.dirname(os.path.realpath(folder)) == os.path.realpath(parent):
        return
    os.makedirs(parent, mode=0o700, exist_ok=True)
    os.symlink(folder, os.path.join(parent, "node_" + os.path.basename(folder)))


def forget_dead() -> list:
    """Removes what sessions have left whose daemon was killed, and what leads to nodes that are
    gone. Those that were nodes of a cluster.
    """
    links = folders("node_")
    found = {os.path.realpath(path) for path in folders("session_") + links}
    dead = [node for node in map(_remove_if_dead, found) if node is not None and node.cluster]
    for link in links:
        if not os.path.exists(link):
            with contextlib.suppress(FileNotFoundError):  # somebody else was faster
                os.unlink(link)
    try:
        os.rmdir(parent_folder())
    except OSError:  # there are others, or there is none
        pass
    return dead


def _remove_if_dead(folder) -> "Node | None":
    """The same as base_folder_clear in src/base/folder.c: whoever has the lock may remove it. The
    node that it was.
    """
    import fcntl
    import shutil

    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    node = None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.lstat(folder)):
            with contextlib.suppress(OSError, ValueError):  # a session of a program
                node = Node(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.rmdir(os.path.dirname(folder))
    except OSError:  # its daemon holds it, or another process removes it; or there are others
        pass
    finally:
        os.close(fd)
    return node


def folders(prefix) -> list:
    """The folders, and what leads to folders, that begin so where this user's sessions are."""
    parent = parent_folder()
    try:
        return [
            os.path.join(parent, name) for name in os.listdir(parent) if name.startswith(prefix)
        ]
    except OSError:
        return []


def _age(folder):
    return os.path.basename(folder).split("_")[1]


def _lives(folder) -> bool:
    import fcntl

    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:  # its daemon holds it
        return True
    finally:
        os.close(fd)
