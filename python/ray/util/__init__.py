"""Helpers around the core API."""

from importlib import import_module

from ray._private.later import no_attribute
from ray._private.services import get_node_ip_address

__all__ = [
    "ActorGroup",
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_node_instance_id",
    "get_node_ip_address",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "register_serializer",
    "replay",
]

_MODULES = frozenset(
    (
        "actor_group actor_pool check_serialize dask debug helpers joblib metrics "
        "multiprocessing queue serialization state"
    ).split()
)
_ELSEWHERE = {
    "ActorGroup": "ray.util.actor_group",
    "ActorPool": "ray.util.actor_pool",
    "as_completed": "ray.util.helpers",
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
