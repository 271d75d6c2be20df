"""Marks that libraries put on their functions and classes: what they mark works as before.

from ray.util.annotations import PublicAPI

@PublicAPI(stability="beta")
def f(): ...
"""

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI", "RayDeprecationWarning"]


class RayDeprecationWarning(DeprecationWarning):
    """Something goes away."""


def _mark(name):
    def mark(*args, **kwargs):
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return mark()(args[0])

        def decorate(thing):
            try:
                thing._annotated = getattr(thing, "__name__", None)
                thing._annotated_type = name
            except (AttributeError, TypeError):  # one that takes no attributes
                pass
            return thing

        return decorate

    mark.__name__ = name
    mark.__doc__ = (
        f"@{name}, with or without arguments: marks a function or class, changes nothing."
    )
    return mark


PublicAPI = _mark("PublicAPI")
DeveloperAPI = _mark("DeveloperAPI")
Deprecated = _mark("Deprecated")
