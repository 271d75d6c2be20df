"""tqdm in drivers, tasks and actors."""

import io
import subprocess
import sys

import pytest

pytest.importorskip("tqdm")

import support
from tqdm import tqdm

import ray

PROGRAM = """
import ray
from tqdm import tqdm, trange

@ray.remote
def work(name, n):
    done = 0
    for _ in tqdm(range(n), desc=name, mininterval=0):
        done += 1
    return done

@ray.remote
class Actor:
    def work(self):
        with tqdm(total=30, desc="actor") as bar:
            for _ in range(3):
                bar.update(10)
        return bar.n

ray.init(num_cpus=2)
actor = Actor.remote()
print(ray.get([work.remote("one", 40), work.remote("two", 60), actor.work.remote()]))
for ref in tqdm([ray.put(i) for i in range(5)], desc="driver"):
    ray.get(ref)
ray.shutdown()
"""


def test_bars_of_workers_reach_the_driver(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, support.run_folder()], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "[40, 60, 30]" in done.stdout
    for name, total in (("one", 40), ("two", 60), ("actor", 30), ("driver", 5)):
        assert f"{name}: 100%" in done.stderr and f"{total}/{total}" in done.stderr, done.stderr
    assert "(work pid=" in done.stderr


@pytest.mark.usefixtures("session")
def test_a_bar_around_wait_as_completed_and_generators():
    @ray.remote
    def square(x):
        return x * x

    def refs():
        return [square.remote(i) for i in range(50)]

    out = io.StringIO()
    left, found = refs(), []
    with tqdm(total=50, file=out) as bar:
        while left:
            done, left = ray.wait(left)
            found += ray.get(done)
            bar.update(len(done))
    assert sorted(found) == [x * x for x in range(50)] and "50/50" in out.getvalue()

    found = list(tqdm(ray.util.as_completed(refs()), total=50, file=io.StringIO()))
    assert sorted(found) == [x * x for x in range(50)]

    @ray.remote
    def count(n):
        yield from range(n)

    bar = tqdm(count.remote(20), file=io.StringIO())
    assert [ray.get(ref) for ref in bar] == list(range(20)) and bar.n == 20


@pytest.mark.usefixtures("session")
def test_async_bars():
    import asyncio

    from tqdm.asyncio import tqdm as async_tqdm

    @ray.remote
    def square(x):
        return x * x

    async def wait(ref):
        return await ref

    async def gather():
        return await async_tqdm.gather(
            *(wait(square.remote(i)) for i in range(30)), file=io.StringIO()
        )

    assert asyncio.run(gather()) == [x * x for x in range(30)]
