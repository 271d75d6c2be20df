"""Helpers around the core API."""

from ray._private.services import get_node_ip_address

__all__ = ["get_node_ip_address"]

_LATER = frozenset(
    (
        "ActorPool accelerators as_completed collective dask get_current_placement_group inspect_serializability "
        "joblib list_named_actors map_unordered metrics multiprocessing placement_group placement_group_table "
        "queue register_serializer remove_placement_group scheduling_strategies"
    ).split()
)


def __getattr__(name):
    if name in _LATER:
        raise AttributeError(f"ray.util.{name} is not in Mobula yet")
    raise AttributeError(f"module 'ray.util' has no attribute '{name}'")
