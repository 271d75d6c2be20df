"""ray.experimental.internal_kv."""

import pytest

import ray
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_exists,
    _internal_kv_get,
    _internal_kv_initialized,
    _internal_kv_list,
    _internal_kv_put,
)


@pytest.mark.usefixtures("session")
def test_values_by_key():
    assert _internal_kv_initialized()
    assert _internal_kv_get("a") is None and not _internal_kv_exists("a")
    assert _internal_kv_put("a", "1") is False
    assert _internal_kv_put(b"a", b"\0two\xff") is True
    assert _internal_kv_get("a") == b"\0two\xff"
    assert _internal_kv_put("a", "3", overwrite=False) is True
    assert _internal_kv_get("a") == b"\0two\xff"
    assert _internal_kv_put("empty", b"") is False and _internal_kv_get("empty") == b""
    assert _internal_kv_del("a") == 1 and _internal_kv_del("a") == 0
    assert not _internal_kv_exists("a") and _internal_kv_exists("empty")


@pytest.mark.usefixtures("session")
def test_beginnings_and_namespaces():
    for key in ("ab", "aa", "b"):
        _internal_kv_put(key, key)
    _internal_kv_put("ac", "other", namespace="space")
    assert _internal_kv_list("a") == [b"aa", b"ab"]
    assert _internal_kv_list("a", namespace=b"space") == [b"ac"]
    assert _internal_kv_get("ac") is None and _internal_kv_get("aa", namespace="space") is None
    assert _internal_kv_del("a", del_by_prefix=True) == 2
    assert _internal_kv_list("") == [b"b"]
    assert _internal_kv_list("", namespace="space") == [b"ac"]


@pytest.mark.usefixtures("session")
def test_workers_see_it():
    _internal_kv_put("from the driver", "1")

    @ray.remote
    def look():
        _internal_kv_put("from a task", "2")
        return _internal_kv_get("from the driver")

    assert ray.get(look.remote()) == b"1" and _internal_kv_get("from a task") == b"2"


@pytest.mark.usefixtures("session")
def test_large_values_and_the_limit():
    large = b"x" * (20 << 20)
    for i in range(3):
        _internal_kv_put(f"large {i}", large)
    assert _internal_kv_get("large 2") == large
    with pytest.raises(ray.exceptions.RaySystemError, match="64 MiB"):
        _internal_kv_put("one more", large)
    assert not _internal_kv_exists("one more")
    _internal_kv_del("large", del_by_prefix=True)
    assert _internal_kv_put("one more", large) is False
    with pytest.raises(ray.exceptions.RaySystemError, match="64 MiB"):
        _internal_kv_put("too large", b"x" * (65 << 20))


@pytest.mark.usefixtures("session")
def test_bad_input():
    for key, value in ((1, "v"), ("k", 1), (None, "v")):
        with pytest.raises(TypeError, match="str or bytes"):
            _internal_kv_put(key, value)
    with pytest.raises(ValueError, match="NUL"):
        _internal_kv_get("k", namespace="a\0b")
    with pytest.raises(ValueError):
        ray._core.kv(ray._core.KV_GET, b"\xff\xff\xff\xff\0\0\0\0")
    with pytest.raises(ValueError):
        ray._core.kv(99, b"")


def test_without_a_session():
    assert not _internal_kv_initialized()
    with pytest.raises(ray.exceptions.RaySystemError, match="ray.init"):
        _internal_kv_get("a")
