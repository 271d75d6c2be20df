"""A short tour: tasks, objects, actors, and what they cost. Run it with `make run`."""

import time

import numpy as np

import ray

start = time.perf_counter()
ray.init(num_cpus=4)
print(
    f"Up after {(time.perf_counter() - start) * 1000:.0f} ms, with "
    f"{ray.cluster_resources()['CPU']:.0f} CPUs."
)


@ray.remote
def slow_square(x):
    time.sleep(0.2)
    return x * x


start = time.perf_counter()
squares = ray.get([slow_square.remote(x) for x in range(4)])
print(f"Tasks: four calls of 0.2 s each gave {squares} in {time.perf_counter() - start:.2f} s.")


@ray.remote
def total(*numbers):
    return sum(numbers)


refs = [slow_square.remote(x) for x in (3, 4)]
print(f"References as arguments arrive as values: 3^2 + 4^2 = {ray.get(total.remote(*refs))}.")


@ray.remote
def sum_of_squares(n):
    return sum(ray.get([slow_square.remote(x) for x in range(n)]))


print(f"Tasks start tasks: the first four squares add up to {ray.get(sum_of_squares.remote(4))}.")

data = np.random.rand(4_000_000)
ref = ray.put(data)
start = time.perf_counter()
view = ray.get(ref)
print(
    f"Objects: {view.nbytes >> 20} MiB fetched in {(time.perf_counter() - start) * 1e6:.0f} us, "
    f"without a copy."
)


@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def increment(self):
        self.count += 1
        return self.count


counter = Counter.remote()
print(f"Actors keep state: {ray.get([counter.increment.remote() for _ in range(5)])}.")

pending = [slow_square.remote(x) for x in range(8)]
ready, pending = ray.wait(pending, num_returns=4)
print(
    f"wait: {len(ready)} of 8 are ready, {len(pending)} are not; the rest adds up to "
    f"{sum(ray.get(pending))}."
)


@ray.remote
def nothing():
    return None


start = time.perf_counter()
ray.get([nothing.remote() for _ in range(5000)])
print(f"Speed: {5000 / (time.perf_counter() - start):,.0f} tasks a second.")
ray.shutdown()
