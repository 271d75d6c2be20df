"""What stands behind the API: not for users, though libraries reach into it."""

import sys


def __getattr__(name):
    # `import ray` loads only some of these modules, and libraries name them without an import.
    path = f"ray._private.{name}"
    try:
        __import__(path)  # importlib would itself have to be loaded
    except ModuleNotFoundError as error:
        from ray._private.later import no_attribute

        raise no_attribute(__name__, name) from error
    return sys.modules[path]
