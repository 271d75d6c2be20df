"""`_system_config`: Ray's settings of a whole cluster. Of these there are the health checks', which
here say how long a node may be silent before it is declared dead.
"""

import warnings

# By which the daemon is told.
_VARIABLES = {
    "health_check_failure_threshold": "RAY_health_check_failure_threshold",
    "health_check_initial_delay_ms": "RAY_health_check_initial_delay_ms",
    "health_check_period_ms": "RAY_health_check_period_ms",
    "health_check_timeout_ms": "RAY_health_check_timeout_ms",
}


def environment(config, stacklevel=2) -> dict:
    """The variables that stand for it in a head's environment. Warns of keys that mean nothing
    here.
    """
    if not isinstance(config or {}, dict):
        raise TypeError(f"_system_config must be a dict, not {type(config).__name__}")
    found, unknown = {}, []
    for key, value in (config or {}).items():
        if key not in _VARIABLES:
            unknown.append(str(key))
        elif isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{key} in _system_config must be an int, not {value!r}")
        elif value < (key == "health_check_failure_threshold"):
            raise ValueError(f"{key} in _system_config must not be {value}")
        else:
            found[_VARIABLES[key]] = str(value)
    if unknown:
        warnings.warn(
            f"_system_config: Mobula has no such settings: {', '.join(unknown)}",
            stacklevel=stacklevel + 1,
        )
    return found
