"""The tasks and actors of the chaos: each notes its begin and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

from history import BEGIN, DIES, END, note

import ray
from ray.exceptions import ActorDiedError


def value_of(id: str) -> str:
    return f"value of {id}"


@ray.remote
def task(runs, id, seconds=0.0, size=0):
    note(runs, BEGIN, id)
    if seconds:
        time.sleep(seconds)
    note(runs, END, id)
    return value_of(id) if size == 0 else value_of(id).encode() * size


@ray.remote
def after(runs, id, before):
    """A link of a chain: it has the value of the link before it."""
    note(runs, BEGIN, id)
    note(runs, END, id)
    return f"{value_of(id)}, {before}"


@ray.remote
def checksum(runs, id, content):
    note(runs, BEGIN, id)
    total = sum(content)
    note(runs, END, id)
    return total


@ray.remote
def dig(runs, id, refs):
    """What the references lead to: references, which must outlive those."""
    note(runs, BEGIN, id)
    found = [inner for (inner,) in ray.get(refs)]
    ray.get(found)
    note(runs, END, id)
    return found


@ray.remote
def boxed(runs, id, count):
    """References that its worker made: they must outlive it."""
    note(runs, BEGIN, id)
    made = [ray.put(value_of(f"{id}/{i}") * 1000) for i in range(count)]
    note(runs, END, id)
    return made


@ray.remote
def generate(runs, id, count):
    """Items that come one by one: small ones, larger ones, and one with a reference inside."""
    note(runs, BEGIN, id)
    for i in range(count):
        yield item_of(id, i) if i % 7 else [ray.put(item_of(id, i))]
    note(runs, END, id)


def item_of(id: str, i: int) -> str:
    return value_of(f"{id}/{i}") * (i % 5 + 1) ** 4


@ray.remote
def nested(runs, id, count):
    note(runs, BEGIN, id)
    inner = task.options(max_retries=-1)
    refs = [inner.remote(runs, f"{id}/{i}") for i in range(count)]
    found = ray.get(refs)
    note(runs, END, id)
    return found


@ray.remote
def level(runs, id):
    """What its runtime environment says."""
    note(runs, BEGIN, id)
    found = os.environ["CHAOS_LEVEL"]
    note(runs, END, id)
    return f"{value_of(id)} at {found}"


@ray.remote
def gate(path):
    """Ends when the file is there."""
    while not os.path.exists(path):
        time.sleep(0.002)


@ray.remote
def behind(runs, id, gate):
    note(runs, BEGIN, id)
    note(runs, END, id)
    return value_of(id)


@ray.remote
def fragile(runs, id, folder, deaths):
    """Kills its own process so often, whoever else does too."""
    note(runs, BEGIN, id)
    for i in range(deaths):
        try:
            os.close(os.open(f"{folder}/{id}-{i}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        note(runs, DIES, id)
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(100)
    note(runs, END, id)
    return value_of(id)


@ray.remote
def call_by_name(runs, id, name, namespace):
    """A caller of its own, which finds the actor by its name."""
    note(runs, BEGIN, id)
    found = ray.get_actor(name, namespace)._actor_id.hex()
    note(runs, END, id)
    return found


@ray.remote
def make_by_name(runs, id, name):
    """One of several that make an actor of the same name at the same moment. If its maker is killed
    before anybody else has a handle, the actor ends, and another one is made.
    """
    note(runs, BEGIN, id)
    options = {"max_restarts": -1, "max_task_retries": -1}
    while True:
        actor = ray.remote(Plain).options(name=name, get_if_exists=True, **options).remote()
        try:
            ray.get(actor.pid.remote())
            break
        except ActorDiedError:
            pass
    note(runs, END, id)
    return actor


class Plain:
    """Counts its calls, which are gone after a restart."""

    def __init__(self, runs=None, id=None):
        self.count = 0
        if runs is not None:
            note(runs, BEGIN, f"{id}.made")

    def pid(self):
        return os.getpid()

    def call(self, runs, id, seconds=0.0):
        note(runs, BEGIN, id)
        self.count += 1
        if seconds:
            time.sleep(seconds)
        note(runs, END, id)
        return self.count


class Threaded(Plain):
    def __init__(self, *args):
        super().__init__(*args)
        self.lock = threading.Lock()

    def call(self, runs, id, seconds=0.0):
        note(runs, BEGIN, id)
        with self.lock:
            self.count += 1
        time.sleep(seconds)
        note(runs, END, id)
        return self.count


class Async(Plain):
    async def call(self, runs, id, seconds=0.0):
        note(runs, BEGIN, id)
        self.count += 1
        await asyncio.sleep(seconds)
        note(runs, END, id)
        return self.count


class Keeper(Plain):
    """Detached: every driver calls it."""
