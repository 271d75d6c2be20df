"""Helpers around the core API."""

from importlib import import_module

from ray._private.later import no_attribute
from ray._private.services import get_node_ip_address

__all__ = ["ActorPool", "get_node_ip_address", "list_named_actors", "replay"]

_MODULES = frozenset("actor_pool multiprocessing queue state".split())
_ELSEWHERE = {
    "ActorPool": "ray.util.actor_pool",
    "list_named_actors": "ray._private.names",
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
