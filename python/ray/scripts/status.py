"""`ray status`: what the nodes have, what of it is used, and what waits for it."""

import argparse
import datetime
import os
import sys
import time

_SHOWN_MS = 3600 * 1000  # for how long a node that failed is shown
_BYTES = ("memory", "object_store_memory")


def main(args) -> int:
    parser = argparse.ArgumentParser("ray status", description=__doc__)
    parser.add_argument("--address", help="of a node; RAY_ADDRESS or the newest by default")
    parser.add_argument("-v", "--verbose", action="store_true", help="jobs too")
    options = parser.parse_args(args)
    from ray import _core
    from ray._private import roster, sessions
    from ray.exceptions import RayError

    try:
        socket = sessions.find_socket(options.address)
        nodes = roster.seen_by(socket)
        resources = _core.observe(socket, _core.QUERY_RESOURCES, 0, 30)
        demands = _core.observe(socket, _core.QUERY_DEMANDS, 0, 30)
        jobs = _core.observe(socket, _core.QUERY_JOBS, 0, 30)
        groups = _core.observe(socket, _core.QUERY_GROUPS, 0, 30)
        kept = _core.observe(socket, _core.QUERY_KEPT, 0, 30)
    except (OSError, RuntimeError, RayError) as error:
        print(f"ray status: {error}", file=sys.stderr)
        return 1
    nodes[0] = nodes[0]._replace(amounts=resources)  # as they are now
    _print_nodes(nodes, demands)
    _print_resources(nodes, demands, _groups(groups), _requests(kept))
    if options.verbose:
        _print_jobs(jobs)
    return 0


def _print_nodes(nodes, demands):
    now = datetime.datetime.now()
    line = "-" * 63
    print(f"======== Autoscaler status: {now} ========\nNode status\n{line}")
    used = [row for row in nodes if row.alive and (_is_used(row) or (row is nodes[0] and demands))]
    idle = [row for row in nodes if row.alive and row not in used]
    since = time.time() * 1000 - _SHOWN_MS
    failed = [row for row in nodes if not row.alive and row.until_ms > since and _has_failed(row)]
    print("Active:\n" + _lines([f" 1 {_living(row)}" for row in used], " (no active nodes)"))
    print("Idle:\n" + _lines([f" 1 {_living(row)}" for row in idle], " (no idle nodes)"))
    print("Pending:\n (no pending nodes)\nRecent failures:")
    print(_lines([f" {_name(row)}: {_failure(row)}" for row in failed], " (no failures)") + "\n")


def _lines(found, nothing):
    return "\n".join(found) or nothing


def _is_used(row) -> bool:
    return any(total - free > 1e-9 for _, total, free in row.amounts)


def _has_failed(row) -> bool:
    from ray._private import state

    return state.death_of(row)[0] == state.UNEXPECTED_TERMINATION


def _failure(row) -> str:
    when = datetime.datetime.fromtimestamp(row.until_ms / 1000)
    return f"{row.reason or 'it died'} ({when:%H:%M:%S}, ip: {row.host}, {row.hostname})"


def _living(row) -> str:
    """`reason`: it has paused."""
    return f"{_name(row)}: {row.reason}" if row.reason else _name(row)


def _name(row) -> str:
    """A node of `ray start`; a private session has no port."""
    if row.port == 0:
        return "node_of_" + os.path.basename(row.folder)
    plain = row.name in ("", row.host, f"{row.host}:{row.port}")
    return f"node_{row.node_id}" + ("" if plain else f" ({row.name})")


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
        strategy, state, bundles = row[3], row[4], row[10]
        if state == "PENDING":
            counts[bundles, strategy] = counts.get((bundles, strategy), 0) + 1
    return [(*key, count) for key, count in sorted(counts.items())]


def _each(bundles) -> str:
    """Bundles that are alike together: {"CPU": 1} * 2."""
    counts = {}
    for bundle in bundles:
        counts[bundle] = counts.get(bundle, 0) + 1
    return ", ".join([f"{dict(bundle)} * {count}" for bundle, count in counts.items()])


def _print_resources(nodes, demands, groups, requests):
    from ray._private import roster

    print(f"Resources\n{'-' * 63}\nTotal Usage:")
    free = roster.free(nodes)
    for name, total in sorted(roster.totals(nodes).items()):
        if not name.startswith("node:"):
            print(f" {_amount(name, total - free[name])}/{_amount(name, total)} {name}")
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
