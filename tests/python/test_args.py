"""Arguments: how they bind, how refs among them arrive, and that a wrong call is an error at the
call.
"""

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def everything(a, b=2, *args, c, d=4, **kwargs):
    return a, b, args, c, d, kwargs


@ray.remote
def echo(x):
    return x


@ray.remote
def two(a, b=5):
    return a, b


def plain(a, b=2, *args, c, d=4, **kwargs):
    return a, b, args, c, d, kwargs


@pytest.mark.parametrize(
    "args, kwargs",
    [
        ((1,), {"c": 3}),
        ((1, 5), {"c": 3}),
        ((1, 5, 6, 7), {"c": 3}),
        ((), {"a": 1, "c": 3}),
        ((1,), {"b": None, "c": 3, "d": None}),
        ((1,), {"c": 3, "x": 1, "y": [2]}),
        ((1, 2, 3), {"c": 3, "self": 5, "args": 6}),
    ],
    ids=str,
)
def test_arguments_bind_as_in_python(args, kwargs):
    assert ray.get(everything.remote(*args, **kwargs)) == plain(*args, **kwargs)


@pytest.mark.parametrize(
    "args, kwargs",
    [((), {}), ((1, 2, 3), {}), ((1,), {"c": 1}), ((1,), {"a": 1}), ((), {"b": 1})],
    ids=str,
)
def test_a_wrong_call_raises_at_the_call(args, kwargs):
    with pytest.raises(TypeError, match="two"):
        two.remote(*args, **kwargs)


def test_keyword_only_arguments_are_checked_at_the_call():
    with pytest.raises(TypeError, match="c"):
        everything.remote(1)


def test_positional_only_arguments():
    @ray.remote
    def positional(a, /, b):
        return a, b

    assert ray.get(positional.remote(1, b=2)) == (1, 2)
    with pytest.raises(TypeError):
        positional.remote(a=1, b=2)


def test_a_keyword_may_have_any_name():
    @ray.remote
    def keywords(**kwargs):
        return kwargs

    odd = {"self": 1, "args": 2, "kwargs": 3, "function": 4, "é": 5, "not an identifier": 6, "": 7}
    assert ray.get(keywords.remote(**odd)) == odd


def test_default_arguments_are_those_of_the_definition():
    def with_list(x, seen=[0]):  # noqa: B006
        seen.append(x)
        return seen

    assert ray.get(ray.remote(with_list).remote(1))[:2] == [0, 1]
    assert with_list.__defaults__ == ([0],)


def test_a_ref_at_top_level_arrives_as_its_value():
    ref = ray.put({"k": 1})
    assert ray.get(echo.remote(ref)) == {"k": 1}
    assert ray.get(echo.remote(x=ref)) == {"k": 1}
    assert ray.get(everything.remote(ref, 1, ref, c=ref, other=ref)) == (
        {"k": 1},
        1,
        ({"k": 1},),
        {"k": 1},
        4,
        {"other": {"k": 1}},
    )


@pytest.mark.parametrize(
    "value", [None, 5, "s" * 10, b"b" * 100_000, [1, 2], (1, "x")], ids=lambda v: str(v)[:12]
)
def test_refs_of_all_kinds_of_values(value):
    assert ray.get(echo.remote(ray.put(value))) == value
    assert ray.get(echo.remote(echo.remote(value))) == value


def test_refs_in_containers_stay_refs():
    @ray.remote
    def inside(items, table):
        (ref,), other = items, table["ref"]
        assert isinstance(ref, ray.ObjectRef) and isinstance(other, ray.ObjectRef)
        return ray.get(ref), ray.get([other])[0]

    assert ray.get(inside.remote([ray.put(1)], {"ref": echo.remote(2)})) == (1, 2)


def test_refs_in_tuples_and_objects_stay_refs():
    class Box:
        def __init__(self, ref):
            self.ref = ref

    @ray.remote
    def inside(pair, box):
        assert isinstance(pair[1], ray.ObjectRef)
        return ray.get(pair[1]), ray.get(box.ref)

    assert ray.get(inside.remote((0, ray.put(1)), Box(ray.put(2)))) == (1, 2)


def test_the_same_ref_several_times():
    ref = echo.remote([1])

    @ray.remote
    def same(a, b, c):
        return a, b, c

    assert ray.get(same.remote(ref, ref, c=ref)) == ([1], [1], [1])


def test_a_task_waits_for_its_arguments(folder):
    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return "late"

    waiting = [two.remote(late.remote(), i) for i in range(3)]
    assert ray.wait(waiting, timeout=0.1) == ([], waiting)
    assert ray.get(echo.remote("others run meanwhile")) == "others run meanwhile"
    support.touch(f"{folder}/go")
    assert ray.get(waiting) == [("late", i) for i in range(3)]


def test_arguments_are_taken_at_the_call(folder):
    @ray.remote
    def late(_, items):
        return items

    @ray.remote
    def gate():
        support.wait_for_file(f"{folder}/go")

    items = [1]
    ref = late.remote(gate.remote(), items)
    items.append(2)
    support.touch(f"{folder}/go")
    assert ray.get(ref) == [1]


def test_a_task_can_not_change_the_callers_arguments():
    @ray.remote
    def spoil(items):
        items.clear()
        return items

    items = [1, 2]
    ref = ray.put(items)
    assert ray.get(spoil.remote(items)) == [] and items == [1, 2]
    assert ray.get(spoil.remote(ref)) == [] and ray.get(ref) == [1, 2]


@pytest.mark.parametrize(
    "size",
    [0, 1, 31, 40, 41, 100, 1000, 4095, 4096, 10_000, 100_000, 1 << 20, 10 << 20, (33 << 20) + 7],
)
def test_arguments_of_every_size(size):
    data = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    assert ray.get(echo.remote(data)) == data
    assert ray.get(echo.remote([data])) == [data]


def test_many_arguments():
    @ray.remote
    def count(*args):
        return len(args), args[-1]

    assert ray.get(count.remote(*range(1000))) == (1000, 999)
    assert ray.get(count.remote(*[echo.remote(i) for i in range(1000)])) == (1000, 999)


def test_many_keyword_arguments():
    @ray.remote
    def count(**kwargs):
        return sum(kwargs.values())

    assert ray.get(count.remote(**{f"k{i}": i for i in range(500)})) == sum(range(500))


def test_functions_classes_and_remote_functions_as_arguments():
    @ray.remote
    def call(function, x):
        return function(x)

    @ray.remote
    def call_remote(function, x):
        return ray.get(function.remote(x))

    offset = 3
    assert ray.get(call.remote(lambda x: x + offset, 1)) == 4
    assert ray.get(call.remote(complex, 1)) == 1 + 0j
    assert ray.get(call_remote.remote(echo, 1)) == 1


def test_an_argument_that_fails_to_unpickle_fails_the_task_only():
    class Spiteful:
        def __reduce__(self):
            return int, ("not a number",)

    with pytest.raises(ray.exceptions.RayTaskError, match="invalid literal"):
        ray.get(echo.remote(Spiteful()))
    assert ray.get(echo.remote(1)) == 1


def test_submitting_does_not_wait_for_the_tasks(folder):
    @ray.remote
    def gated(i):
        support.wait_for_file(f"{folder}/go")
        return i

    refs = [gated.remote(i) for i in range(20)]  # more than there are CPUs
    assert ray.wait(refs, timeout=0) == ([], refs)
    support.touch(f"{folder}/go")
    assert ray.get(refs) == list(range(20))


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_argument_is_pickled_once(size):
    class Once:
        """Its state can be had once."""

        def __init__(self):
            self.state = ["x" * size]

        def __getstate__(self):
            state, self.state = self.state, None
            return state

        def __setstate__(self, state):
            self.state = state

    @ray.remote
    def length(once):
        return len(once.state[0])

    assert ray.get(length.remote(Once())) == size
    assert ray.get(length.remote(once=Once())) == size


def test_long_names_of_several_bytes_a_letter():
    """They are named in errors, cut between two letters."""
    assert ray.get(echo.options(name="\u4e2d" * 40).remote([1])) == [1]

    @ray.remote
    def keywords(**given):
        return given

    assert ray.get(keywords.remote(**{"\u4e2d" * 40: [1]})) == {"\u4e2d" * 40: [1]}
    with pytest.raises(TypeError, match="\u4e2d"):
        keywords.remote(**{"\u4e2d" * 40: (i for i in [])})
