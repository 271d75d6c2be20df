"""`ray stop`: ends all nodes that this user started with `ray start` on this machine, and what runs
on them; the head's Redis, too, when the last node of its cluster ends.
"""

import argparse
import os
import select
import signal
import socket
import sys
import time

_LOOK = 5  # seconds that a node has to say who else is in its cluster


def main(args) -> int:
    parser = argparse.ArgumentParser("ray stop", description=__doc__)
    parser.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="kill them at once, and Redis, whoever else is in the cluster",
    )
    parser.add_argument(
        "-g", "--grace-period", type=float, default=16, help="seconds before they are killed (16)"
    )
    parser.add_argument("--address", help="only the node of this address or folder")
    options = parser.parse_args(args)
    from ray._private import sessions

    nodes = sessions.live_nodes()
    if options.address:
        nodes = [node for node in nodes if node.answers_to(options.address)][:1]
        if not nodes:
            print(f"ray stop: no node here has the address {options.address}", file=sys.stderr)
            return 1
    heads, others = _with_heads_apart(nodes)
    if not options.force:
        problem = next(filter(None, [_problem(node, nodes) for node in heads]), None)
        if problem:
            print(f"ray stop: {problem}", file=sys.stderr)
            return 1
    stopped = _stop(others, options) + _stop(heads, options)
    sessions.forget_dead()
    return _tell(stopped + _stop_redis(nodes, options))


def _with_heads_apart(nodes) -> tuple:
    """Those whose Redis the others need, and these."""
    from ray._private import redis_server

    heads = [node for node in nodes if redis_server.of_cluster(node.cluster) and _is_head(node)]
    return heads, [node for node in nodes if node not in heads]


def _is_head(node) -> bool:
    from ray._private import roster

    rows = roster.look(node.socket, _LOOK)
    return bool(rows) and rows[0].is_head


def _problem(node, ending):
    """Why it can't end: others need its Redis."""
    from ray._private import roster

    ids = {each.node_id for each in ending}
    rows = [row for row in roster.look(node.socket, _LOOK) if row.alive and row.node_id not in ids]
    others = [row for row in rows if _is_there(row)]
    if not others:
        return None
    shown = ", ".join(f"{row.host}:{row.port}" for row in others[:5])
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    return (
        f"the node {node.address} has the Redis of its cluster, which still has {shown}{more}. "
        "Stop these first, by `ray stop` on their machines, or say --force: they can't go on "
        "without it"
    )


def _is_there(row) -> bool:
    """False: nobody listens at its address. It has just died, and the others will know it soon."""
    try:
        socket.create_connection((row.host, row.port), timeout=1).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # it can't be said
        pass
    return True


def _stop_redis(nodes, options) -> int:
    from ray._private import redis_server

    clusters = {node.cluster for node in nodes} if options.address else None
    ended, left = redis_server.end_unused(clusters, options.force)
    for words in left:
        print(words, file=sys.stderr)
    return ended


def _tell(stopped) -> int:
    if stopped == 0:
        print("Did not find any active Ray processes.")
    else:
        print(f"Stopped all {stopped} Ray processes.")
    return 0


def _stop(nodes, options) -> int:
    """Ends the nodes' daemons, and with them everything below; how many processes that were."""
    sent, count = [], 0
    for node in nodes:
        try:
            daemon = os.pidfd_open(node.pid)
        except ProcessLookupError:
            continue
        sent.append((node, daemon))
        if _is_daemon(node.pid):  # else the number is another process's by now
            count += 1 + len(_below(node.pid))
            _signal(daemon, signal.SIGKILL if options.force else signal.SIGTERM)
    end = time.monotonic() + max(0, options.grace_period)
    for node, daemon in sent:
        if _is_daemon(node.pid) and not _await(daemon, end - time.monotonic()):
            print(f"The node {node.address} did not end in time, and is killed.", file=sys.stderr)
            _signal(daemon, signal.SIGKILL)
            _await(daemon, 30)
        os.close(daemon)
        _remove(node.folder)
    return count


def _signal(daemon, number):
    try:
        signal.pidfd_send_signal(daemon, number)
    except ProcessLookupError:
        pass


def _remove(folder):
    """If the daemon was killed before it could."""
    if os.path.isdir(folder):
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _await(daemon, seconds) -> bool:
    return bool(select.select([daemon], [], [], max(0, seconds))[0])


def _is_daemon(pid) -> bool:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip() == "mobulad"
    except OSError:
        return False


def _below(pid) -> list:
    """The processes that this one has started, and those that they have."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return found
    for child in children:
        found += [child, *_below(child)]
    return found
