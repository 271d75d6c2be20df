"""A driver that makes the detached actors and goes, or ends them.

python keeper.py ADDRESS make | die | end

With `die` it kills itself when they are there, which must be the same to them.
"""

from __future__ import annotations

import os
import signal
import sys

from cast import KEEPERS, SPACE
from work import Keeper

import ray


def main() -> None:
    address, what = sys.argv[1:]
    ray.init(address=address, namespace=SPACE)
    if what == "end":
        for name in KEEPERS.values():
            ray.kill(ray.get_actor(name))
        return
    for kind, name in KEEPERS.items():
        retries = -1 if kind == "L" else 0
        actor = ray.remote(Keeper).options(
            name=name,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=retries,
            get_if_exists=True,  # after its node's death the next one makes it again
        )
        ray.get(actor.remote().pid.remote(), timeout=60)
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
