"""What a driver does while it is on a node: round after round, each of it noted; see history.py."""

from __future__ import annotations

import os
import random
import time

import history
from cast import Cast
from history import RESULT, SUBMIT
from work import (
    after,
    behind,
    boxed,
    call_by_name,
    checksum,
    fragile,
    gate,
    generate,
    item_of,
    level,
    make_by_name,
    nested,
    task,
    value_of,
)

import ray
from ray.exceptions import GetTimeoutError, LocalRayletDiedError, RayError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

BOUND = 40.0  # seconds in which every call has to come back


class Hung(Exception):
    pass


class Shift:
    """A driver's time on one node."""

    troupe = Cast

    def __init__(self, folder: str, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.told, self.runs = f"{folder}/told", f"{folder}/runs"
        self.count = 0
        self.longest = 0.0
        self.cast = self.troupe(self)

    # What is noted.

    def ids(self, kind: str, count: int) -> list[str]:
        """New ids, noted before anything is submitted by them."""
        made = [f"{kind}.{self.count + i}" for i in range(count)]
        self.count += count
        history.note_all(self.told, SUBMIT, made)
        return made

    def result(self, id: str, ref, expected=None):
        """Waits for the result and notes it; the value, or the error."""
        begin = time.monotonic()
        try:
            value = ray.get(ref, timeout=BOUND)
            word = "value" if expected is None or value == expected else "WRONG"
        except LocalRayletDiedError:
            raise
        except GetTimeoutError:
            raise Hung(f"{id} did not end in {BOUND:g} s") from None
        except RayError as error:
            value, word = error, type(error).__name__
        history.note(self.told, RESULT, id, word)
        self.longest = max(self.longest, time.monotonic() - begin)
        return value

    def where(self) -> dict:
        """Options of a task that say where it is to run."""
        return {}

    # What is done: each is one round.

    def tasks(self) -> None:
        rng, submitted = self.rng, []
        for kind, retries in (("t", -1), ("o", 0), ("r", 3)):
            for id in self.ids(kind, rng.randrange(20, 120)):
                seconds = rng.uniform(0, 0.02) if rng.random() < 0.05 else 0.0
                size = rng.randrange(1, 20_000) if rng.random() < 0.05 else 0
                options = {"max_retries": retries, **self.where()}
                ref = task.options(**options).remote(self.runs, id, seconds, size)
                submitted.append((id, ref, value_of(id).encode() * size or value_of(id)))
        for id, ref, expected in submitted:
            self.result(id, ref, expected)

    def chain(self) -> None:
        ref, expected, links = None, None, []
        for id in self.ids("t", 20):
            ref = after.options(max_retries=-1, **self.where()).remote(self.runs, id, ref)
            expected = f"{value_of(id)}, {expected}"
            links.append((id, ref, expected))
        for id, ref, expected in links:
            self.result(id, ref, expected)

    def objects(self) -> None:
        (id,) = self.ids("t", 1)
        content = self.rng.randbytes(self.rng.choice((10, 10_000, 2_000_000)))
        ref = ray.put(content)
        made = checksum.options(max_retries=-1, **self.where()).remote(self.runs, id, ref)
        if ray.get(ref, timeout=BOUND) != content:
            raise ValueError("an object that was put is not what it was")
        self.result(id, made, sum(content))

    def boxes(self) -> None:
        (id,) = self.ids("t", 1)
        refs = self.result(id, boxed.options(max_retries=-1).remote(self.runs, id, 3))
        found = ray.get(refs, timeout=BOUND)
        if found != [value_of(f"{id}/{i}") * 1000 for i in range(3)]:
            raise ValueError("an object that a task had put is not what it was")

    def generators(self) -> None:
        """Each item comes once and in order, however often its task is run; of some of them only
        the first are read.
        """
        rng, submitted = self.rng, []
        for id in self.ids("t", 3):
            limit = rng.choice((None, None, 4))
            made = generate.options(max_retries=-1, _generator_backpressure_num_objects=limit)
            submitted.append((id, made.remote(self.runs, id, 60)))
        (left,) = self.ids("u", 1)
        unread = generate.options(max_retries=-1).remote(self.runs, left, 100_000)
        for id, generator in submitted:
            for i in range(60):
                self.item(id, i, generator)
            self.result(id, generator.completed())
            if not generator.is_finished():
                raise ValueError(f"{id} has more items than it may")
        for i in range(rng.randrange(30)):
            self.item(left, i, unread)
        done = unread.completed()
        unread.close()
        self.result(left, done)

    def item(self, id: str, i: int, generator) -> None:
        ref = generator._next_sync(timeout_s=BOUND)
        if ref.is_nil():
            raise Hung(f"item {i} of {id} did not come in {BOUND:g} s")
        value = ray.get(ref, timeout=BOUND)
        found = value if i % 7 else ray.get(value[0], timeout=BOUND)
        if found != item_of(id, i):
            raise ValueError(f"item {i} of {id} is {found!r:.80}")

    def nests(self) -> None:
        ids = self.ids("n", 3)
        made = []
        for id in ids:
            made.append(nested.options(max_retries=-1, **self.where()).remote(self.runs, id, 5))
        for id, ref in zip(ids, made):
            self.result(id, ref, [value_of(f"{id}/{i}") for i in range(5)])

    def deaths(self) -> None:
        """Tasks that kill their own worker: as often as they may, and once more."""
        submitted = []
        for kind, retries, times in (("f", 3, 3), ("g", 3, 4), ("h", -1, 5), ("o", 0, 1)):
            (id,) = self.ids(kind, 1)
            options = {"max_retries": retries, **self.where()}
            made = fragile.options(**options).remote(self.runs, id, self.folder, times)
            submitted.append((id, made))
        for id, ref in submitted:
            self.result(id, ref, value_of(id))

    def bundles(self) -> None:
        """Tasks in a placement group: some before it is removed, some while it is."""
        group = ray.util.placement_group([{"CPU": 0.5}] * self.rng.randrange(1, 3))
        within = PlacementGroupSchedulingStrategy(group, self.rng.choice((-1, 0)))
        inside = task.options(max_retries=-1, num_cpus=0.5, scheduling_strategy=within)
        for kind in "tb":
            ids = self.ids(kind, self.rng.randrange(5, 60))
            made = [(id, inside.remote(self.runs, id)) for id in ids]
            if kind == "b":
                ray.util.remove_placement_group(group)
            for id, ref in made:
                self.result(id, ref, value_of(id))

    def environments(self) -> None:
        submitted = []
        for id in self.ids("t", self.rng.randrange(5, 30)):
            at = str(self.rng.randrange(3))
            options = {"runtime_env": {"env_vars": {"CHAOS_LEVEL": at}}, "max_retries": -1}
            ref = level.options(**options).remote(self.runs, id)
            submitted.append((id, ref, f"{value_of(id)} at {at}"))
        for id, ref, expected in submitted:
            self.result(id, ref, expected)

    def cancels_waiting(self) -> None:
        """None of them may ever run: what they wait for comes after the cancel, which does not wait
        itself; that it was heard shows by the results.
        """
        path = f"{self.folder}/gate-{self.count}"
        closed = gate.options(max_retries=-1).remote(path)
        ids = self.ids("w", 10)
        refs = [behind.options(max_retries=-1).remote(self.runs, id, closed) for id in ids]
        for ref in refs:
            ray.cancel(ref)
        for id, ref in zip(ids, refs):
            self.result(id, ref)
        open(path, "w").close()
        ray.get(closed, timeout=BOUND)

    def cancels_running(self) -> None:
        ids = self.ids("x", 4)
        slow = task.options(max_retries=-1, **self.where())
        refs = [slow.remote(self.runs, id, 0.05) for id in ids]
        time.sleep(self.rng.uniform(0, 0.03))
        for ref in refs:
            ray.cancel(ref, force=self.rng.random() < 0.3)
        for id, ref in zip(ids, refs):
            self.result(id, ref, value_of(id))

    def names(self) -> None:
        actor = self.cast.named
        ids = self.ids("t", 2)
        found = call_by_name.options(max_retries=-1)
        refs = [found.remote(self.runs, id, self.cast.name, None) for id in ids]
        for id, ref in zip(ids, refs):
            self.result(id, ref, actor._actor_id.hex())

    def races(self) -> None:
        """Several make an actor of one name: they must have the same."""
        name, ids = f"race-{self.count}", self.ids("t", 3)
        race = make_by_name.options(max_retries=-1)
        made = [race.remote(self.runs, id, name) for id in ids]
        found = [self.result(id, ref) for id, ref in zip(ids, made)]
        if len({actor._actor_id.hex() for actor in found}) != 1:
            raise ValueError(f"{name} was made twice")

    def rounds(self) -> dict:
        """What there is to do, and how often of a hundred times or so."""
        rounds = [self.tasks, self.cast.calls, self.chain, self.objects, self.boxes, self.nests]
        rounds += [self.cancels_waiting, self.cancels_running, self.names, self.races, self.deaths]
        rounds += [self.bundles, self.generators]
        rounds += [self.environments]
        return dict(zip(rounds, [20, 40, 5, 5, 3, 3, 3, 3, 3, 1, 1, 5, 5, 5]))

    def work(self, calm: str) -> None:
        """Until the file is there."""
        rounds = self.rounds()
        self.cast.begin()
        while not os.path.exists(calm):
            self.rng.choices([*rounds], [*rounds.values()])[0]()
        self.cast.end()
