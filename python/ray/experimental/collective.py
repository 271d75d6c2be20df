"""Collective groups that one process makes of actors, and takes apart again.

The operations themselves are those of ray.util.collective, called in the actors.
"""

import uuid

import ray
from ray._private import session
from ray._private.later import no_attribute
from ray.util import collective
from ray.util.collective.types import Backend

__all__ = [
    "CommunicatorHandle",
    "create_collective_group",
    "destroy_all_collective_groups",
    "destroy_collective_group",
    "get_collective_groups",
]

_made = {}  # by (epoch, name): what this process has made


class CommunicatorHandle:
    """A group that create_collective_group has made."""

    def __init__(self, actors: list, name: str, backend: str):
        self._actors = list(actors)
        self._name = name
        self._backend = backend

    def __repr__(self):
        return f"CommunicatorHandle({self._name!r}, {len(self._actors)} actors, {self._backend!r})"

    def get_rank(self, actor) -> int:
        """The actor's rank; -1 if it is not in the group."""
        return self._actors.index(actor) if actor in self._actors else -1

    @property
    def actors(self) -> list:
        """The actors, in the order of their ranks."""
        return self._actors[:]

    @property
    def name(self) -> str:
        """The group_name that the actors give to ray.util.collective's functions."""
        return self._name

    @property
    def backend(self) -> str:
        """As it was asked for."""
        return self._backend


def create_collective_group(
    actors: list, backend: str, name: "str | None" = None
) -> CommunicatorHandle:
    """Makes these actors a group, each by its place in the list; all have joined it when this
    returns.

        group = create_collective_group([a, b], backend="gloo")
        ray.get([actor.step.remote(group.name) for actor in (a, b)])

    Args:
        actors: the handles.
        backend: "gloo", as of ray.util.collective.
        name: the group's name; None: one that no other group has.
    """
    backend = Backend(backend)
    name = str(uuid.uuid4()) if name is None else name
    actors = list(actors)
    if not actors:
        raise ValueError("a collective group needs an actor at least")
    if len({actor._actor_id for actor in actors}) != len(actors):
        raise ValueError(f"All actors must be unique, and are {actors}")
    joins = [
        actor.__ray_call__.remote(_join, len(actors), rank, backend, name)
        for rank, actor in enumerate(actors)
    ]
    try:
        ray.get(joins)
    except BaseException:
        for actor in actors:
            actor.__ray_call__.remote(_leave, name)
        raise
    group = _made[session.epoch, name] = CommunicatorHandle(actors, name, backend)
    return group


def get_collective_groups(
    actors: "list | None" = None, backend: "str | None" = None
) -> "list[CommunicatorHandle]":
    """The groups made by this process that all of these actors are in.

    groups = get_collective_groups([a])
    """
    return [
        group
        for (epoch, _), group in _made.items()
        if epoch == session.epoch
        and all(actor in group._actors for actor in actors or ())
        and backend in (None, group.backend)
    ]


def destroy_collective_group(group_or_name: "CommunicatorHandle | str") -> None:
    """Takes a group apart that this process has made; actors that are dead are left out.

    destroy_collective_group(group)
    """
    if isinstance(group_or_name, CommunicatorHandle):
        name = group_or_name.name
    elif isinstance(group_or_name, str):
        name = group_or_name
    else:
        raise ValueError("Expected CommunicatorHandle or str (group name).")
    group = _made.pop((session.epoch, name), None)
    if group is None:
        raise ValueError(f"No group with name {name} found.")
    for leaving in [actor.__ray_call__.remote(_leave, name) for actor in group.actors]:
        try:
            ray.get(leaving)
        except ray.exceptions.RayActorError:
            pass


def destroy_all_collective_groups() -> None:
    """Takes all groups apart that this process has made."""
    for group in get_collective_groups():
        destroy_collective_group(group)


def _join(actor, world_size, rank, backend, name):
    collective.init_collective_group(world_size, rank, backend, name)


def _leave(actor, name):
    collective.destroy_collective_group(name)


def __getattr__(name):
    raise no_attribute(__name__, name)
