"""For those who check their programs with mypy: it does not ask a decorator what it makes of a class,
so that it would not know the `remote` of one that is decorated with `@ray.remote`. With this in
mypy's settings it does:

    [mypy]
    plugins = ray.mypy_plugin

Without it, decorate functions only, and write `CounterActor = ray.remote(Counter)`. Other checkers
need nothing.
"""

from mypy.nodes import ARG_STAR, ARG_STAR2, Argument, Var
from mypy.plugin import ClassDefContext, Plugin
from mypy.plugins.common import add_method_to_class
from mypy.types import AnyType, Instance, TypeOfAny


def _make_actor_class(context: ClassDefContext) -> bool:
    """Gives the class what an ActorClass has."""
    itself = [Instance(context.cls.info, [])]
    for name, result in (
        ("remote", context.api.named_type_or_none("ray.actor.ActorHandle", itself)),
        ("options", context.api.named_type_or_none("ray.actor.ActorClass", itself)),
        ("bind", context.api.named_type_or_none("ray.dag.class_node.ClassNode")),
    ):
        if result is None:  # not analyzed yet: mypy asks again
            return False
        anything = AnyType(TypeOfAny.explicit)
        arguments = [
            Argument(Var("args", anything), anything, None, ARG_STAR),
            Argument(Var("kwargs", anything), anything, None, ARG_STAR2),
        ]
        add_method_to_class(context.api, context.cls, name, arguments, result, is_classmethod=True)
    return True


class _RayPlugin(Plugin):
    def get_class_decorator_hook_2(self, fullname):
        return _make_actor_class if fullname == "ray.remote" else None


def plugin(version: str):
    """What mypy calls."""
    return _RayPlugin
