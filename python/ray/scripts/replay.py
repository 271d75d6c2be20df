"""`ray replay`: runs a task that failed once more, in this terminal, with the arguments it had."""

import argparse
import os
import sys


def main(args) -> int:
    parser = argparse.ArgumentParser("ray replay", description=__doc__)
    parser.add_argument("task_id", metavar="TASK_ID", help="as its error tells it")
    parser.add_argument(
        "--pdb", action="store_true", help="under the debugger: from its first line"
    )
    parser.add_argument("--address", help="of the node; by default the one that the id names")
    options = parser.parse_args(args)
    from ray._private import replay

    try:
        node, _, _ = replay.parse(options.task_id)
        _join(node, options.address)
        kept = replay.load(options.task_id, _prepare)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"ray replay: {error}", file=sys.stderr)
        return 1
    return _run(kept, options)


def _join(node_id, address):
    import ray
    from ray._private import sessions

    found = [node for node in sessions.live_nodes() if node.node_id == node_id]
    if address is None and not found:
        raise ConnectionError(
            f"no node of this user on this machine is {node_id}, on which the task ran. What is "
            "kept of a task ends with its node. A session that a program started for itself can't "
            "be joined: call ray.util.replay there, or run the program on a node that `ray start "
            "--head` began"
        )
    ray.init(address=address or found[0].folder, log_to_driver=True)


def _prepare(inner, folder):
    """As in the task's worker: the same modules and the same folder."""
    from _pickle import loads

    given = loads(inner) if inner else {}
    sys.path[:] = given.get("sys_path", []) or sys.path
    if os.path.isdir(folder):
        os.chdir(folder)


def _run(kept, options) -> int:
    from bdb import BdbQuit

    from ray._private import replay

    print(f"ray replay: {kept.name}, as task {options.task_id}, here (pid={os.getpid()})")
    if kept.note:
        print(f"ray replay: {kept.note}")
    try:
        value = replay.call(kept, options.pdb)
    except BdbQuit:
        return 1
    except Exception:
        import traceback

        traceback.print_exc()
        return 1
    text = repr(value)
    print(f"ray replay: it returned {text if len(text) <= 400 else text[:400] + ' ...'}")
    return 0
