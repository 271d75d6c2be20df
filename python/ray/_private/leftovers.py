"""Ends the nodes of a ray.cluster_utils.Cluster whose program was killed, and could not do it.

The Cluster starts a process that watches over the program. It is run as a file, and imports nothing
of this package before it has something to end, so it is small. It hears of the cluster by a pipe,
from the process that starts the head: so there is no time at which a node is there that nobody
would end. A line "end" says that the program has ended the nodes itself.

It waits for the program's end by a pidfd, not by the end of the pipe: a process that the program
has forked would keep that open.
"""

import contextlib
import os
import select
import signal
import sys
import time


def watch(program: int) -> list:
    """Returns at the program's end: the clusters that it has left."""
    try:
        waits = [0, os.pidfd_open(program)]
    except ProcessLookupError:
        waits = [0]
    if os.getppid() != program:  # it has ended; its number may be another's
        waits = [0]
    said = b""
    while 0 in select.select(waits, [], [], None if len(waits) > 1 else 0)[0]:
        piece = os.read(0, 4096)
        said += piece
        if said.endswith(b"end\n"):
            return []
        if not piece:
            select.select(waits[1:], [], [])
            break
    return said.decode().split()


def end(found: list):
    """Ends the nodes of these clusters on this machine, and their Redis."""
    from ray._private import redis_server, sessions

    for number in (signal.SIGTERM, signal.SIGKILL):
        limit = time.monotonic() + 15
        told = set()
        while time.monotonic() < limit:
            nodes = [node for node in sessions.live_nodes() if node.cluster in found]
            for node in nodes:
                if node.pid not in told:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(node.pid, number)
                told.add(node.pid)
            if not nodes:
                break
            time.sleep(0.05)
    for cluster in found:
        server = redis_server.of_cluster(cluster)
        if server is not None:
            server.end()
    sessions.forget_dead()


def start(program: int, pipe: int, args: list) -> int:
    """`ray start`, for a program that may be killed meanwhile. Prints the node's folder."""
    from ray.scripts import start as command

    made = []

    def tell(node, part):
        with contextlib.suppress(OSError):  # the watcher was killed
            os.write(pipe, f"{node.cluster}\n".encode())
        made.append(node.cluster)
        print(node.folder, flush=True)

    status = command.main(args, tell)
    if os.getppid() != program:  # its watcher may not have heard of this cluster
        end(made)
    return status


if __name__ == "__main__":
    left = watch(int(sys.argv[1]))
    if left:
        sys.path.insert(0, sys.argv[2])
        end(left)
