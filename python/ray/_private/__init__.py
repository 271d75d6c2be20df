"""What stands behind the API: not for users, though libraries reach into it."""


def __getattr__(name):
    # `import ray` loads only some of these modules, and libraries name them without an import.
    from importlib import import_module

    from ray._private.later import no_attribute

    try:
        return import_module(f"ray._private.{name}")
    except ModuleNotFoundError as error:
        raise no_attribute(__name__, name) from error
