"""`ray memory`: the objects of a running session, who holds them, and why."""

import argparse
import sys

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_REASONS = {
    "LOCAL_REFERENCE": "local reference",
    "LOADED_FUNCTION": "loaded function",
    "ACTOR_HANDLE": "actor handle",
    "USED_BY_PENDING_TASK": "argument of {} queued or running",
    "CAPTURED_IN_OBJECT": "inside {}",
    "PINNED_IN_MEMORY": "read in place",
    "USED_BY_LINEAGE": "kept to make another object again",
    "HELD_BY_OTHER_NODES": "other nodes",
    "UNKNOWN_STATUS": "nobody: its task is not done",
}


def main(args) -> int:
    parser = argparse.ArgumentParser("ray memory", description=__doc__)
    parser.add_argument("--address", help="the folder of a session; the newest by default")
    parser.add_argument("--units", choices=_UNITS, default="B")
    parser.add_argument("--sort-by", choices=("OBJECT_SIZE", "PID"), default="OBJECT_SIZE")
    parser.add_argument(
        "-n", "--num-entries", type=int, default=1000, help="how many objects are shown at most"
    )
    parser.add_argument("--stats-only", action="store_true", help="only the sums")
    options = parser.parse_args(args)
    from ray.util.state import objects

    try:
        count, states = objects(options.address)
    except (OSError, RuntimeError) as error:
        print(f"ray memory: {error}", file=sys.stderr)
        return 1
    held = {}
    for state in states:
        held.setdefault(state.object_id, []).append(state)
    _print_sums(count, [states[0] for states in held.values()], options.units)
    if not options.stats_only:
        _print_objects(list(held.values()), options)
    return 0


def _size(count, units) -> str:
    return f"{count} B" if units == "B" else f"{count / _UNITS[units]:.2f} {units}"


def _print_sums(count, states, units):
    sums = {"IN_MEMORY": [0, 0], "SPILLED": [0, 0], "PENDING": [0, 0]}
    for state in states:
        sums[state.state][0] += 1
        sums[state.state][1] += max(state.object_size, 0)
    print(f"{count} objects")
    for name, text in (("IN_MEMORY", "in memory"), ("SPILLED", "on disk")):
        print(f"  {text}: {sums[name][0]}, {_size(sums[name][1], units)}")
    print(f"  not made yet: {sums['PENDING'][0]}")


def _print_objects(held, options):
    if options.sort_by == "PID":
        held.sort(key=lambda states: (states[0].owner_pid, -states[0].object_size))
    else:
        held.sort(key=lambda states: -states[0].object_size)
    for states in held[: options.num_entries]:
        first = states[0]
        size = (
            "not made yet" if first.state == "PENDING" else _size(first.object_size, options.units)
        )
        where = {"IN_MEMORY": "in memory", "SPILLED": "on disk", "PENDING": ""}[first.state]
        maker = f"made by {first.owner_pid}" if first.owner_pid else "its maker is gone"
        print(f"\n{first.object_id}  {size}  {where}  {maker}".rstrip())
        if first.call_site:
            print(f"    made at {first.call_site}")
        for state in states:
            who = f"{state.type.lower()} {state.pid}: " if state.pid else ""
            print(f"    {who}{_reason(state)}")
    if len(held) > options.num_entries:
        print(f"\n... and {len(held) - options.num_entries} more")


def _reason(state) -> str:
    things = {"USED_BY_PENDING_TASK": "task", "CAPTURED_IN_OBJECT": "object"}.get(
        state.reference_type, ""
    )
    return _REASONS[state.reference_type].format(
        f"{state.count} {things}{'s' if state.count != 1 else ''}"
    )
