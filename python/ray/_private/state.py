"""Looking around: nodes, resources, and what ran when."""

import os

from ray import _core
from ray._private import labels, roster

# Ray's DeathReason: there is none; it left; it died.
UNSPECIFIED, EXPECTED_TERMINATION, UNEXPECTED_TERMINATION = 0, 1, 2
_LEFT = "in peace"  # what the daemon says of a node that was stopped
_KINDS = {0: "task", 1: "actor_creation", 2: "actor_call"}
_ACTOR_STATES = ("PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD")


def check_connected():
    """Raises unless this process takes part in a session: looking around starts nothing."""
    if not _core.is_connected():
        from ray.exceptions import RaySystemError

        raise RaySystemError("the system is not running in this process: call ray.init() first")


def nodes() -> list:
    """The nodes of the cluster, a dict each: the one of this program first; also those that have
    died, as far as they are remembered.

    for node in ray.nodes():
        print(node["NodeID"], node["Alive"], node["Resources"])
    """
    check_connected()
    return [_node(row) for row in roster.seen_here()]


def _node(row):
    reason, message = death_of(row)
    socket = os.path.join(row.folder, "socket") if row.folder else ""
    return {
        "NodeID": row.node_id,
        "Alive": row.alive,
        "alive": row.alive,
        "NodeName": row.name or row.host,
        "NodeManagerAddress": row.host,
        "NodeManagerHostname": row.hostname,
        "NodeManagerPort": row.port,
        "ObjectManagerPort": row.port,  # one port for all
        "MetricsExportPort": 0,
        "RuntimeEnvAgentPort": 0,
        "ObjectStoreSocketName": socket,
        "RayletSocketName": socket,
        "DeathReason": reason,
        "DeathReasonMessage": message,
        "Resources": roster.totals([row]),
        "Labels": labels.from_text(row.labels),
    }


def death_of(row) -> tuple:
    """(DeathReason of Ray's, the words) of a node."""
    if row.alive:
        return UNSPECIFIED, ""
    return EXPECTED_TERMINATION if _LEFT in row.reason else UNEXPECTED_TERMINATION, row.reason


def cluster_resources() -> dict:
    """How much there is of each resource, of all living nodes together.

    print(ray.cluster_resources()["CPU"])
    """
    check_connected()
    return roster.totals(_rows())


def available_resources() -> dict:
    """How much of each resource is free now, on all living nodes together; one that is used up is
    not in it. What other nodes have is what they have told last.

    print(ray.available_resources().get("CPU", 0))
    """
    check_connected()
    return _not_used_up(_rows())


def _rows():
    """The nodes, the own one as it is now."""
    found = roster.seen_here()
    own = _core.query("resources")
    now = tuple((name, total, own["available"][name]) for name, total in own["total"].items())
    return [found[0]._replace(amounts=now), *found[1:]]


def _not_used_up(rows):
    return {name: amount for name, amount in roster.free(rows).items() if amount > 0}


def total_resources_per_node() -> dict:
    """`cluster_resources` by the id of each living node."""
    check_connected()
    return {row.node_id: roster.totals([row]) for row in _rows() if row.alive}


def available_resources_per_node() -> dict:
    """`available_resources` by the id of each living node."""
    check_connected()
    return {row.node_id: _not_used_up([row]) for row in _rows() if row.alive}


def actors(actor_id: "str | None" = None, *, actor_state_name: "str | None" = None) -> dict:
    """The actor of this id, as `handle._actor_id.hex()` gives it: a dict, empty if nothing is known
    of it. Without an id all actors of the cluster by theirs, or those in this state; of the dead
    only the last of each node.

    It has what the daemon remembers of an actor, and so fewer keys than Ray's.

        print(ray._private.state.actors(handle._actor_id.hex())["State"])
    """
    if actor_state_name not in (None, *_ACTOR_STATES):
        raise ValueError(
            f"actor_state_name must be one of {', '.join(_ACTOR_STATES)}, and is "
            f"{actor_state_name!r}"
        )
    hosts = {row["NodeID"]: row["NodeManagerAddress"] for row in nodes()}
    found = {row["ActorID"]: row for row in (_actor(hosts, *row) for row in _core.query("actors"))}
    if actor_id is not None:
        return found.get(actor_id, {})
    return {key: row for key, row in found.items() if actor_state_name in (None, row["State"])}


def _actor(hosts, slot, generation, name, state, pid, restarts, cause, home, node):
    return {
        "ActorID": f"{home}{slot:08x}{generation & 0xFFFFFFFFFFFFFFFF:016x}",
        "ActorClassName": name,
        "State": state,
        "Pid": pid,
        "Address": {"NodeID": node, "IPAddress": hosts.get(node, "")},
        "NumRestarts": restarts,
        "DeathCause": cause,
    }


def timeline(filename: "str | None" = None):
    """What ran when and where, as events of Chrome's trace format (chrome://tracing, Perfetto).

    Returns the list of events, or writes them to `filename` and returns nothing.

        ray.timeline("/tmp/timeline.json")  # open it in Perfetto
        events = ray.timeline()
    """
    check_connected()
    events = _trace(_core.query("events"))
    if filename is None:
        return events
    import json

    with open(filename, "w", encoding="utf-8") as file:
        json.dump(events, file)
    return None


def _trace(found):
    node = 1
    events, workers = [], {}
    for name, kind, pid, number, start, end in found:
        workers[number] = pid
        events.append(
            {
                "ph": "X",
                "name": name,
                "cat": _KINDS.get(kind, str(kind)),
                "pid": node,
                "tid": number,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {"pid": pid, "worker": number},
            }
        )
    names = [{"ph": "M", "name": "process_name", "pid": node, "args": {"name": "node"}}]
    for number, pid in sorted(workers.items()):
        names.append(
            {
                "ph": "M",
                "name": "thread_name",
                "pid": node,
                "tid": number,
                "args": {"name": f"worker pid={pid}"},
            }
        )
    return names + events
