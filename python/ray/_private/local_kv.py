"""Values by key in local mode, which has no daemon to keep them: what _core.kv does there."""

from _struct import unpack_from
from array import array

from ray import _core

_kept = {}


def forget():
    """Local mode ends."""
    _kept.clear()


def kv(what: int, items: bytes):
    """As mob_kv of mobula.h."""
    count = 0
    for key, value in _split(items):
        if what == _core.KV_GET:
            return _kept.get(key)
        if what in (_core.KV_LIST, _core.KV_SCAN):
            found = sorted(known for known in _kept if known.startswith(key))
            return tuple(
                known if what == _core.KV_LIST else (known, _kept[known]) for known in found
            )
        if what in (_core.KV_DROP, _core.KV_DROP_ALL):
            gone = [k for k in _kept if k == key or (what != _core.KV_DROP and k.startswith(key))]
            count += len(gone)
            for known in gone:
                del _kept[known]
            continue
        count += key not in _kept
        if what == _core.KV_PUT or key not in _kept:
            _kept[key] = value
        elif what == _core.KV_ADD:
            _kept[key] = _added(_kept[key], value)
    return count


def _split(items):
    at = 0
    while at < len(items):
        key_size, value_size = unpack_from("=II", items, at)
        at += 8
        yield items[at : at + key_size], items[at + key_size : at + key_size + value_size]
        at += key_size + value_size


def _added(numbers, more):
    if len(numbers) != len(more):
        raise ValueError("these keys and values make no sense: there are not as many numbers")
    return array("d", map(float.__add__, array("d", numbers), array("d", more))).tobytes()
