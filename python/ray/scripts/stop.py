"""`ray stop`: ends all nodes that this user started with `ray start`, and what runs on them."""

import argparse
import os
import select
import signal
import sys


def main(args) -> int:
    parser = argparse.ArgumentParser("ray stop", description=__doc__)
    parser.add_argument("-f", "--force", action="store_true", help="kill them at once")
    parser.add_argument(
        "-g", "--grace-period", type=float, default=16, help="seconds before they are killed (16)"
    )
    parser.add_argument("--address", help="only the node of this address or folder")
    options = parser.parse_args(args)
    from ray._private import sessions

    nodes = sessions.live_nodes()
    if options.address:
        try:
            nodes = [sessions.find_node(options.address)]
        except ConnectionError as error:
            print(f"ray stop: {error}", file=sys.stderr)
            return 1
    stopped = 0
    for node in nodes:
        count = _stop(node, options)
        stopped += count
    sessions.forget_dead()
    if stopped == 0:
        print("Did not find any active Ray processes.")
    else:
        print(f"Stopped all {stopped} Ray processes.")
    return 0


def _stop(node, options) -> int:
    """Ends the node's daemon, and with it everything below it; how many processes that were."""
    try:
        daemon = os.pidfd_open(node.pid)
    except ProcessLookupError:
        return 0
    try:
        if not _is_daemon(node.pid):  # the number is another process's by now
            return 0
        count = 1 + len(_below(node.pid))
        sent = signal.SIGKILL if options.force else signal.SIGTERM
        signal.pidfd_send_signal(daemon, sent)
        if not _await(daemon, options.grace_period):
            print(f"The node {node.address} did not end in time, and is killed.", file=sys.stderr)
            signal.pidfd_send_signal(daemon, signal.SIGKILL)
            _await(daemon, 30)
        if os.path.isdir(node.folder):  # it was killed before it could
            import shutil

            shutil.rmtree(node.folder, ignore_errors=True)
        return count
    except ProcessLookupError:
        return 1
    finally:
        os.close(daemon)


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
