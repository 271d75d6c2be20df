"""One driver of the chaos: joins the node, works until that is killed or told to be calm, and joins
the next one.

    python driver.py ROOT NAME SEED PLACE

What it submits and what became of it stands in ROOT/NAME-LIFE/told; see history.py. PLACE is the
number of its node, if there are several (travel.py), else empty. It ends with 3 if a call did not
come back in time, with 4 if one raised what it must not.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback

import history
from history import CALM, JOINED, LOST
from shift import Hung, Shift

import ray
from ray.exceptions import LocalRayletDiedError

HUNG, WRONG = 3, 4


def await_node(root: str, life: int, place: str) -> dict | None:
    """The node after this one; None: there will be none."""
    while not os.path.exists(f"{root}/over"):
        with open(f"{root}/node{place}") as file:
            found = json.load(file)
        if found["life"] > life:
            return found
        time.sleep(0.01)
    return None


def work(root: str, name: str, node: dict, rng: random.Random, kind: type) -> None:
    shift = kind(f"{root}/{name}-{node['life']}", rng)
    os.makedirs(shift.folder, exist_ok=True)
    try:
        ray.init(address=node["address"], namespace="chaos-" + name)
        history.note(shift.told, JOINED, "node")
        shift.work(f"{root}/calm-{node['life']}")
        ray.shutdown()
        history.note(shift.told, CALM, "node", f"{shift.longest:.2f}")
    except (LocalRayletDiedError, ConnectionError) as error:
        history.note(shift.told, LOST, "daemon", type(error).__name__)
        ray.shutdown()
    finally:
        history.forget()


def hold() -> None:
    """For a debugger: everything stays as it is."""
    if "CHAOS_HOLD" in os.environ:
        print(f"pid {os.getpid()} is held", file=sys.stderr, flush=True)
        time.sleep(100_000)


def kind_of(place: str) -> type:
    """What it does; on one of several nodes more than on the only one."""
    if not place:
        return Shift
    from travel import Travel

    return Travel


def main() -> int:
    root, name, seed, place = sys.argv[1:]
    rng, life = random.Random(f"{seed} {name}"), -1
    try:
        while (node := await_node(root, life, place)) is not None:
            life = node["life"]
            work(root, name, node, rng, kind_of(place))
    except Hung as error:
        print(f"HUNG: {error}", file=sys.stderr, flush=True)
        traceback.print_exc()
        hold()
        return HUNG
    except BaseException:
        print("WRONG:", file=sys.stderr)
        traceback.print_exc()
        hold()
        return WRONG
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    if code:
        os._exit(code)  # an end in order would hide what was left
