"""The actors of one driver, one of each kind, and its calls of them.

P  restarted; a call is begun once at most
Q  restarted; calls are retried without end
C  not restarted
N  as P, with a name, called by handles that others find by it
T  restarted; three threads
Y  async, restarted; calls are retried without end
G  restarted; two groups of calls beside each other
K, L  detached, of all drivers: as P, and as Q
"""

from __future__ import annotations

from history import SHOT, note
from work import Async, Plain, Threaded

import ray
from ray.exceptions import ActorDiedError

KEEPERS = {"K": "keeper", "L": "stubborn keeper"}
SPACE = "chaos"  # of the keepers' names

GROUPS = {"one": 1, "two": 2}

KINDS = {
    "P": (Plain, {"max_restarts": -1}),
    "Q": (Plain, {"max_restarts": -1, "max_task_retries": -1}),
    "C": (Plain, {}),
    "N": (Plain, {"max_restarts": -1}),
    "T": (Threaded, {"max_restarts": -1, "max_concurrency": 3}),
    "Y": (Async, {"max_restarts": -1, "max_task_retries": -1}),
    "G": (Threaded, {"max_restarts": -1, "concurrency_groups": GROUPS}),
}


class Cast:
    kinds = KINDS
    keepers = KEEPERS
    shootable = "PQ"
    mortal = "C"  # these are replaced when they have died

    def __init__(self, shift) -> None:
        self.shift = shift
        self.made = 0
        self.name = ""
        self.actors: dict[str, tuple] = {}  # kind: (number, handle, calls so far)

    @property
    def named(self):
        return self.actors["N"][1]

    def begin(self) -> None:
        for kind in self.kinds:
            self.make(kind)

    def make(self, kind: str) -> None:
        """A new actor of the kind; the one before it ends with its last handle."""
        cls, _ = self.kinds[kind]
        options = self.options(kind)
        self.made += 1
        if kind == "N":
            self.name = f"named-{self.made}"
            options = {**options, "name": self.name}
        number = f"{kind}{self.made}"
        self.actors[kind] = (
            number,
            ray.remote(cls).options(**options).remote(self.shift.runs, number),
        )

    def options(self, kind: str) -> dict:
        return self.kinds[kind][1]

    def find(self, kind: str) -> tuple:
        if kind in KEEPERS:
            return kind, ray.get_actor(KEEPERS[kind], SPACE)
        number, actor = self.actors[kind]
        return number, ray.get_actor(self.name) if kind == "N" else actor

    def calls(self) -> None:
        """Some calls of each of some actors, all under way at once."""
        shift, rng, submitted = self.shift, self.shift.rng, []
        for kind in rng.sample([*self.kinds, *self.keepers], 3):
            number, actor = self.find(kind)
            for id in shift.ids(number, rng.randrange(5, 40)):
                seconds = rng.uniform(0, 0.01) if rng.random() < 0.2 else 0.0
                call = actor.call
                if kind == "G" and rng.random() < 0.8:
                    call = call.options(concurrency_group=rng.choice([*GROUPS]))
                submitted.append((id, call.remote(shift.runs, id, seconds)))
            if kind in self.shootable and rng.random() < 0.1:
                note(shift.told, SHOT, number)
                ray.kill(actor, no_restart=False)
        dead = set()
        for id, ref in submitted:
            value = shift.result(id, ref)
            if id[0] in self.mortal and isinstance(value, ActorDiedError):
                dead.add(id[0])
        for kind in sorted(dead):
            self.make(kind)
        if rng.random() < 0.05:
            self.make(rng.choice([*self.kinds]))

    def end(self) -> None:
        self.actors.clear()
