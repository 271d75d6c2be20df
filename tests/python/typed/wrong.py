"""Mistakes that checkers must find: one in each line that ends in `# wrong` (test_types.py)."""

import ray


@ray.remote
def square(x: int) -> int:
    return x * x


class Store:
    def get(self, key: str) -> str:
        return key


Counter = ray.remote(Store)


square.remote("two")  # wrong
square.remote()  # wrong
square.remote(1, 2)  # wrong
square.remote(y=1)  # wrong
square.options(num_cpu=1)  # wrong
square.options(num_cpus="one")  # wrong
Counter.options(max_restart=1)  # wrong
Counter.options(lifetime="for ever")  # wrong
text: str = ray.get(square.remote(1))  # wrong
texts: list[str] = ray.get([square.remote(1)])  # wrong
ray.get(square.remote(1), timeout="1")  # wrong
ray.get(1)  # wrong
ray.wait(square.remote(1))  # wrong
ray.init(num_cpus="2")  # wrong
ray.no_such_name  # wrong
