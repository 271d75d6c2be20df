"""Messages that are told once: `ray.util.log_once`."""

import time

__all__ = ["disable_log_once_globally", "enable_periodic_logging", "log_once"]

_PERIOD = 60.0  # seconds

_told = set()
_disabled = False
_periodic = False
_last = None


def log_once(key: str) -> bool:
    """True the first time that this process asks with this key.

    if ray.util.log_once("no-gpu"):
        print("there is no GPU; the CPU is used")
    """
    global _last
    if _disabled:
        return False
    if key not in _told:
        _told.add(key)
        _last = time.monotonic()
        return True
    if _periodic and time.monotonic() - _last > _PERIOD:
        _told.clear()
        _last = time.monotonic()
    return False


def disable_log_once_globally() -> None:
    """log_once is False for every key from now on, in this process.

    ray.util.disable_log_once_globally()
    ray.util.log_once("key")            # False, for every key
    """
    global _disabled
    _disabled = True


def enable_periodic_logging() -> None:
    """log_once is True again for each key, a minute after the last that was told.

    ray.util.enable_periodic_logging()
    if ray.util.log_once("key"):        # True once a minute
        print("still at it")
    """
    global _periodic
    _periodic = True
