"""Helpers around the core API."""

from ray._private.later import no_attribute
from ray._private.services import get_node_ip_address

__all__ = ["get_node_ip_address"]


def __getattr__(name):
    raise no_attribute(__name__, name)
