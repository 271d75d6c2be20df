"""Actors that live on another node of a cluster than the one where they were made, and actors that
are called from other nodes than theirs.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time

import clusters
import numpy
import pytest
import support

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

pytestmark = [
    pytest.mark.one_path("calls between nodes go through the daemons in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


@pytest.fixture(scope="module")
def nodes():
    """The driver's node, one with `blue`, and one with `red`."""
    with clusters.joined({}, {"resources": {"blue": 4}}, {"resources": {"red": 4}}) as made:
        yield made


cluster = clusters.empty


def get(refs):
    return ray.get(refs, timeout=LIMIT)


class Counter:
    def __init__(self, total=0):
        self.total = total

    def add(self, n):
        self.total += n
        return self.total

    def where(self):
        return ray.get_runtime_context().get_node_id()

    def identity(self):
        return ray.get_runtime_context().get_actor_id()

    def itself(self):
        return ray.get_runtime_context().current_actor

    def pid(self):
        return os.getpid()

    def echo(self, value):
        return value

    def put(self, value):
        return [ray.put(value)]

    def fail(self):
        raise KeyError("no")

    def nap(self, seconds):
        time.sleep(seconds)
        return seconds

    def note(self, path, what):
        """Once for each run, before it takes a while."""
        with open(path, "a") as file:
            file.write(f"{what}\n")
        time.sleep(0.01)
        return what

    def leave(self):
        os._exit(3)


Blue = ray.remote(num_cpus=0, resources={"blue": 1})(Counter)
Red = ray.remote(num_cpus=0, resources={"red": 1})(Counter)
Plain = ray.remote(num_cpus=0)(Counter)


def adds(actor, count):
    return ray.get([actor.add.remote(1) for _ in range(count)], timeout=LIMIT)


@ray.remote(num_cpus=0, resources={"blue": 0.1})
def adds_in_blue(actor, count):
    return adds(actor, count)


@ray.remote(num_cpus=0, resources={"red": 0.1})
def adds_in_red(actors, count):
    return adds(actors[0], count)


def test_it_lives_where_its_resource_is(nodes):
    actor = Blue.remote(5)
    assert get(actor.add.remote(1)) == 6
    assert get(actor.where.remote()) == nodes[1].node_id
    assert get(actor.identity.remote()) == actor._actor_id.hex()


def test_affinity(nodes):
    to = NodeAffinitySchedulingStrategy(nodes[2].node_id, soft=False)
    assert get(Plain.options(scheduling_strategy=to).remote().where.remote()) == nodes[2].node_id


def test_soft_affinity_and_spread(nodes):
    to = NodeAffinitySchedulingStrategy(nodes[2].node_id, soft=True)
    assert get(Plain.options(scheduling_strategy=to).remote().where.remote()) == nodes[2].node_id
    to = NodeAffinitySchedulingStrategy("0123456789abcdef", soft=True)
    assert get(Plain.options(scheduling_strategy=to).remote().where.remote())
    made = [Plain.options(scheduling_strategy="SPREAD").remote() for _ in range(6)]
    places = get([actor.where.remote() for actor in made])
    assert [places.count(node.node_id) for node in nodes] == [2, 2, 2]


def test_one_that_finds_no_room_goes_to_where_there_is(nodes):
    made = [ray.remote(num_cpus=1)(Counter).remote() for _ in range(4)]
    first = [actor.add.remote(1) for actor in made]
    places = get([actor.where.remote() for actor in made])
    assert places.count(nodes[0].node_id) == 2 and len(set(places)) > 1
    assert get(first) == [1] * 4


def test_values_small_and_large(nodes):
    actor = Blue.remote()
    array = numpy.arange(1 << 18)
    for value in (None, 1, "text", b"x" * (1 << 20), [1, {"a": (2,)}]):
        assert get(actor.echo.remote(value)) == value
    assert (get(actor.echo.remote(array)) == array).all()
    assert (get(actor.echo.remote(ray.put(array))) == array).all()


def test_large_arguments_of_a_creation(nodes):
    assert get(Blue.remote(b"x" * (1 << 20)).where.remote()) == nodes[1].node_id


def test_references_inside(nodes):
    actor = Blue.remote()
    assert get(get(actor.echo.remote([ray.put("here")]))[0]) == "here"
    assert get(get(actor.put.remote("there"))[0]) == "there"


def test_arguments_that_are_not_there_yet(nodes):
    @ray.remote
    def late():
        time.sleep(0.3)
        return 7

    actor = Blue.remote()
    first, second = actor.echo.remote(late.remote()), actor.add.remote(2)
    assert get([first, second]) == [7, 2]


def test_one_that_is_called_from_elsewhere_before_it_is_made(nodes):
    @ray.remote
    def late():
        time.sleep(0.5)
        return 7

    actor = Blue.remote(late.remote())
    assert get(adds_in_red.remote([actor], 2)) == [8, 9]
    assert get(actor.where.remote()) == nodes[1].node_id


def test_errors(nodes):
    actor = Blue.remote()
    with pytest.raises(KeyError):
        get(actor.fail.remote())
    assert get(actor.add.remote(1)) == 1


def test_a_constructor_that_raises(nodes):
    @ray.remote(num_cpus=0, resources={"blue": 1})
    class Bad:
        def __init__(self):
            raise KeyError("of the constructor")

        def call(self):
            pass

    actor = Bad.remote()
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="of the constructor"):
            get(actor.call.remote())


def test_order_of_one_caller(nodes):
    actor = Blue.remote()
    assert get([actor.add.remote(1) for _ in range(1000)]) == list(range(1, 1001))


def test_two_callers_on_two_nodes(nodes):
    actor = Plain.remote()
    assert get(actor.where.remote()) == nodes[0].node_id
    blue, red = get([adds_in_blue.remote(actor, 500), adds_in_red.remote([actor], 500)])
    assert blue == sorted(blue) and red == sorted(red)
    assert sorted(blue + red) == list(range(1, 1001))
    assert get(actor.add.remote(1)) == 1001


def test_callers_on_its_own_and_a_third_node(nodes):
    actor = Blue.remote()
    blue, red = get([adds_in_blue.remote(actor, 300), adds_in_red.remote([actor], 300)])
    assert blue == sorted(blue) and red == sorted(red)
    assert adds(actor, 1) == [601]


def test_a_handle_comes_back_from_where_it_was_made(nodes):
    @ray.remote(num_cpus=0, resources={"red": 1})
    def make():
        actor = Blue.remote(100)
        return actor, adds(actor, 1)

    actor, first = get(make.remote())
    assert first == [101] and adds(actor, 1) == [102]
    assert get(actor.where.remote()) == nodes[1].node_id


def test_its_own_handle(nodes):
    actor = Blue.remote()
    itself = get(actor.itself.remote())
    assert itself._actor_id == actor._actor_id
    assert adds(itself, 1) == [1] and adds(actor, 1) == [2]


def test_actors_call_each_other(nodes):
    @ray.remote(num_cpus=0, resources={"red": 1})
    class Caller:
        def __init__(self, actor):
            self.actor = actor

        def go(self, size):
            return ray.get(self.actor.echo.remote(b"x" * size), timeout=LIMIT)

    for size in (10, 1 << 20):
        assert len(get(Caller.remote(Blue.remote()).go.remote(size))) == size


def test_async_and_threaded(nodes):
    @ray.remote(num_cpus=0, resources={"blue": 1}, max_concurrency=50)
    class Many:
        async def call(self, i):
            await asyncio.sleep(0.2)
            return i

    actor = Many.remote()
    get(actor.call.remote(0))
    began = time.monotonic()
    assert get([actor.call.remote(i) for i in range(50)]) == list(range(50))
    assert time.monotonic() - began < 5


def test_concurrency_groups(nodes):
    @ray.remote(num_cpus=0, resources={"blue": 1}, concurrency_groups={"io": 1})
    class Waits:
        def __init__(self):
            self.goes = False

        def wait(self):
            limit = time.monotonic() + LIMIT
            while not self.goes and time.monotonic() < limit:
                time.sleep(0.01)
            return self.goes

        @ray.method(concurrency_group="io")
        def go(self):
            self.goes = True

    actor = Waits.remote()
    waits = actor.wait.remote()
    get(actor.go.remote())
    assert get(waits)


def is_gone(pid):
    return support.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_it_ends_with_its_last_handle(nodes):
    actor = Blue.remote()
    pid = get(actor.pid.remote())
    last = actor.nap.remote(0.5)
    del actor
    assert get(last) == 0.5
    assert is_gone(pid)


def test_it_ends_with_its_last_handle_elsewhere(nodes):
    actor = Blue.remote()
    pid, calls = get(actor.pid.remote()), adds_in_red.remote([actor], 200)
    del actor
    assert get(calls) == list(range(1, 201))
    assert is_gone(pid)


@pytest.mark.parametrize("kind", ["Blue", "Plain"])
def test_kill(nodes, kind):
    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def kills(actor):
        ray.kill(actor)

    for kill in (ray.kill, lambda actor: get(kills.remote(actor))):
        actor = globals()[kind].remote()
        pid, nap = get(actor.pid.remote()), actor.nap.remote(LIMIT)
        time.sleep(0.2)
        kill(actor)
        with pytest.raises(ActorDiedError, match="killed by ray.kill"):
            get(nap)
        with pytest.raises(ActorDiedError):
            get(actor.add.remote(1))
        assert is_gone(pid)


def test_names(nodes):
    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def finds(name):
        return adds(ray.get_actor(name), 1)

    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def takes(name):
        try:
            adds(Plain.options(name=name).remote(), 1)
        except ValueError as error:
            return str(error)

    for kind in (Blue, Plain):
        actor = kind.options(name="known").remote()
        assert adds(actor, 1) == [1]
        assert get(finds.remote("known")) == [2]
        assert "known" in get(takes.remote("known"))
        ray.kill(actor)
        with pytest.raises(ActorDiedError):
            get(actor.add.remote(1))
        assert support.wait_until(lambda: get(takes.remote("known")) is None)
        assert support.wait_until(lambda: not named("known"))


def named(name):
    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def test_a_detached_actor_is_found_elsewhere(nodes):
    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def makes():
        actor = Plain.options(name="stays", lifetime="detached").remote(7)
        return adds(actor, 1)

    assert get(makes.remote()) == [8]
    actor = ray.get_actor("stays")
    assert adds(actor, 1) == [9] and get(actor.where.remote()) == nodes[2].node_id
    ray.kill(actor)
    assert support.wait_until(lambda: not named("stays"))


def test_its_process_dies(nodes):
    actor = Blue.remote()
    get(actor.add.remote(1))
    with pytest.raises(ActorDiedError, match="exited with code 3") as error:
        get(actor.leave.remote())
    assert nodes[1].node_id in str(error.value)
    with pytest.raises(ActorDiedError, match="exited with code 3"):
        get(actor.add.remote(1))


def test_it_ends_itself(nodes):
    @ray.remote(num_cpus=0, resources={"blue": 1}, max_restarts=2)
    class Ends:
        def end(self):
            ray.actor.exit_actor()

    actor = Ends.remote()
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="ended itself"):
            get(actor.end.remote())


def test_restarts(nodes):
    actor = Blue.options(max_restarts=1).remote()
    pid = get(actor.pid.remote())
    with pytest.raises(ActorUnavailableError):
        get(actor.leave.remote())
    assert get(actor.pid.remote()) != pid
    with pytest.raises(ActorDiedError, match="as often as max_restarts allows"):
        get(actor.leave.remote())


def test_restarts_at_home_among_calls_from_elsewhere(nodes):
    @ray.remote(num_cpus=0, resources={"red": 0.1})
    def naps(actor):
        done = unavailable = 0
        for ref in [actor.nap.remote(0.02) for _ in range(50)]:
            try:
                done += get(ref) == 0.02
            except ActorUnavailableError:
                unavailable += 1
        return done, unavailable

    for retries, expected in ((-1, (50, 0)), (0, (49, 1))):
        actor = Plain.options(max_restarts=1, max_task_retries=retries).remote()
        pid, calls = get(actor.pid.remote()), naps.remote(actor)
        time.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        assert get(calls) == expected


def test_they_end_with_their_driver(nodes):
    code = f"""
import os, signal, ray
ray.init(address={nodes[0].address!r})
@ray.remote(num_cpus=0, resources={{"blue": 1}})
class Actor:
    def pid(self):
        return os.getpid()
actors = [Actor.remote() for _ in range(3)]
print(*ray.get([actor.pid.remote() for actor in actors]), flush=True)
"""
    for end in ("", "os.kill(os.getpid(), signal.SIGKILL)"):
        driver = [sys.executable, "-c", code + end]
        result = subprocess.run(driver, capture_output=True, text=True, timeout=LIMIT)
        pids = result.stdout.split()
        assert len(pids) == 3 and all(is_gone(pid) for pid in pids), result.stderr


def runs_of(path):
    with open(path) as file:
        return [int(line) for line in file]


def test_its_process_dies_among_calls(nodes, tmp_path):
    path = str(tmp_path / "runs")
    actor = Blue.options(max_restarts=1, max_task_retries=0).remote()
    pid = get(actor.pid.remote())
    refs = [actor.note.remote(path, i) for i in range(200)]
    assert support.wait_until(lambda: os.path.exists(path) and len(runs_of(path)) > 20)
    os.kill(pid, signal.SIGKILL)
    failed = 0
    for i, ref in enumerate(refs):
        try:
            assert get(ref) == i
        except ActorUnavailableError:
            failed += 1
    runs = runs_of(path)
    assert failed == 1 and runs == sorted(set(runs)), "each at most once, in order"
    assert len(runs) >= 199


def test_retries_among_calls(nodes, tmp_path):
    path = str(tmp_path / "runs")
    actor = Blue.options(max_restarts=-1, max_task_retries=-1).remote()
    pid = get(actor.pid.remote())
    refs = [actor.note.remote(path, i) for i in range(100)]
    assert support.wait_until(lambda: os.path.exists(path) and len(runs_of(path)) > 20)
    os.kill(pid, signal.SIGKILL)
    assert get(refs) == list(range(100))
    runs = runs_of(path)
    assert sorted(set(runs)) == list(range(100)) and len(runs) <= 101


def test_its_node_dies_among_calls(cluster, tmp_path):
    cluster.add_node(num_cpus=1)
    dies = cluster.add_node(num_cpus=1, resources={"blue": 4}, node_name="mortal")
    ray.init(address=cluster.address)
    path = str(tmp_path / "runs")
    once, again = Blue.remote(), Blue.options(max_restarts=1, max_task_retries=-1).remote()
    assert get([once.where.remote(), again.where.remote()]) == [dies.node_id] * 2
    refs = [once.note.remote(path, i) for i in range(200)]
    more = [again.add.remote(1) for _ in range(10)] + [again.nap.remote(1)]
    assert support.wait_until(lambda: os.path.exists(path) and len(runs_of(path)) > 20)
    stays = cluster.add_node(num_cpus=1, resources={"blue": 4})
    dies.kill_raylet()
    done = 0
    for i, ref in enumerate(refs):
        try:
            assert get(ref) == i
            done += 1
        except (ActorDiedError, ActorUnavailableError) as error:  # the latter: it is silent
            assert "mortal (127.0.0.1:" in str(error)
            assert f"node_id {dies.node_id})" in str(error)
    runs = runs_of(path)
    assert done <= len(runs) == len(set(runs)) < 200
    assert get(more)[-1] == 1  # so it is known to be dead
    with pytest.raises(ActorDiedError):
        get(once.add.remote(1))
    assert get(again.where.remote()) == stays.node_id


def test_one_that_may_be_nowhere_else_dies_with_its_node(cluster):
    cluster.add_node(num_cpus=1)
    dies = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    to = NodeAffinitySchedulingStrategy(dies.node_id, soft=False)
    actor = Plain.options(scheduling_strategy=to, max_restarts=-1, max_task_retries=-1).remote()
    assert get(actor.add.remote(1)) == 1
    dies.kill_raylet()
    with pytest.raises(ActorDiedError):
        get(actor.add.remote(1))


def test_its_callers_node_dies(cluster):
    cluster.add_node(num_cpus=1)
    dies = cluster.add_node(num_cpus=1, resources={"red": 4})
    ray.init(address=cluster.address)
    actor = Plain.remote()
    calls = adds_in_red.options(max_retries=0).remote([actor], 100000)
    assert support.wait_until(lambda: get(actor.add.remote(0)) > 100)
    dies.kill_raylet()
    with pytest.raises(ray.exceptions.RayError):
        get(calls)
    assert get(actor.add.remote(1)) > 100


def test_its_makers_node_dies(cluster):
    cluster.add_node(num_cpus=1)
    dies = cluster.add_node(num_cpus=1, resources={"red": 4})
    cluster.add_node(num_cpus=1, resources={"blue": 4})
    ray.init(address=cluster.address)

    @ray.remote(num_cpus=0, resources={"red": 1})
    def make():
        actor = Blue.remote()
        return actor, ray.get(actor.pid.remote(), timeout=LIMIT)

    actor, pid = get(make.remote())
    assert adds(actor, 1) == [1]
    dies.kill_raylet()
    assert is_gone(pid)

    def died():
        try:
            get(actor.add.remote(1))
        except ActorUnavailableError:  # this node has not heard of the death yet
            return False
        except ActorDiedError:
            return True

    assert support.wait_until(died, LIMIT)


def test_a_node_that_comes_later(cluster):
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    place = Blue.remote().where.remote()
    assert ray.wait([place], timeout=0.5)[0] == []
    later = cluster.add_node(num_cpus=1, resources={"blue": 1})
    assert get(place) == later.node_id
