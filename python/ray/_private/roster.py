"""The nodes of a cluster, as one of them knows them."""

from collections import namedtuple

from ray import _core

# Times are of the wall clock, in milliseconds; until_ms is 0 while the node lives. `amounts`:
# (resource, how much there is, how much is free). `folder`: of its session, on its machine.
# `reason`: why it is dead, or what keeps a living one from its work.
Row = namedtuple(
    "Row",
    "node_id alive host port name hostname pid is_head folder labels since_ms until_ms reason "
    "amounts",
)


def seen_by(socket: str, timeout: "float | None" = 30) -> list:
    """What the daemon at this socket knows, its own node first."""
    return [Row(*row) for row in _core.observe(socket, _core.QUERY_NODES, 0, timeout)]


def look(socket: str, timeout: float = 5) -> list:
    """The same; none from a daemon that ends, or does not answer in time."""
    from ray.exceptions import RayError

    try:
        return seen_by(socket, timeout)
    except (OSError, RuntimeError, RayError):
        return []


def seen_here() -> list:
    """What the daemon of this process's session knows, its own node first."""
    return [Row(*row) for row in _core.query("nodes")]


def totals(rows) -> dict:
    """How much the living nodes have together of each resource."""
    return _sum([(name, total) for row in rows if row.alive for name, total, _ in row.amounts])


def free(rows) -> dict:
    """How much of it is free."""
    return _sum([(name, left) for row in rows if row.alive for name, _, left in row.amounts])


def _sum(amounts):
    found = {}
    for name, amount in amounts:
        found[name] = found.get(name, 0.0) + amount
    return {name: round(amount, 4) for name, amount in found.items()}
