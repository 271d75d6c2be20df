"""Helpers around the core API."""

from importlib import import_module

from ray._private.later import no_attribute
from ray._private.services import get_node_ip_address

# A function that hides its module, whose attribute the import of the module would set again.
from ray.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__all__ = [
    "ActorGroup",
    "ActorPool",
    "as_completed",
    "cancel_waited",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_instance_id",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
    "replay",
]

_MODULES = frozenset(
    (
        "accelerators actor_group actor_pool check_serialize collective dask debug helpers joblib metrics "
        "multiprocessing queue scheduling_strategies serialization state"
    ).split()
)
_ELSEWHERE = {
    "ActorGroup": "ray.util.actor_group",
    "ActorPool": "ray.util.actor_pool",
    "as_completed": "ray.util.helpers",
    "cancel_waited": "ray._private.object_ref",
    "deregister_serializer": "ray.util.serialization",
    "disable_log_once_globally": "ray.util.debug",
    "enable_periodic_logging": "ray.util.debug",
    "get_node_instance_id": "ray._private.services",
    "inspect_serializability": "ray.util.check_serialize",
    "list_named_actors": "ray._private.names",
    "log_once": "ray.util.debug",
    "map_unordered": "ray.util.helpers",
    "register_serializer": "ray.util.serialization",
    "replay": "ray._private.replay",
}


def __getattr__(name):
    if name in _MODULES:
        return import_module("ray.util." + name)
    if name in _ELSEWHERE:
        value = getattr(import_module(_ELSEWHERE[name]), name)
        globals()[name] = value
        return value
    raise no_attribute(__name__, name)


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES})
