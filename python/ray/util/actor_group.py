"""Several actors of a class, called together: `ray.util.ActorGroup`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ray

__all__ = ["ActorGroup", "ActorMetadata", "ActorWrapper"]


@dataclass(frozen=True)
class ActorMetadata:
    """Where an actor of a group runs."""

    node_id: str
    node_ip: str
    hostname: str
    gpu_ids: "list | None"


@dataclass(frozen=True)
class ActorWrapper:
    """An actor of a group and where it runs."""

    actor: Any
    metadata: ActorMetadata


class ActorGroup:
    """Actors of one class that are called all at once.

        class Worker:
            def double(self, x):
                return 2 * x

        group = ActorGroup(Worker, num_actors=2)
        print(ray.get(group.double.remote(2)))  # [4, 4]
        group.shutdown()

    `group[0].actor` is the first one's handle.
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: "dict | None" = None,
        init_args: "tuple | None" = None,
        init_kwargs: "dict | None" = None,
    ):
        """
        Args:
            actor_cls: a plain class, or one that ray.remote was applied to.
            num_actors: how many.
            num_cpus_per_actor, num_gpus_per_actor, resources_per_actor: what each one holds.
            init_args, init_kwargs: what each constructor is given.
        """
        if isinstance(num_actors, bool) or not isinstance(num_actors, int) or num_actors <= 0:
            raise ValueError(f"num_actors must be a positive int, not {num_actors!r}")
        for name, amount in (
            ("num_cpus_per_actor", num_cpus_per_actor),
            ("num_gpus_per_actor", num_gpus_per_actor),
        ):
            if amount < 0:
                raise ValueError(f"{name} must be 0 or more, not {amount}")
        plain = isinstance(actor_cls, type)
        self.actor_cls = actor_cls if plain else actor_cls.__ray_actor_class__
        self.num_actors = num_actors
        self._class = (ray.remote(actor_cls) if plain else actor_cls).options(
            num_cpus=num_cpus_per_actor,
            num_gpus=num_gpus_per_actor,
            resources=resources_per_actor or {},
        )
        self._init = tuple(init_args or ()), dict(init_kwargs or {})
        self.actors = []
        self.start()

    def start(self) -> None:
        """Makes the actors, after a shutdown()."""
        if self.actors:
            raise RuntimeError("the actors of this group are there already: call shutdown() before")
        self.add_actors(self.num_actors)

    def add_actors(self, num_actors: int) -> None:
        """Makes so many more."""
        made = [self._class.remote(*self._init[0], **self._init[1]) for _ in range(num_actors)]
        found = ray.get([actor.__ray_call__.remote(_metadata) for actor in made])
        self.actors += [ActorWrapper(actor, data) for actor, data in zip(made, found)]

    def remove_actors(self, actor_indexes: "list[int]") -> None:
        """Ends those at these places."""
        gone = {range(len(self.actors))[index] for index in actor_indexes}
        kept = [wrapper for i, wrapper in enumerate(self.actors) if i not in gone]
        ended = [wrapper for i, wrapper in enumerate(self.actors) if i in gone]
        self.actors = kept
        _end(ended, 5)

    def shutdown(self, patience_s: float = 5) -> None:
        """Ends all of them; those that have not ended after `patience_s` seconds, by force."""
        ended, self.actors = self.actors, []
        _end(ended, patience_s)

    @property
    def actor_metadata(self) -> "list[ActorMetadata]":
        """Where each one runs."""
        return [wrapper.metadata for wrapper in self.actors]

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"'ActorGroup' object has no attribute '{name}'")
        if not self.actors:
            raise RuntimeError("the actors of this group have ended: call start() before")
        return _GroupMethod([getattr(wrapper.actor, name) for wrapper in self.actors])

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, index) -> ActorWrapper:
        return self.actors[index]

    def __iter__(self) -> Iterator[ActorWrapper]:
        return iter(list(self.actors))


class _GroupMethod:
    """A method of all actors of a group."""

    def __init__(self, methods):
        self._methods = methods

    def remote(self, *args, **kwargs) -> list:
        """Calls it on each; the references, in the order of the actors."""
        return [method.remote(*args, **kwargs) for method in self._methods]


def _metadata(_actor):
    import socket

    from ray.util import get_node_ip_address

    return ActorMetadata(
        node_id=ray.get_runtime_context().get_node_id(),
        node_ip=get_node_ip_address(),
        hostname=socket.gethostname(),
        gpu_ids=ray.get_gpu_ids(),
    )


def _end(wrappers, patience_s):
    ends = {wrapper.actor.__ray_terminate__.remote(): wrapper.actor for wrapper in wrappers}
    if not ends:
        return
    _, late = ray.wait(list(ends), num_returns=len(ends), timeout=patience_s)
    for ref in late:
        ray.kill(ends[ref])
