"""Results on disk whose file is gone or damaged: their tasks are run again, within max_retries."""

import glob
import os
import time

import numpy as np
import pytest
import support

import ray
from ray.exceptions import ObjectLostError, RayTaskError

MB = 1 << 20
STORE = 40 * MB
COUNT = 60  # of 2 MB: three times the store


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "spilled")


@pytest.fixture
def note(tmp_path):
    return str(tmp_path / "runs")


@pytest.fixture
def session(start, folder):
    start(num_cpus=2, object_store_memory=STORE, object_spilling_directory=folder)


def files(folder):
    return [path for path in glob.glob(f"{folder}/**", recursive=True) if os.path.isfile(path)]


def lose(folder):
    """Deletes what is on disk. What the daemon has written since it was asked for is lost too."""
    found = files(folder)
    assert found
    for path in found:
        os.unlink(path)


def runs(note):
    return open(note).read().split() if os.path.exists(note) else []


def append(note, word):
    handle = os.open(note, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{word}\n".encode())
    os.close(handle)


def array(seed, size=2 * MB):
    return np.random.default_rng(seed).integers(0, 255, size, dtype=np.uint8)


@ray.remote
def make(seed, note=None):
    if note:
        append(note, seed)
    return array(seed)


@ray.remote
def add(values, more, note=None):
    if note:
        append(note, more)
    return values + np.uint8(more)


@ray.remote
def checksum(values):
    return int(values.sum())


def fill(count=COUNT):
    """Pushes everything that is older out of memory."""
    return [ray.put(array(1000 + i)) for i in range(count)]


def flip(path):
    with open(path, "r+b") as file:
        for at in range(1000, os.path.getsize(path), 100_000):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("damage", [os.unlink, flip, lambda path: os.truncate(path, 5)])
def test_results_are_made_again(session, folder, note, damage, capfd):
    refs = [make.remote(i, note) for i in range(COUNT)]
    ray.wait(refs, num_returns=COUNT)
    for path in files(folder):
        damage(path)
    for i, ref in enumerate(refs):
        assert np.array_equal(ray.get(ref, timeout=40), array(i))
    assert len(runs(note)) > COUNT + 5
    told = ""
    for _ in range(400):
        told += capfd.readouterr().err
        if "run again" in told:
            break
        time.sleep(0.01)
    assert "can't be read back" in told and "Its task is run again to make it." in told


def test_an_argument_of_a_task(session, folder):
    refs = [make.remote(i) for i in range(COUNT)]
    ray.wait(refs, num_returns=COUNT)
    lose(folder)
    sums = [int(array(i).sum()) for i in range(COUNT)]
    assert ray.get([checksum.remote(ref) for ref in refs], timeout=60) == sums


def test_a_reader_that_holds_the_only_cpu(start, folder):
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=folder)

    @ray.remote
    def read(refs):
        return int(ray.get(refs[0]).sum())

    first = make.remote(7)
    ray.wait([first])
    keep = fill()
    lose(folder)
    assert ray.get(read.remote([first]), timeout=40) == int(array(7).sum())
    del keep


def test_a_chain_is_made_again_from_its_beginning(session, folder, note):
    last = make.remote(0)
    for step in range(20):
        last = add.remote(last, step, note)
    ray.wait([last])
    keep = fill()
    lose(folder)
    expected = array(0) + np.uint8(sum(range(20)) % 256)
    assert np.array_equal(ray.get(last, timeout=60), expected)
    assert len(runs(note)) == 40  # the values before the last one were not kept
    del keep


def test_a_long_chain(session, folder):
    last = make.remote(0)
    for _ in range(1500):
        last = add.remote(last, 1)
    ray.wait([last])
    keep = fill()
    lose(folder)
    assert np.array_equal(ray.get(last, timeout=100), array(0) + np.uint8(1500 % 256))
    del keep


def test_small_arguments_are_kept(session, folder):
    @ray.remote
    def scaled(factor, values):
        return np.full(2 * MB, factor * sum(values), np.uint8)

    factor, inner = ray.put(3), ray.put([1, 2, 3])
    ref = scaled.remote(factor, inner)
    ray.wait([ref])
    del factor, inner
    keep = fill()
    lose(folder)
    assert (ray.get(ref, timeout=40) == 18).all()
    del keep


def test_what_put_made_is_lost(session, folder):
    ref = ray.put(array(1))
    made = add.remote(ref, 1)
    ray.wait([made])
    del ref
    keep = fill()
    lose(folder)
    with pytest.raises(ObjectLostError, match="an argument of its task is gone"):
        ray.get(made, timeout=40)
    with pytest.raises(ObjectLostError, match="can't be made again: ray.put or an actor"):
        for ref in keep:
            ray.get(ref, timeout=40)


@pytest.mark.parametrize("retries, times", [(0, 0), (1, 1), (2, 2)])
def test_within_max_retries(session, folder, note, retries, times):
    ref = make.options(max_retries=retries).remote(3, note)
    ray.wait([ref])
    for _ in range(times):
        keep = fill()
        lose(folder)
        assert np.array_equal(ray.get(ref, timeout=40), array(3))
        del keep
    keep = fill()
    lose(folder)
    with pytest.raises(ObjectLostError, match="max_retries"):
        ray.get(ref, timeout=40)
    assert len(runs(note)) == 1 + times
    del keep


def test_an_error_the_second_time(session, folder, note):
    @ray.remote
    def once(note):
        if runs(note):
            raise ValueError("only once")
        append(note, "x")
        return array(1)

    ref = once.remote(note)
    ray.wait([ref])
    keep = fill()
    lose(folder)
    with pytest.raises(ValueError, match="only once") as caught:
        ray.get(ref, timeout=40)
    assert isinstance(caught.value, RayTaskError)
    del keep


def test_a_worker_that_dies_while_it_makes_it_again(session, folder, note):
    @ray.remote(max_retries=3)
    def fragile(note):
        append(note, "x")
        if len(runs(note)) == 2:
            os._exit(1)
        return array(5)

    ref = fragile.remote(note)
    ray.wait([ref])
    keep = fill()
    lose(folder)
    assert np.array_equal(ray.get(ref, timeout=40), array(5))
    assert len(runs(note)) == 3
    del keep


def test_another_size_and_other_references_inside(session, folder, note):
    """A task that is not the same each time: its new value counts."""

    @ray.remote
    def changing(note):
        append(note, "x")
        if len(runs(note)) == 1:
            return array(1)
        return [ray.put("inside"), array(2, 3 * MB)]

    @ray.remote
    def shrinking(note):
        append(note, "y")
        return array(1) if runs(note).count("y") == 1 else "small"

    grown, shrunk = changing.remote(note), shrinking.remote(note)
    ray.wait([grown, shrunk], num_returns=2)
    keep = fill()
    lose(folder)
    inner, value = ray.get(grown, timeout=40)
    assert np.array_equal(value, array(2, 3 * MB)) and ray.get(inner) == "inside"
    assert ray.get(shrunk, timeout=40) == "small"
    del keep


def test_references_inside_a_value_that_is_made_again(session, folder):
    @ray.remote
    def nested(seed):
        return [ray.put(seed), array(seed)]

    refs = [nested.remote(i) for i in range(COUNT)]
    ray.wait(refs, num_returns=COUNT)
    lose(folder)
    for i, ref in enumerate(refs):
        inner, value = ray.get(ref, timeout=40)
        assert ray.get(inner) == i and np.array_equal(value, array(i))


def test_several_results_of_one_task(session, folder, note):
    @ray.remote(num_returns=3)
    def three(note):
        append(note, "x")
        return array(1), "small", array(3)

    first, small, third = three.remote(note)
    ray.wait([first, small, third], num_returns=3)
    keep = fill()
    lose(folder)
    assert np.array_equal(ray.get(third, timeout=40), array(3))
    assert ray.get(small) == "small"
    again = runs(note)
    assert np.array_equal(ray.get(first, timeout=40), array(1))
    # the other one was lost too, and is made again by the same run if it was known to be by then
    assert len(again) == 2 and len(runs(note)) in (2, 3)
    del keep


def test_what_is_kept_is_bounded(start, folder, monkeypatch):
    monkeypatch.setenv("RAY_max_lineage_bytes", "8000")
    start(num_cpus=2, object_store_memory=STORE, object_spilling_directory=folder)
    refs = [make.remote(i) for i in range(COUNT)]
    ray.wait(refs, num_returns=COUNT)
    keep = fill()
    lose(folder)
    with pytest.raises(ObjectLostError, match="RAY_max_lineage_bytes"):
        ray.get(refs[0], timeout=40)
    assert np.array_equal(ray.get(refs[-1], timeout=40), array(COUNT - 1))
    del keep


def test_a_limit_that_makes_no_sense(monkeypatch):
    monkeypatch.setenv("RAY_max_lineage_bytes", "much")
    with pytest.raises(ValueError, match="RAY_max_lineage_bytes=much"):
        ray.init(address="local", num_cpus=1)


def test_nothing_stays_when_the_results_go(session, folder):
    ref = make.remote(0)
    for step in range(50):
        ref = add.remote(ref, step)
    ray.get(ref)
    del ref
    others = [make.remote(i) for i in range(10)]
    ray.wait(others, num_returns=10)
    del others
    from ray.util.state import list_objects

    assert support.wait_until(
        lambda: not [o for o in list_objects(limit=10000) if (o.object_size or 0) > 100_000]
    )


def slow_to_make_again(note):
    append(note, "x")
    while len(runs(note)) > 1 and not os.path.exists(note + ".go"):
        time.sleep(0.01)
    return array(9)


def test_a_task_that_needs_what_is_being_made_again(session, folder, note):
    """Its worker has it already, and dies or goes on when the value is there."""

    @ray.remote
    def first_dies(values, path):
        append(path, "y")
        if len(runs(path)) == 1:
            os._exit(1)
        return int(values.sum())

    ref = ray.remote(slow_to_make_again).remote(note)
    ray.wait([ref])
    keep = [make.remote(i) for i in range(COUNT)]
    ray.wait(keep, num_returns=COUNT)
    assert ray.get(first_dies.remote(np.ones(1), note + ".warm")) == 1
    for path in files(folder):
        flip(path)
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(ref, timeout=0.5)
    waiting = [first_dies.remote(ref, note + f".{i}") for i in range(4)]
    time.sleep(0.2)  # most likely workers have taken them by now; if not, the same must come out
    support.touch(note + ".go")
    assert ray.get(waiting, timeout=60) == [int(array(9).sum())] * 4
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_a_reader_that_asks_again_and_again(start, folder, note):
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=folder)

    @ray.remote
    def poll(refs):
        while True:
            try:
                return int(ray.get(refs[0], timeout=0.01).sum())
            except ray.exceptions.GetTimeoutError:
                pass

    first = make.remote(7, note)
    ray.wait([first])
    keep = fill()
    lose(folder)
    assert ray.get(poll.remote([first]), timeout=60) == int(array(7).sum())
    assert len(runs(note)) == 2
    del keep


def test_a_chain_of_waits_keeps_every_link(session, folder):
    """Each step is submitted when the last is seen, by another worker: nothing is forgotten."""
    last = make.remote(0)
    for _ in range(400):
        ray.wait([last])
        last = add.remote(last, 1)
    ray.wait([last])
    keep = fill()
    lose(folder)
    assert np.array_equal(ray.get(last, timeout=100), array(0) + np.uint8(400 % 256))
    del keep


def test_values_that_are_needed_only_for_others_are_not_kept(session, folder):
    """Also those whose last reference went while they were written to disk or read."""

    def on_disk():
        return sum(os.stat(path).st_blocks * 512 for path in files(folder))

    last = make.remote(0)
    for step in range(150):
        last = add.remote(last, 1)
        if step % 3 == 0:
            ray.wait([last])
    ray.wait([last])
    assert support.wait_until(lambda: on_disk() < 20 * MB)


def test_a_long_chain_that_waits_when_its_program_ends(folder):
    body = """
import ray
ray.init(num_cpus=1)
@ray.remote
def wait(): import time; time.sleep(100)
@ray.remote
def step(x): return x
last = wait.remote()
for _ in range(70000): last = step.remote(last)
print("submitted")
"""
    os.makedirs(folder)
    result = support.run_driver(support.script(folder, body))
    assert (result.returncode, result.stdout) == (0, "submitted\n"), result.stderr
    assert support.wait_until(lambda: not support.sessions())
