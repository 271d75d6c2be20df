"""Actors with names, and detached ones: who finds them, who has a name, and how long they live."""

import os
import signal
import subprocess
import sys

import drivers
import pytest
import support

import ray
from ray.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorHandleNotFoundError,
    OwnerDiedError,
    PendingCallsLimitExceeded,
    RayError,
)
from ray.util import list_named_actors
from ray.util.state import list_jobs

NODE = {"num_cpus": 2}
SPACE = "tests"

kept = {}  # in a driver: what stays between two calls of it


@ray.remote(num_cpus=0)
class Box(drivers.Keeper):
    def leave(self):
        ray.actor.exit_actor()

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed

    def read(self, pickled):
        return ray.get(ray.cloudpickle.loads(pickled))

    def ask(self, pickled):
        return ray.get(ray.cloudpickle.loads(pickled).get.remote())

    def nest(self, x):
        return ray.get(echo.remote(x))

    def wait(self, path):
        support.touch(f"{path}.runs")
        support.wait_for_file(path)
        return path


@ray.remote
def echo(x):
    return x


@pytest.fixture(autouse=True)
def joined(node):
    """This process is a driver too. After each test no actor is left."""
    ray.init(address=node.folder, namespace=SPACE)
    yield
    for row in list_named_actors(all_namespaces=True):
        try:
            ray.kill(ray.get_actor(**row))
        except ValueError:  # it has just ended
            pass
    assert support.wait_until(lambda: not list_named_actors(all_namespaces=True))
    ray.shutdown()
    assert support.wait_until(lambda: not drivers.on_node(node))


def wait_until(condition, seconds=40):
    assert support.wait_until(condition, seconds)


def is_gone(name, namespace=SPACE):
    return {"name": name, "namespace": namespace} not in list_named_actors(all_namespaces=True)


def make(name, value=None, **options):
    actor = Box.options(name=name, **options).remote(value)
    ray.get(actor.__ray_ready__.remote())
    return actor


# ---- names ----


def test_a_named_actor_is_found():
    box = make("box", 5)
    found = ray.get_actor("box")
    assert found == box and ray.get(found.get.remote()) == 5
    assert list_named_actors() == ["box"]
    assert ray.get(ray.remote(lambda: ray.get_actor("box").get.remote()).remote()) is not None


def test_the_name_in_the_runtime_context():
    @ray.remote
    class Named:
        def name(self):
            return ray.get_runtime_context().get_actor_name()

    assert ray.get(Named.options(name="called").remote().name.remote()) == "called"


def test_the_last_handle_ends_the_actor_and_frees_its_name():
    box = make("box")
    pid = ray.get(box.pid.remote())
    found = ray.get_actor("box")
    del box
    assert ray.get(found.pid.remote()) == pid
    last = found.put.remote(1)  # calls that came before are carried out
    del found
    ray.get(last)
    wait_until(lambda: not support.alive(pid) and is_gone("box"))
    with pytest.raises(ValueError, match="'box'"):
        ray.get_actor("box")
    assert ray.get(make("box", 2).get.remote()) == 2


@pytest.mark.parametrize("end", ["kill", "exit_actor", "terminate", "crash"])
def test_a_name_is_free_when_its_actor_is_dead(end):
    box = make("box", lifetime="detached")
    pid = ray.get(box.pid.remote())
    if end == "kill":
        ray.kill(box)
    elif end == "exit_actor":
        with pytest.raises(ActorDiedError):
            ray.get(box.leave.remote(), timeout=40)
    elif end == "terminate":
        with pytest.raises(ActorDiedError):
            ray.get(box.__ray_terminate__.remote(), timeout=40)
    else:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not support.alive(pid) and is_gone("box"))
    assert ray.get(make("box", 2).get.remote()) == 2


def test_an_actor_whose_constructor_fails_has_no_name():
    @ray.remote
    class Fails:
        def __init__(self):
            raise ZeroDivisionError("not this one")

        def get(self):
            return 1

    with pytest.raises(ActorDiedError, match="not this one"):
        ray.get(Fails.options(name="fails").remote().get.remote(), timeout=40)
    wait_until(lambda: is_gone("fails"))


def test_a_taken_name():
    box = make("box", 1)
    with pytest.raises(ActorAlreadyExistsError, match="box") as info:
        Box.options(name="box").remote(2)
    assert isinstance(info.value, ValueError)
    assert ray.get(box.get.remote()) == ray.get(ray.get_actor("box").get.remote()) == 1
    assert ray.get(make("box", 3, namespace="another").get.remote()) == 3


def test_names_of_all_kinds():
    for name in ("x", "a b\n'c'", "ünï-code 漢字", "x" * 255, "../etc", "1"):
        box = make(name, name)
        assert ray.get(ray.get_actor(name).get.remote()) == name
        assert name in list_named_actors()
        del box


def test_get_if_exists():
    class_ = Box.options(name="box", get_if_exists=True)
    one, two = class_.remote(1), class_.remote(2)
    assert one == two and ray.get(two.get.remote()) == 1
    ray.kill(one)
    wait_until(lambda: is_gone("box"))
    three = class_.remote(3)
    assert three != one and ray.get(three.get.remote()) == 3


def test_namespaces_are_apart():
    boxes = [make("box", space, namespace=space) for space in ("one", "two")]
    assert [ray.get(ray.get_actor("box", space).get.remote()) for space in ("one", "two")] == [
        "one",
        "two",
    ]
    assert list_named_actors() == []
    assert sorted(row["namespace"] for row in list_named_actors(all_namespaces=True)) == [
        "one",
        "two",
    ]
    with pytest.raises(ValueError, match="in the namespace 'tests'; there is one in 'one', 'two'"):
        ray.get_actor("box")
    del boxes


# ---- bad input ----


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"get_if_exists": True}, ValueError, "get_if_exists"),
        ({"namespace": "space"}, ValueError, "namespace"),
        ({"name": ""}, ValueError, "name"),
        ({"name": 5}, TypeError, "name"),
        ({"name": "x" * 256}, ValueError, "255"),
        ({"name": "a\0b"}, ValueError, "NUL"),
        ({"name": "x", "namespace": ""}, ValueError, "namespace"),
        ({"name": "x", "namespace": 5}, TypeError, "namespace"),
        ({"name": "x", "get_if_exists": "yes"}, TypeError, "get_if_exists"),
        ({"lifetime": "forever"}, ValueError, "detached"),
        ({"lifetime": True}, ValueError, "detached"),
        ({"max_pending_calls": 0}, ValueError, "max_pending_calls"),
        ({"max_pending_calls": 1.5}, TypeError, "max_pending_calls"),
        ({"max_restarts": -2}, ValueError, "max_restarts"),
    ],
    ids=str,
)
def test_options_that_make_no_sense(options, error, words):
    with pytest.raises(error, match=words):
        Box.options(**options).remote()
    assert list_named_actors(all_namespaces=True) == []


@pytest.mark.parametrize("name", ["", None, 5, b"box", "x" * 1000, "a\0b", "nobody"])
def test_names_that_nobody_has(name):
    with pytest.raises((ValueError, TypeError)) as info:
        ray.get_actor(name)
    assert "name" in str(info.value)


@pytest.mark.parametrize("namespace", ["", 5, "x" * 1000, "a\0b", "nowhere"])
def test_namespaces_that_there_are_none_of(namespace):
    make("box")
    with pytest.raises((ValueError, TypeError)) as info:
        ray.get_actor("box", namespace)
    assert "namespace" in str(info.value)


@pytest.mark.parametrize("namespace", ["", 5, "x" * 256, "a\0b"])
def test_namespaces_that_init_refuses(node, namespace):
    ray.shutdown()
    with pytest.raises((ValueError, TypeError), match="namespace"):
        ray.init(address=node.folder, namespace=namespace)
    assert not ray.is_initialized()
    ray.init(address=node.folder, namespace=SPACE)


def test_restart_of_what_can_not_be_restarted():
    box = make("box")
    ray.kill(box, no_restart=False)
    with pytest.raises(ActorDiedError):
        ray.get(box.get.remote(), timeout=40)


@pytest.mark.parametrize("thing", [None, "box", 5, Box])
def test_kill_of_what_is_no_actor(thing):
    with pytest.raises(ValueError, match="handle of an actor"):
        ray.kill(thing)


# ---- several programs ----


def make_in_driver(name, value, options):
    kept[name] = make(name, value, **options)
    return ray.get(kept[name].pid.remote())


def get_in_driver(name, namespace=None):
    kept[name] = ray.get_actor(name, namespace)
    return ray.get(kept[name].get.remote())


def kill_in_driver(name, namespace=None):
    ray.kill(ray.get_actor(name, namespace))


def test_a_namespace_is_shared_by_those_who_name_it(driver):
    a, b, other = driver(namespace="ours"), driver(namespace="ours"), driver()
    a.call(make_in_driver, "box", 7, {})
    assert b.call(get_in_driver, "box") == 7
    assert b.call(list_named_actors) == ["box"]
    assert other.call(list_named_actors) == []
    with pytest.raises(ValueError, match="pass namespace="):
        other.call(get_in_driver, "box")
    assert other.call(get_in_driver, "box", "ours") == 7
    with pytest.raises(ActorAlreadyExistsError):
        b.call(make_in_driver, "box", 8, {})


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_detached_actor_outlives_its_program(driver, how):
    maker = driver(namespace=SPACE)
    pid = maker.call(make_in_driver, "box", 7, {"lifetime": "detached"})
    getattr(maker, how)()
    reader = driver(namespace=SPACE)
    assert reader.call(get_in_driver, "box") == 7
    reader.end()
    box = ray.get_actor("box")
    assert ray.get(box.pid.remote()) == pid
    assert ray.get(box.nest.remote(5)) == 5  # its own tasks run too
    other = driver(namespace=SPACE)
    other.call(kill_in_driver, "box")
    wait_until(lambda: not support.alive(pid) and is_gone("box"))
    with pytest.raises(ActorDiedError):
        ray.get(box.get.remote(), timeout=40)


def test_a_detached_actor_without_a_name_outlives_its_program(driver, folder):
    maker = driver(namespace=SPACE)
    maker.call(hand_over, "holder")
    maker.end()
    inner = ray.get(ray.get_actor("holder").get.remote())[0]
    assert ray.get(inner.get.remote()) == "inner"
    pid = ray.get(inner.pid.remote())
    ray.kill(inner)
    wait_until(lambda: not support.alive(pid))


def hand_over(name):
    inner = Box.options(lifetime="detached").remote("inner")
    outer = make(name, lifetime="detached")
    ray.get([outer.put.remote([inner]), inner.__ray_ready__.remote()])


def test_an_actor_that_a_detached_one_holds_stays_if_it_is_detached_only(driver):
    maker = driver(namespace=SPACE)
    pid = maker.call(hand_over_plain, "holder")
    maker.end()
    wait_until(lambda: not support.alive(pid))
    (plain,) = ray.get(ray.get_actor("holder").get.remote())
    with pytest.raises(ActorDiedError):
        ray.get(plain.get.remote(), timeout=40)


def hand_over_plain(name):
    kept["plain"] = Box.remote("plain")
    outer = make(name, lifetime="detached")
    ray.get(outer.put.remote([kept["plain"]]))
    return ray.get(kept["plain"].pid.remote())


def race(name, value, folder, count):
    """All of them at once: whether this one has made the actor."""
    support.meet(folder, name, count)
    try:
        kept[name] = Box.options(name=name, namespace="race").remote(value)
        ray.get(kept[name].__ray_ready__.remote())
        return True
    except ActorAlreadyExistsError:
        return False


def race_to_have(name, value, folder, count):
    support.meet(folder, name, count)
    kept[name] = Box.options(name=name, namespace="race", get_if_exists=True).remote(value)
    return ray.get(kept[name].get.remote())


def test_two_that_race_for_a_name(driver, folder):
    racers = [driver() for _ in range(3)]
    for round_ in range(8):
        for function, check in (
            (race, lambda results: sum(results) == 1),
            (race_to_have, lambda results: len(set(results)) == 1),
        ):
            name = f"{function.__name__}-{round_}"
            for i, each in enumerate(racers):
                each.begin(function, name, i, folder, 3)
            results = [each.result() for each in racers]
            assert check(results), (name, results)


def test_threads_and_tasks_that_race_for_a_name(folder):
    @ray.remote(num_cpus=0)
    def one(name, i):
        support.meet(folder, name, 6)
        box = Box.options(name=name, get_if_exists=True, lifetime="detached").remote(i)
        return ray.get(box.get.remote())

    for name in ("a", "b", "c"):
        found = ray.get([one.remote(name, i) for i in range(6)])
        assert len(set(found)) == 1


# ---- restarts ----


def test_a_detached_actor_is_restarted_after_its_makers_end(driver):
    maker = driver(namespace=SPACE)
    pid = maker.call(
        make_in_driver, "box", 7, {"lifetime": "detached", "max_restarts": 2, "max_task_retries": 3}
    )
    maker.kill()
    box = ray.get_actor("box")
    for _ in range(2):
        ray.get(box.put.remote(8))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not support.alive(pid))
        assert ray.get(box.get.remote(), timeout=40) == 7  # made anew with its arguments
        assert ray.get(box.restarted.remote()) is True
        pid = ray.get(box.pid.remote())
        assert ray.get_actor("box") == box
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorDiedError):
        ray.get(box.get.remote(), timeout=40)
    wait_until(lambda: is_gone("box"))


def test_a_detached_actor_keeps_its_large_arguments(driver):
    maker = driver(namespace=SPACE)
    pid = maker.call(make_with_refs, "box", 1 << 20)
    maker.end()
    box = ray.get_actor("box")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not support.alive(pid))
    assert ray.get(box.get.remote(), timeout=40) == b"x" * (1 << 20)


def make_with_refs(name, size):
    return make_in_driver(name, ray.put(b"x" * size), {"lifetime": "detached", "max_restarts": -1})


def test_a_call_waits_for_the_restart_of_another_jobs_actor(driver, folder):
    owner = driver(namespace=SPACE)
    pid = owner.call(make_in_driver, "box", 7, {"max_restarts": -1, "max_task_retries": -1})
    waits = ray.get_actor("box").wait.remote(f"{folder}/gate")
    wait_until(lambda: os.path.exists(f"{folder}/gate.runs"))
    os.unlink(f"{folder}/gate.runs")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: os.path.exists(f"{folder}/gate.runs"))  # it runs again
    support.touch(f"{folder}/gate")
    assert ray.get(waits, timeout=40) == f"{folder}/gate"


# ---- max_pending_calls ----


def test_max_pending_calls(folder):
    box = make("box", max_pending_calls=3)
    refs = [box.wait.remote(f"{folder}/gate") for _ in range(3)]
    for handle in (box, ray.get_actor("box")):
        with pytest.raises(PendingCallsLimitExceeded, match="3"):
            handle.get.remote()

    @ray.remote
    def other(handle):  # another process counts its own
        refs = [handle.get.remote() for _ in range(3)]
        with pytest.raises(PendingCallsLimitExceeded):
            handle.get.remote()
        return [refs]

    refs += ray.get(other.remote(box))[0]
    support.touch(f"{folder}/gate")
    ray.get(refs)
    assert ray.get([box.get.remote() for _ in range(3)]) == [None] * 3


# ---- pickled outside of ray's own calls ----


def pickle_a_ref(value):
    kept["ref"] = ray.put(value)
    return ray.cloudpickle.dumps(kept.pop("ref"))


def raises(kind, function, *args):
    try:
        function(*args)
    except kind:
        return True
    return False


def has_ended(driver):
    """Its job, that is; what it had is freed in the daemon's next turn."""
    running = list_jobs(filters=[("status", "=", "RUNNING")])
    return all(row.driver_info["pid"] != str(driver.pid) for row in running)


def pickle_an_actor(name):
    return ray.cloudpickle.dumps(kept[name])


def read_pickled(pickled):
    return ray.get(ray.cloudpickle.loads(pickled), timeout=40)


def test_a_pickled_ref_is_read_by_others(driver):
    maker, other = driver(), driver()
    pickled = maker.call(pickle_a_ref, "x" * 100_000)
    box = make("box")
    for _ in range(2):
        assert other.call(read_pickled, pickled) == "x" * 100_000
        assert ray.get(box.read.remote(pickled)) == "x" * 100_000
    assert maker.call(read_pickled, pickled) == "x" * 100_000


def test_a_pickled_ref_of_an_ended_job_says_so(driver):
    maker = driver()
    pickled = maker.call(pickle_a_ref, "x" * 100_000)
    maker.end()
    wait_until(lambda: has_ended(maker))
    wait_until(lambda: raises(RayError, ray.cloudpickle.loads, pickled))
    with pytest.raises(OwnerDiedError, match="the job that pickled the reference has ended"):
        read_pickled(pickled)
    assert ray.get(echo.remote(1)) == 1


def test_a_pickled_handle_is_used_by_another_jobs_actor(driver):
    owner = driver(namespace=SPACE)
    owner.call(make_in_driver, "box", 7, {})
    pickled = owner.call(pickle_an_actor, "box")
    asker = make("asker")
    assert ray.get(asker.ask.remote(pickled)) == 7
    assert ray.get(ray.cloudpickle.loads(pickled).get.remote()) == 7


def test_whoever_finds_an_actor_keeps_it(node):
    """Though its last handle before that went at the same moment."""

    @ray.remote(num_cpus=0)
    class Finder:
        def find_often(self, times):
            for _ in range(times):
                handle = Box.options(name="brief", get_if_exists=True).remote()
                assert ray.get([handle.get.remote() for _ in range(3)]) == [None] * 3
                del handle

    finders = [Finder.remote() for _ in range(3)]
    ray.get([finder.find_often.remote(150) for finder in finders])


def test_a_handle_of_a_dead_job(driver):
    owner = driver(namespace=SPACE)
    pid = owner.call(make_in_driver, "box", 7, {})
    pickled = owner.call(pickle_an_actor, "box")
    owner.kill()
    wait_until(lambda: not support.alive(pid) and has_ended(owner))
    wait_until(lambda: raises(RayError, ray.cloudpickle.loads, pickled))

    with pytest.raises(ActorHandleNotFoundError, match="detached") as info:
        ray.cloudpickle.loads(pickled)
    assert isinstance(info.value, ValueError)
    with pytest.raises(ActorHandleNotFoundError):
        ray.get(make("asker").ask.remote(pickled), timeout=40)


def test_a_handle_from_before_a_shutdown(node):
    box = make("box", lifetime="detached")
    ray.shutdown()
    ray.init(address=node.folder, namespace=SPACE)
    for use in (box.get.remote, lambda: ray.kill(box)):
        with pytest.raises(ActorHandleNotFoundError, match="ray.get_actor"):
            use()
    assert ray.get(ray.get_actor("box").get.remote()) is None


def test_bytes_that_come_from_another_session(folder):
    """Of another daemon: refused, whatever slots it had."""
    code = (
        "import ray, sys; ray.init(address='local', num_cpus=1); "
        "sys.stdout.buffer.write(ray.cloudpickle.dumps(ray.put(1)))"
    )
    pickled = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=drivers.LIMIT
    ).stdout
    with pytest.raises((RayError, ValueError)):
        read_pickled(pickled)
