"""The small helpers of ray.util and ray.experimental."""

import os
import threading
import time

import pytest

import ray
from ray.util import ActorGroup

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def double(x):
    if x < 0:
        raise ValueError("negative")
    return 2 * x


@ray.remote
def until(path):
    while not os.path.exists(path):
        time.sleep(0.005)
    return path


# ---- as_completed, map_unordered ----


def test_as_completed_gives_what_comes_first(folder):
    gate = os.path.join(folder, "gate")
    held = until.remote(gate)
    found = ray.util.as_completed([held, *(double.remote(x) for x in range(25))])
    assert sorted(next(found) for _ in range(25)) == [2 * x for x in range(25)]
    open(gate, "w").close()
    assert list(found) == [gate]
    assert list(ray.util.as_completed([held], yield_obj_refs=True)) == [held]
    assert list(ray.util.as_completed([])) == []


def test_as_completed_raises_in_its_place():
    found = ray.util.as_completed([double.remote(-1)])
    with pytest.raises(ValueError):
        next(found)
    with pytest.raises(ValueError, match="chunk_size"):
        ray.util.as_completed([], chunk_size=0)


def test_map_unordered_reads_as_it_goes():
    read = []

    def items():
        for x in range(1000):
            read.append(x)
            yield x

    found = ray.util.map_unordered(double, items(), backpressure_size=20)
    first = next(found)
    assert len(read) <= 40
    assert sorted([first, *found]) == [2 * x for x in range(1000)]
    assert sorted(ray.util.map_unordered(double, [1, 2], backpressure_size=None)) == [2, 4]
    with pytest.raises(ValueError, match="backpressure_size"):
        ray.util.map_unordered(double, [], backpressure_size=5)


# ---- ActorGroup ----


class Member:
    def __init__(self, start, by=1):
        self.value = start + by

    def get(self, more=0):
        return self.value + more


def test_actor_group():
    group = ActorGroup(
        Member, num_actors=2, num_cpus_per_actor=0, init_args=(1,), init_kwargs={"by": 2}
    )
    assert len(group) == 2 and ray.get(group.get.remote(more=1)) == [4, 4]
    group.add_actors(1)
    assert [ray.get(member.actor.get.remote()) for member in group] == [3, 3, 3]
    assert group.actor_metadata[0].node_id == ray.get_runtime_context().get_node_id()
    gone = group[0].actor
    group.remove_actors([0, -1])
    assert len(group) == 1
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(gone.get.remote())
    with pytest.raises(AttributeError):
        group.no_such_method  # noqa: B018
    group.shutdown()
    with pytest.raises(RuntimeError):
        group.get.remote()
    group.start()
    assert len(group) == 2
    with pytest.raises(RuntimeError):
        group.start()
    group.shutdown(patience_s=0)


def test_actor_group_refuses_nonsense():
    for options in ({"num_actors": 0}, {"num_cpus_per_actor": -1}):
        with pytest.raises(ValueError):
            ActorGroup(Member, **options)


# ---- log_once ----


def test_log_once(monkeypatch):
    from ray.util import debug

    assert ray.util.log_once("a key") and not ray.util.log_once("a key")
    monkeypatch.setattr(debug, "_periodic", False)
    ray.util.enable_periodic_logging()
    monkeypatch.setattr(debug, "_last", debug._last - 61)
    assert not ray.util.log_once("a key") and ray.util.log_once("a key")
    monkeypatch.setattr(debug, "_disabled", False)
    ray.util.disable_log_once_globally()
    assert not ray.util.log_once("another")


def test_where_this_is(monkeypatch):
    assert ray.util.get_node_ip_address().count(".") == 3
    monkeypatch.delenv("RAY_CLOUD_INSTANCE_ID", raising=False)
    assert ray.util.get_node_instance_id() == ""
    monkeypatch.setenv("RAY_CLOUD_INSTANCE_ID", "i-1")
    assert ray.util.get_node_instance_id() == "i-1"


# ---- what can't be pickled ----

LOCK = threading.Lock()


class Slotted:
    __slots__ = ("held",)

    def __init__(self):
        self.held = {"locks": [LOCK]}


def test_inspect_serializability_names_the_part(capsys):
    lock = threading.Lock()
    ok, failures = ray.util.inspect_serializability(lambda: lock, name="f")
    assert not ok and "f -> closure variable 'lock' (_thread.lock)" in capsys.readouterr().out
    (failure,) = failures
    assert failure.obj is lock and failure.name == "closure variable 'lock'"
    ok, failures = ray.util.inspect_serializability(Slotted(), depth=5)
    assert not ok and "<Slotted> -> .held -> ['locks'] -> [0]" in capsys.readouterr().out
    ok, failures = ray.util.inspect_serializability(Slotted(), depth=1)
    assert [failure.name for failure in failures] == [".held"]
    assert ray.util.inspect_serializability([1, "two"]) == (True, set())


def test_it_finds_several_and_prints_where_it_is_told(tmp_path):
    with open(tmp_path / "out", "w") as file:
        ok, failures = ray.util.inspect_serializability(
            {"a": LOCK, "b": [LOCK, 1]}, print_file=file
        )
    assert {failure.name for failure in failures} == {"['a']", "[0]"}
    assert "['b'] -> [0]" in (tmp_path / "out").read_text()


def test_errors_of_calls_name_the_part():
    import functools

    def inner():
        def innermost():
            return LOCK

        return innermost

    with pytest.raises(TypeError, match=r"global variable 'LOCK' \(_thread.lock\)"):
        ray.put(_of_main(inner))
    with pytest.raises(TypeError, match=r"\.held -> \['locks'\] -> \[0\] \(_thread.lock\)"):
        double.remote(Slotted())
    with pytest.raises(TypeError, match="partial's arguments -> \\[0\\]"):
        ray.put(functools.partial(print, LOCK))


def _of_main(function):
    """The function as if it were the main script's: it travels by value."""
    function.__module__ = "__main__"
    return function


# ---- serializers of one's own ----


class Connection:
    def __init__(self, address):
        self.address = address
        self.lock = threading.Lock()


def test_register_serializer():
    with pytest.raises(TypeError):
        ray.put(Connection("a"))
    ray.util.register_serializer(
        Connection, serializer=lambda c: c.address + "!", deserializer=Connection
    )
    try:
        assert ray.get(ray.put([Connection("a")]))[0].address == "a!"
        address = ray.remote(lambda connection: connection.address)
        assert ray.get(address.remote(Connection("b"))) == "b!"
        ray.util.register_serializer(
            Connection, serializer=lambda c: c.address + "?", deserializer=Connection
        )
        assert ray.get(address.remote(Connection("b"))) == "b?"

        @ray.remote
        def send_back():
            ray.util.register_serializer(
                Connection, serializer=lambda c: c.address, deserializer=Connection
            )
            return Connection("from a task")

        assert ray.get(send_back.remote()).address == "from a task"
    finally:
        ray.util.deregister_serializer(Connection)
    with pytest.raises(TypeError):
        ray.put(Connection("a"))
    ray.util.deregister_serializer(Connection)
    with pytest.raises(TypeError):
        ray.util.register_serializer(1, serializer=str, deserializer=str)
    with pytest.raises(TypeError):
        ray.util.register_serializer(Connection, serializer=1, deserializer=str)


# ---- where objects are ----


def test_get_object_locations(folder):
    gate = os.path.join(folder, "gate")
    there, coming = ray.put(b"x" * 1000), until.remote(gate)
    found = ray.experimental.get_object_locations([there, coming])
    assert found[there]["node_ids"] == [ray.get_runtime_context().get_node_id()]
    assert found[there]["object_size"] >= 1000 and found[there]["did_spill"] is False
    assert found[coming]["node_ids"] == []
    open(gate, "w").close()
    assert ray.get(coming) == gate
    with pytest.raises(TypeError):
        ray.experimental.get_object_locations([1])
