"""`ray status`: what a node has, what of it is used, and what waits for it."""

import argparse
import datetime
import sys

_BYTES = ("memory", "object_store_memory")


def main(args) -> int:
    parser = argparse.ArgumentParser("ray status", description=__doc__)
    parser.add_argument("--address", help="of the node; RAY_ADDRESS or the newest by default")
    parser.add_argument("-v", "--verbose", action="store_true", help="jobs too")
    options = parser.parse_args(args)
    from ray import _core
    from ray._private import sessions

    try:
        socket = sessions.find_socket(options.address)
        resources = _core.observe(socket, _core.QUERY_RESOURCES, 0, 30)
        demands = _core.observe(socket, _core.QUERY_DEMANDS, 0, 30)
        jobs = _core.observe(socket, _core.QUERY_JOBS, 0, 30)
        groups = _core.observe(socket, _core.QUERY_GROUPS, 0, 30)[1]
        kept = _core.observe(socket, _core.QUERY_KEPT, 0, 30)
    except (OSError, RuntimeError) as error:
        print(f"ray status: {error}", file=sys.stderr)
        return 1
    _print_nodes(socket, resources, demands)
    _print_resources(resources, demands, _groups(groups), _requests(kept))
    if options.verbose:
        _print_jobs(jobs)
    return 0


def _print_nodes(socket, resources, demands):
    now = datetime.datetime.now()
    line = "-" * 63
    print(f"======== Autoscaler status: {now} ========\nNode status\n{line}")
    used = any(total - available > 1e-9 for _, total, available in resources) or demands
    name = f" 1 {_node_name(socket)}"
    print(f"Active:\n{name if used else ' (no active nodes)'}")
    print(f"Idle:\n{' (no idle nodes)' if used else name}")
    print("Pending:\n (no pending nodes)\nRecent failures:\n (no failures)\n")


def _node_name(socket) -> str:
    import os

    from ray._private.sessions import Node

    try:
        return "node_" + Node(os.path.dirname(socket)).node_id
    except OSError:  # a private session
        return "node_of_" + os.path.basename(os.path.dirname(socket))


def _amount(name, value) -> str:
    if name not in _BYTES:
        return f"{value:g}" if value != int(value) else f"{value:.1f}"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:.2f}{unit}" if unit != "B" else f"{int(value)}B"
        value /= 1024


def _requests(kept) -> list:
    """(resources, how many) that programs have asked for by request_resources."""
    import json

    from ray.autoscaler.sdk import KEY

    found = []
    for key, value in kept:
        if key[5:] == KEY:
            found += [(json.loads(text), count) for text, count in json.loads(value).items()]
    return found


def _groups(rows) -> list:
    """(bundles, strategy, how many) of placement groups that wait."""
    counts = {}
    for row in rows:
        strategy, state, bundles = row[4], row[5], row[11]
        if state == "PENDING":
            counts[bundles, strategy] = counts.get((bundles, strategy), 0) + 1
    return [(*key, count) for key, count in sorted(counts.items())]


def _each(bundles) -> str:
    """Bundles that are alike together: {"CPU": 1} * 2."""
    counts = {}
    for bundle in bundles:
        counts[bundle] = counts.get(bundle, 0) + 1
    return ", ".join([f"{dict(bundle)} * {count}" for bundle, count in counts.items()])


def _print_resources(resources, demands, groups, requests):
    print(f"Resources\n{'-' * 63}\nTotal Usage:")
    for name, total, available in sorted(resources):
        if name.startswith("node:"):
            continue
        print(f" {_amount(name, total - available)}/{_amount(name, total)} {name}")
    print("\nPending Demands:")
    counts = {}
    for demand, count in demands:
        counts[demand] = counts.get(demand, 0) + count
    for demand, count in sorted(counts.items()):
        print(f" {dict(demand)}: {count}+ pending tasks/actors")
    for bundles, strategy, count in groups:
        print(f" {_each(bundles)} ({strategy}): {count}+ pending placement groups")
    for wanted, count in requests:
        print(f" {wanted}: {count}+ from request_resources()")
    if not counts and not groups and not requests:
        print(" (no resource demands)")


def _print_jobs(jobs):
    print(f"\nJobs\n{'-' * 63}")
    running = [row for row in jobs if row[3] == 0]
    for number, pid, _, _, detached, _, namespace, entrypoint in running:
        what = "detached actor" if detached else f"driver {pid}"
        print(f" {number}: {what}, namespace {namespace}: {entrypoint}")
    if not running:
        print(" (no jobs)")
