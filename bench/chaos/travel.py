"""What a driver does on one of several nodes: the same as on the only one, but its tasks, its actors
and what they use are on all of them.

Of actors these more, which live where a resource is that one node has, which may be killed; then
the node that takes its place has it.

R  restarted; a call is begun once at most
S  restarted; calls are retried without end
D  not restarted
"""

from __future__ import annotations

import cast
from shift import BOUND, Shift
from work import Plain, boxed, checksum, dig, task, value_of

import ray

NODES = 4
TINY = 0.001  # of a node's own resource


def place_of(node: int) -> str:
    """The resource that this node alone has."""
    return f"place{node}"


class Troupe(cast.Cast):
    kinds = {
        **cast.KINDS,
        "R": (Plain, {"max_restarts": -1}),
        "S": (Plain, {"max_restarts": -1, "max_task_retries": -1}),
        "D": (Plain, {}),
    }
    keepers = {}  # they would end with their maker's node
    shootable = "PQRS"
    mortal = "CD"

    def options(self, kind: str) -> dict:
        there = {"resources": self.shift.anywhere()} if kind in "RSD" else {}
        return {**super().options(kind), **there}


class Travel(Shift):
    troupe = Troupe

    def anywhere(self) -> dict:
        """Resources that one of the nodes has."""
        return {place_of(self.rng.randrange(NODES)): TINY}

    def where(self) -> dict:
        """Here if there is room, on a certain node, or in turn on all."""
        chosen = self.rng.random()
        if chosen < 0.3:
            return {}
        return {"resources": self.anywhere()} if chosen < 0.8 else {"scheduling_strategy": "SPREAD"}

    def boxes(self) -> None:
        """What a task put on another node may be lost with that."""
        (id,) = self.ids("t", 1)
        made = boxed.options(max_retries=-1, **self.where()).remote(self.runs, id, 3)
        refs = self.result(id, made)
        for i, ref in enumerate(refs):
            (inner,) = self.ids("v", 1)
            self.result(inner, ref, value_of(f"{id}/{i}") * 1000)

    def deep(self) -> None:
        """References in references go through tasks on all nodes, and come back."""
        values = [value_of(f"deep/{self.count}/{i}") * self.rng.choice((1, 500)) for i in range(5)]
        refs = [ray.put([ray.put(value)]) for value in values]
        made = []
        for id in self.ids("t", 4):
            made.append(
                (id, dig.options(max_retries=-1, **self.where()).remote(self.runs, id, refs))
            )
        del refs
        for id, ref in made:
            inner = self.result(id, ref)
            if ray.get(inner, timeout=BOUND) != values:
                raise ValueError("what references lead to is not what it was")

    def large(self) -> None:
        """A value that is made on one node is used on others."""
        source, *users = self.ids("t", 4)
        times = self.rng.choice((10, 10_000, 200_000))
        content = value_of(source).encode() * times
        made = task.options(max_retries=-1, **self.where()).remote(self.runs, source, 0.0, times)
        sums = []
        for id in users:
            ref = checksum.options(max_retries=-1, **self.where()).remote(self.runs, id, made)
            sums.append((id, ref))
        for id, ref in sums:
            self.result(id, ref, sum(content))
        self.result(source, made, content)

    def rounds(self) -> dict:
        found = super().rounds()
        del found[self.races]  # an actor ends with its maker's node, whoever else has found it
        return {**found, self.deep: 8, self.large: 8}
