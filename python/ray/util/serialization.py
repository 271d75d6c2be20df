"""A way of your own to pickle a class: `ray.util.register_serializer`."""

from collections.abc import Callable
from typing import Any

from ray._private import serialization

__all__ = ["deregister_serializer", "register_serializer"]


def register_serializer(
    cls: type, *, serializer: "Callable[[Any], Any]", deserializer: "Callable[[Any], Any]"
) -> None:
    """Has this process send instances of a class as what `serializer` makes of them; whoever gets
    one calls `deserializer` with that.

        class Connection:
            def __init__(self, address):
                self.address = address
                self.lock = threading.Lock()  # which can't be pickled

        ray.util.register_serializer(
            Connection, serializer=lambda c: c.address, deserializer=Connection
        )
        ray.get(ray.put(Connection("localhost")))

    It holds in this process alone. The deserializer travels with the instance, so the receiver need
    register nothing; a task that sends instances back has to register them in its own process. It
    holds for instances of exactly this class, and replaces an earlier one.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_serializer takes a class, not {cls!r}")
    for name, function in (("serializer", serializer), ("deserializer", deserializer)):
        if not callable(function):
            raise TypeError(f"{name} must be callable, not {function!r}")
    serialization.register(cls, lambda instance: (_rebuild, (deserializer, serializer(instance))))


def deregister_serializer(cls: type) -> None:
    """Takes register_serializer back, if there was one.

    ray.util.deregister_serializer(Connection)

        ray.util.register_serializer(Model, serializer=to_bytes, deserializer=from_bytes)
        ray.util.deregister_serializer(Model)
    """
    serialization.deregister(cls)


def _rebuild(deserializer, data):
    return deserializer(data)
