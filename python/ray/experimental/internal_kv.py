"""Small values by key for all programs of a node: they stay until they are deleted, or the node
ends.

    from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

    _internal_kv_put("key", "value", namespace="mine")
    print(_internal_kv_get("key", namespace="mine"))  # b'value'

They are kept in the daemon's memory, 64 MiB at most together; large values belong into ray.put.
"""

from ray import _core
from ray._private import kv
from ray._private.state import check_connected
from ray._private.worker import is_initialized

__all__ = [
    "_internal_kv_del",
    "_internal_kv_exists",
    "_internal_kv_get",
    "_internal_kv_initialized",
    "_internal_kv_list",
    "_internal_kv_put",
]


def _internal_kv_initialized() -> bool:
    """Whether there is a session to keep anything."""
    return is_initialized()


def _internal_kv_get(
    key: "str | bytes", *, namespace: "str | bytes | None" = None
) -> "bytes | None":
    """The value of a key; None if there is none.

    _internal_kv_get("key")
    """
    return kv.read(_core.KV_GET, _key(key, namespace))


def _internal_kv_exists(key: "str | bytes", *, namespace: "str | bytes | None" = None) -> bool:
    """Whether there is such a key.

    _internal_kv_exists("key")
    """
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: "str | bytes",
    value: "str | bytes",
    overwrite: bool = True,
    *,
    namespace: "str | bytes | None" = None,
) -> bool:
    """Sets the value of a key; with overwrite=False only if there is none. Returns whether there
    was one already.

        _internal_kv_put("key", b"value")
    """
    how = _core.KV_PUT if overwrite else _core.KV_NEW
    return kv.write(how, [(_key(key, namespace), _bytes("value", value))]) == 0


def _internal_kv_del(
    key: "str | bytes", *, del_by_prefix: bool = False, namespace: "str | bytes | None" = None
) -> int:
    """Deletes a key, or all that begin so; returns how many there were.

    _internal_kv_del("key")
    """
    how = _core.KV_DROP_ALL if del_by_prefix else _core.KV_DROP
    return kv.write(how, [(_key(key, namespace), b"")])


def _internal_kv_list(
    prefix: "str | bytes", *, namespace: "str | bytes | None" = None
) -> "list[bytes]":
    """The keys that begin so, in order.

    _internal_kv_list("")
    """
    own = len(_key(b"", namespace))
    return [key[own:] for key in kv.read(_core.KV_LIST, _key(prefix, namespace))]


def _key(key, namespace):
    check_connected()
    space = b"" if namespace is None else _bytes("namespace", namespace)
    if b"\0" in space:
        raise ValueError(f"a namespace can't have a NUL in it, unlike {namespace!r}")
    return kv.of_all(space, _bytes("key", key))


def _bytes(name, value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"{name} must be a str or bytes, not {type(value).__name__}")
