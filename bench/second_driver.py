"""A driver that joins the node of RAY_ADDRESS and runs one task: how long each took, as JSON."""

from __future__ import annotations

import json
import time

import ray


@ray.remote
def nothing():
    return None


start = time.perf_counter()
ray.init(address="auto", log_to_driver=False)
joined = time.perf_counter()
ray.get(nothing.remote())
done = time.perf_counter()
print(json.dumps({"join": joined - start, "first": done - joined}), flush=True)
