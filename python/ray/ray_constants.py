"""Constants that libraries import. Mobula has no Redis password of its own: this is the default
they pass around.
"""

import os

REDIS_DEFAULT_PASSWORD = "5241590000000000"
DEFAULT_PORT = 6379
DEFAULT_DASHBOARD_IP = "127.0.0.1"
DEFAULT_DASHBOARD_PORT = 8265
DEFAULT_OBJECT_STORE_MEMORY_PROPORTION = 0.3
DEFAULT_NODE_IP = NODE_DEFAULT_IP = "127.0.0.1"
RAY_ADDRESS_ENVIRONMENT_VARIABLE = "RAY_ADDRESS"
RAY_NAMESPACE_ENVIRONMENT_VARIABLE = "RAY_NAMESPACE"
RESOURCE_CONSTRAINT_PREFIX = "accelerator_type:"
LOGGER_LEVEL = "info"
LOGGER_FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"


def env_integer(key: str, default: int) -> int:
    """A variable of the environment as an int."""
    value = os.environ.get(key, "")
    return int(value) if value.lstrip("-").isdigit() else default


def env_float(key: str, default: float) -> float:
    """A variable of the environment as a float."""
    try:
        return float(os.environ.get(key, default))
    except ValueError:
        return default


def env_bool(key: str, default: bool) -> bool:
    """A variable of the environment as a bool: "1" and "true" are."""
    value = os.environ.get(key)
    return default if value is None else value.lower() in ("1", "true")
