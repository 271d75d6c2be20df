"""Helpers around the core API."""

from ray._private.later import no_attribute
from ray._private.services import get_node_ip_address

__all__ = ["get_node_ip_address", "list_named_actors", "replay"]


def __getattr__(name):
    if name == "state":
        from importlib import import_module

        return import_module("ray.util.state")
    if name == "list_named_actors":
        from ray._private.names import list_named_actors

        return list_named_actors
    if name == "replay":
        from ray._private.replay import replay

        return replay
    raise no_attribute(__name__, name)
