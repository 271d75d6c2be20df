"""priority=: who goes first among what waits."""

import os
import time

import pytest
import support

import ray


@pytest.fixture(autouse=True)
def one_cpu():
    ray.shutdown()
    ray.init(num_cpus=1, address="local")
    yield
    ray.shutdown()


@ray.remote
def hold(path):
    open(path + ".held", "w").close()
    support.wait_until(lambda: os.path.exists(path))


@ray.remote
def note(log, name, seconds=0.0):
    time.sleep(seconds)
    with open(log, "a") as file:
        file.write(name + "\n")


@pytest.fixture
def gate(tmp_path):
    """The only CPU is taken until `gate()`."""
    path = str(tmp_path / "gate")
    held = hold.remote(path)
    support.wait_until(lambda: os.path.exists(path + ".held"))

    def go():
        time.sleep(0.1)  # longer than the daemon takes to have the CPU back
        open(path, "w").close()
        return ray.get(held)

    return go


def order(log):
    with open(log) as file:
        return file.read().split()


def test_the_higher_goes_first(gate, tmp_path):
    log = str(tmp_path / "log")
    refs = [
        note.options(priority=priority).remote(log, name)
        for priority, name in [(0, "plain"), (-3, "low"), (7, "high")]
        for _ in range(5)
    ]
    gate()
    ray.get(refs)
    assert order(log) == ["high"] * 5 + ["plain"] * 5 + ["low"] * 5


def test_those_of_one_priority_keep_their_order(gate, tmp_path):
    log = str(tmp_path / "log")
    refs = [note.options(priority=2).remote(log, str(i)) for i in range(50)]
    gate()
    ray.get(refs)
    assert order(log) == [str(i) for i in range(50)]


def test_other_resources_do_not_matter(gate, tmp_path):
    log = str(tmp_path / "log")
    low = note.options(num_cpus=0.5, priority=-1).remote(log, "low")
    high = note.options(num_cpus=1, memory=1000, priority=1).remote(log, "high")
    gate()
    ray.get([low, high])
    assert order(log) == ["high", "low"]


def test_actors_have_a_place_in_line_too(gate, tmp_path):
    log = str(tmp_path / "log")

    @ray.remote(num_cpus=1)
    class Noted:
        def __init__(self, name):
            with open(log, "a") as file:
                file.write(name + "\n")

        def end(self):
            ray.actor.exit_actor()

    plain = Noted.remote("plain")
    high = Noted.options(priority=1).remote("high")
    ends = [plain.end.remote(), high.end.remote()]
    gate()
    for ref in ends:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)
    assert order(log) == ["high", "plain"]


def test_a_long_line_of_lower_ones_is_overtaken(gate, tmp_path):
    log = str(tmp_path / "log")
    many = [note.remote(log, "plain", 0.002) for _ in range(300)]
    gate()
    time.sleep(0.05)
    urgent = note.options(priority=1).remote(log, "urgent")
    ray.get(urgent)
    assert len(order(log)) < 150
    ray.get(many)


def test_what_has_waited_for_long_goes_first(gate, tmp_path):
    log = str(tmp_path / "log")
    low = note.options(priority=-100).remote(log, "low")
    waiting = [note.options(priority=100).remote(log, "high", 0.01) for _ in range(20)]
    began = time.monotonic()
    gate()
    while not ray.wait([low], timeout=0)[0]:
        assert time.monotonic() < began + 60
        waiting = [ref for ref in waiting if not ray.wait([ref], timeout=0)[0]]
        while len(waiting) < 20:
            waiting.append(note.options(priority=100).remote(log, "high", 0.01))
        time.sleep(0.01)
    assert time.monotonic() > began + 5
    assert order(log).count("high") > 20
    ray.get(waiting)


@pytest.mark.parametrize(
    ("value", "error"), [(101, ValueError), (-101, ValueError), (1.0, TypeError)]
)
def test_a_priority_that_is_none(value, error):
    with pytest.raises(error, match="priority"):
        note.options(priority=value)
    with pytest.raises(error, match="priority"):
        ray.remote(priority=value)(lambda: 1)


def test_calls_keep_their_order():
    @ray.remote
    class A:
        def f(self):
            pass

    with pytest.raises(ValueError, match="keep their order"):
        A.remote().f.options(priority=1)
    with pytest.raises(ValueError, match="keep their order"):
        ray.method(priority=1)(lambda self: 1)
