"""Values in the store: what goes in comes out, and what a ref is."""

import array
import collections
import datetime
import decimal
import enum
import fractions
import math
import pickle
import uuid

import pytest

import ray

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.one_path("values, and what holds them"),
]


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


class Number(int):
    pass


class Triple(tuple):
    pass


Pair = collections.namedtuple("Pair", "a b")


@ray.remote
def echo(x):
    return x


VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64,
    -(2**64),
    10**100,
    0.0,
    -0.0,
    1.5,
    1e308,
    math.inf,
    -math.inf,
    "",
    "text",
    "zero\0inside",
    "é ß 日本 🐟",
    "\ud800",
    "x" * 39,
    "x" * 40,
    "x" * 41,
    "x" * 5_000_000,
    b"",
    b"\0\1\2",
    b"y" * 5_000_000,
    bytearray(b"mutable"),
    bytearray(b"z" * 100_000),
    (),
    (1,),
    (1, "a", b"b", None, 2.5, (True, ())),
    ((((((1,),),),),),),
    tuple(range(1000)),
    (2**64, "x"),
    (1, [2]),
    [],
    [1, [2, [3]]],
    {},
    {"a": 1, 2: "b", None: (1,)},
    {1, 2, 3},
    frozenset([1]),
    1 + 2j,
    range(5),
    slice(1, 2, None),
    ...,
    NotImplemented,
    int,
    len,
    math,
    datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    decimal.Decimal("1.10"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=5),
    array.array("d", [1.0, 2.0]),
    array.array("d", [1.0]) * 10_000,
    collections.OrderedDict(a=1),
    collections.Counter("aab"),
    collections.deque([1, 2], maxlen=3),
    Colour.RED,
    Text("special"),
    Number(7),
    Triple((1, 2)),
    Pair(1, 2),
]


def same(a, b):
    return (
        type(a) is type(b) and repr(a) == repr(b)
        if isinstance(a, float)
        else type(a) is type(b) and a == b
    )


@pytest.mark.parametrize(
    "value", VALUES, ids=lambda value: f"{type(value).__name__}-{repr(value)[:20].encode()}"
)
def test_a_value_comes_back_as_it_was(value):
    ref = ray.put(value)
    assert same(ray.get(ref), value)
    assert same(ray.get(echo.remote(value)), value)
    assert same(ray.get(echo.remote(ref)), value)
    assert same(ray.get(ray.put([value]))[0], value)
    assert same(ray.get(ray.put((value,)))[0], value)


def test_nan():
    assert math.isnan(ray.get(ray.put(math.nan)))


def test_shared_and_circular_structures():
    shared = [1]
    a, b = ray.get(ray.put([shared, shared]))
    assert a is b
    circle = []
    circle.append(circle)
    found = ray.get(ray.put(circle))
    assert found[0] is found


@pytest.mark.parametrize("kind", [tuple, list], ids=["tuple", "list"])
def test_very_deep_nesting_is_a_value_or_an_error_but_no_crash(kind):
    value = kind()
    for _ in range(100_000):
        value = kind((value,))
    try:
        found = ray.get(ray.put(value))
    except (RecursionError, TypeError, ValueError):
        pass
    else:
        depth = 0
        while found:
            found, depth = found[0], depth + 1
        assert depth == 100_000
    assert ray.get(ray.put(1)) == 1


def test_each_get_gives_a_value_of_its_own():
    ref = ray.put([1])
    first = ray.get(ref)
    first.append(2)
    assert ray.get(ref) == [1]


def test_get_of_lists():
    refs = [ray.put(i) for i in range(5)]
    assert ray.get([]) == []
    assert ray.get(refs) == [0, 1, 2, 3, 4]
    assert ray.get(refs[::-1]) == [4, 3, 2, 1, 0]
    assert ray.get([refs[0], refs[0], refs[1]]) == [0, 0, 1]


def test_ten_thousand_objects():
    assert ray.get([ray.put(i) for i in range(10_000)]) == list(range(10_000))
    assert ray.get([ray.put([i]) for i in range(10_000)]) == [[i] for i in range(10_000)]


def test_an_object_with_ten_thousand_refs():
    @ray.remote
    def make():
        return [ray.put(i) for i in range(10_000)]

    refs = ray.get(make.remote())
    assert ray.get(refs) == list(range(10_000))


def test_put_in_a_task_get_in_the_driver_and_back():
    @ray.remote
    def put():
        return [ray.put("from the worker")]

    @ray.remote
    def get(refs):
        return ray.get(refs[0])

    refs = ray.get(put.remote())
    assert ray.get(refs[0]) == "from the worker"
    assert ray.get(get.remote(refs)) == "from the worker"


def test_ids():
    a, b = ray.put(1), ray.put(1)
    assert isinstance(a, ray.ObjectRef)
    assert len(a.binary()) == 20 and isinstance(a.binary(), bytes)
    assert a.hex() == a.binary().hex() and len(a.hex()) == 40
    assert a.hex() in repr(a) and repr(a).startswith("ObjectRef(")
    assert a == a and a != b and a.hex() != b.hex() and a != 5 and not a == a.hex()
    assert {a: 1, b: 2}[a] == 1 and len({a, b, a}) == 2


def test_a_ref_is_the_same_after_a_journey():
    ref = ray.put(1)
    (back,) = ray.get(echo.remote([ref]))
    assert back == ref and hash(back) == hash(ref) and back.hex() == ref.hex()


def test_object_id_is_the_old_name():
    assert ray.ObjectID is ray.ObjectRef


def test_users_can_not_make_refs():
    with pytest.raises(TypeError):
        ray.ObjectRef()


def test_out_of_band_buffers_of_any_class():
    class Holder:
        def __init__(self, data):
            self.data = data

        def __reduce_ex__(self, protocol):
            return Holder, (pickle.PickleBuffer(self.data),)

    data = bytearray(b"0123456789" * 10_000)
    found = ray.get(ray.put(Holder(data)))
    assert bytes(found.data) == bytes(data)
    with pytest.raises(TypeError):
        memoryview(found.data)[0] = 0
    assert ray.get(echo.remote(Holder(data))).data == data


def test_pickling_a_ref_outside_of_the_system_is_an_error_or_works():
    ref = ray.put(5)
    try:
        again = pickle.loads(pickle.dumps(ref))
    except (TypeError, pickle.PicklingError, RuntimeError) as error:
        assert "ObjectRef" in str(error) or "ref" in str(error).lower()
    else:
        assert ray.get(again) == 5


def test_pandas_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(10_000), "b": [str(i) for i in range(10_000)]})
    assert ray.get(ray.put(frame)).equals(frame)
    assert ray.get(echo.remote(frame)).equals(frame)


def test_the_value_by_name():
    assert ray.get(ray.put(value=[1])) == [1]
    with pytest.raises(TypeError, match="ray.put needs the argument value"):
        ray.put()
    with pytest.raises(TypeError, match="unexpected argument 'values'"):
        ray.put(values=1)
