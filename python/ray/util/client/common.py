"""Classes of Ray's client, which is not in Mobula: there is no instance of them, so that
`isinstance(value, ClientObjectRef)` is right.
"""

__all__ = ["ClientActorHandle", "ClientActorRef", "ClientObjectRef"]


class _OfClient:
    def __init__(self, *args, **kwargs):
        from ray._private.later import refused

        raise refused("ray.client")


class ClientObjectRef(_OfClient):
    """A reference of a client; there are none."""


class ClientActorRef(_OfClient):
    """An actor's reference of a client; there are none."""


class ClientActorHandle(_OfClient):
    """An actor's handle of a client; there are none."""
