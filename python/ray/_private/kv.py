"""Small values by key, which the daemon keeps for all jobs of the node (see mob_kv in mobula.h)."""

from _struct import pack

from ray import _core

OF_JOB = b"\x01"  # begins a key that goes with its job
_OF_ALL = b"\x02"


def of_job(key: bytes = b"") -> bytes:
    """A key that goes when this process's job has ended."""
    return OF_JOB + bytes.fromhex(_core.current()["job_id"]) + key


def of_all(namespace: bytes, key: bytes) -> bytes:
    """A key that stays until it is deleted."""
    return _OF_ALL + namespace + b"\0" + key


def write(what: int, items) -> int:
    """Sends (key, value) pairs in one message; `what`: _core.KV_PUT and so on. See mob_kv for what
    it returns.
    """
    parts = []
    for key, value in items:
        parts += pack("=II", len(key), len(value)), key, value
    return _core.kv(what, b"".join(parts))


def read(what: int, key: bytes):
    """The answer to KV_GET, KV_LIST or KV_SCAN."""
    return _core.kv(what, pack("=II", len(key), 0) + key)
