"""Helpers around the core API."""

from ray._private.later import no_attribute
from ray._private.services import get_node_ip_address

__all__ = ["get_node_ip_address"]


def __getattr__(name):
    if name == "state":
        from importlib import import_module

        return import_module("ray.util.state")
    raise no_attribute(__name__, name)
