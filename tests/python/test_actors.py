"""Actors: state in a process of its own, calls in order."""

import copy
import functools
import os
import typing

import pytest
import support

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, RayActorError, RayTaskError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
class Counter:
    def __init__(self, start=0, *, step=1):
        self.value = start
        self.step = step

    def add(self, n=1):
        self.value += n * self.step
        return self.value

    def get(self):
        return self.value

    def pid(self):
        return os.getpid()

    def fail(self):
        raise KeyError("method")

    def leave(self):
        os._exit(1)


def test_state():
    counter = Counter.remote()
    assert ray.get([counter.add.remote() for _ in range(5)]) == [1, 2, 3, 4, 5]


def test_constructor_arguments():
    assert ray.get(Counter.remote(10).get.remote()) == 10
    assert ray.get(Counter.remote(10, step=2).add.remote(3)) == 16
    assert ray.get(Counter.remote(start=ray.put(7)).get.remote()) == 7
    for args, kwargs in [((1, 2), {}), ((), {"stop": 1}), ((1,), {"start": 1})]:
        with pytest.raises(TypeError):
            Counter.remote(*args, **kwargs)


def test_wrong_calls_raise_at_the_call():
    counter = Counter.remote()
    with pytest.raises(TypeError, match="add"):
        counter.add.remote(1, 2)
    with pytest.raises(TypeError):
        counter.add.remote(m=1)
    with pytest.raises(TypeError):
        counter.get.remote(1)
    with pytest.raises(AttributeError, match="subtract"):
        counter.subtract  # noqa: B018
    assert ray.get(counter.get.remote()) == 0


def test_an_actor_without_a_constructor():
    @ray.remote
    class Plain:
        def hello(self):
            return "hello"

    assert ray.get(Plain.remote().hello.remote()) == "hello"
    with pytest.raises(TypeError):
        Plain.remote(1)


def test_each_actor_has_its_own_process():
    counters = [Counter.remote() for _ in range(6)]
    pids = ray.get([counter.pid.remote() for counter in counters])
    assert len(set(pids)) == 6 and os.getpid() not in pids
    assert ray.get([counter.pid.remote() for counter in counters]) == pids


def test_calls_of_one_caller_run_in_order():
    @ray.remote
    class Log:
        def __init__(self):
            self.items = []

        def note(self, item):
            self.items.append(item)

        def read(self):
            return self.items

    log = Log.remote()
    for i in range(2000):
        log.note.remote(i)
    assert ray.get(log.read.remote()) == list(range(2000))

    @ray.remote
    def note_many(log, who):
        for i in range(200):
            log.note.remote((who, i))
        return ray.get(log.read.remote())

    log = Log.remote()
    ray.get([note_many.remote(log, who) for who in range(3)])
    items = ray.get(log.read.remote())
    for who in range(3):
        assert [i for w, i in items if w == who] == list(range(200))


def test_order_holds_for_calls_that_wait_for_arguments(folder):
    @ray.remote
    class Log:
        def __init__(self):
            self.items = []

        def note(self, item):
            self.items.append(item)
            return list(self.items)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return "late"

    log = Log.remote()
    first = log.note.remote(late.remote())
    second = log.note.remote("second")
    support.touch(f"{folder}/go")
    assert ray.get([first, second]) == [["late"], ["late", "second"]]


def test_results_and_arguments_as_refs():
    counter = Counter.remote()
    ref = counter.add.remote(ray.put(5))
    assert ray.get(counter.add.remote(ref)) == 10

    @ray.remote
    def double(x):
        return 2 * x

    assert ray.get(double.remote(counter.get.remote())) == 20


def test_handles_as_arguments():
    @ray.remote
    def use(counter, n):
        return ray.get(counter.add.remote(n))

    @ray.remote
    def use_inside(holder):
        return ray.get(holder["counter"].add.remote(100))

    counter = Counter.remote()
    assert sorted(ray.get([use.remote(counter, 1) for _ in range(5)])) == [1, 2, 3, 4, 5]
    assert ray.get(use_inside.remote({"counter": counter})) == 105

    @ray.remote
    class Boss:
        def __init__(self, counter):
            self.counter = counter

        def order(self):
            return ray.get(self.counter.add.remote())

    assert ray.get(Boss.remote(counter).order.remote()) == 106


def test_methods_as_arguments():
    @ray.remote
    def use(method, *args):
        return ray.get(method.remote(*args))

    @ray.remote
    class Pair:
        @ray.method(num_returns=2)
        def two(self):
            return 1, 2

    counter = Counter.remote()
    assert ray.get(use.remote(counter.add, 5)) == 5
    assert ray.get(use.remote(Pair.remote().two)) == [1, 2]
    assert ray.get(use.remote(Pair.remote().two.options(num_returns=1))) == (1, 2)
    assert ray.get(copy.deepcopy([counter.add])[0].remote()) == 6


def test_copies_of_handles():
    counter = Counter.remote()
    for again in (copy.copy(counter), copy.deepcopy({"k": counter})["k"]):
        assert again == counter and ray.get(again.get.remote()) == 0


def test_a_handle_that_is_pickled_by_itself():
    counter = Counter.remote()
    assert ray.get(ray.cloudpickle.loads(ray.cloudpickle.dumps(counter)).add.remote()) == 1
    ref = ray.put([1])
    assert ray.get(ray.cloudpickle.loads(ray.cloudpickle.dumps({"ref": ref}))["ref"]) == [1]
    assert copy.copy(counter) is counter and copy.copy(counter.add).remote is counter.add.remote


def test_handles_as_results():
    @ray.remote
    def make():
        counter = Counter.remote(5)
        return counter, ray.get(counter.pid.remote())

    counter, pid = ray.get(make.remote())
    assert ray.get(counter.add.remote()) == 6
    assert ray.get(counter.pid.remote()) == pid

    @ray.remote
    class Factory:
        def make(self):
            return Counter.remote(1)

    assert ray.get(ray.get(Factory.remote().make.remote()).add.remote()) == 2


def test_handles_in_put_and_closures():
    counter = Counter.remote()
    ref = ray.put([counter])

    @ray.remote
    def closed_over():
        return ray.get(counter.add.remote())

    assert ray.get(closed_over.remote()) == 1
    assert ray.get(ray.get(ref)[0].add.remote()) == 2


def test_handles_compare_and_hash():
    @ray.remote
    def back(x):
        return x

    a, b = Counter.remote(), Counter.remote()
    (again,) = ray.get(back.remote([a]))
    assert a == again and a != b and len({a, again, b}) == 2
    assert "Counter" in repr(a)


def test_num_returns_of_methods():
    @ray.remote
    class Multi:
        @ray.method(num_returns=2)
        def two(self):
            return 1, 2

        def pair(self):
            return 1, 2

        @ray.method(num_returns=0)
        def none(self):
            pass

        @ray.method(num_returns=2)
        @staticmethod
        def plain():
            return 3, 4

        @classmethod
        @ray.method(num_returns=2)
        def of_class(cls):
            return 5, 6

    multi = Multi.remote()
    assert ray.get(multi.two.remote()) == [1, 2]
    assert ray.get(multi.pair.remote()) == (1, 2)
    assert ray.get(multi.pair.options(num_returns=2).remote()) == [1, 2]
    assert multi.none.remote() is None
    assert ray.get(multi.plain.remote()) == [3, 4] and ray.get(multi.of_class.remote()) == [5, 6]
    with pytest.raises(ValueError):
        ray.get(multi.pair.options(num_returns=3).remote())


def test_a_method_that_raises_leaves_the_actor_alive():
    counter = Counter.remote(3)
    ref = counter.fail.remote()
    with pytest.raises(KeyError) as info:
        ray.get(ref)
    assert isinstance(info.value, RayTaskError) and "method" in str(info.value)
    assert ray.get(counter.add.remote()) == 4


def test_errors_name_the_method():
    with pytest.raises(KeyError, match=r"^ray::Counter.fail\(\) \(pid=\d+\)") as info:
        ray.get(Counter.remote().fail.remote())
    assert info.value.function_name == "Counter.fail"


def test_a_constructor_that_raises():
    @ray.remote
    class Broken:
        def __init__(self):
            raise ValueError("no luck today")

        def hello(self):
            return 1

    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(RayActorError, match="no luck today"):
            ray.get(broken.hello.remote(), timeout=40)


def test_a_constructor_with_a_failed_argument():
    @ray.remote
    def fail():
        raise ValueError("argument")

    with pytest.raises(ray.exceptions.RayError, match="argument"):
        ray.get(Counter.remote(fail.remote()).get.remote(), timeout=40)


def test_a_call_with_a_failed_argument_leaves_the_actor_alive():
    @ray.remote
    def fail():
        raise ValueError("argument")

    counter = Counter.remote()
    with pytest.raises(ValueError):
        ray.get(counter.add.remote(fail.remote()), timeout=40)
    assert ray.get(counter.add.remote()) == 1


def test_class_features():
    class Base:
        limit = 5

        def __init__(self, x):
            self._x = x

        def who(self):
            return "base"

        def base_only(self):
            return self.who()

        @staticmethod
        def static(a, b=1):
            return a + b

        @classmethod
        def of_class(cls):
            return cls.limit

        def __len__(self):
            return self._x

        def __call__(self, y):
            return self._x + y

        def _private(self):
            return "private"

    class Derived(Base):
        limit = 6

        def who(self):
            return "derived of " + super().who()

    actor = ray.remote(Derived).remote(3)
    assert ray.get(actor.base_only.remote()) == "derived of base"
    assert ray.get(actor.static.remote(1)) == 2
    assert ray.get(actor.of_class.remote()) == 6
    assert ray.get(actor.__len__.remote()) == 3
    assert ray.get(actor.__call__.remote(4)) == 7
    assert ray.get(actor._private.remote()) == "private"
    assert Derived(1).who() == "derived of base"  # the class itself is as it was


def test_methods_that_every_actor_has():
    @ray.remote
    class Async:
        async def get(self):
            return 1

    def describe(instance, x, y=0):
        return type(instance).__name__, x, y

    async def wait(instance):
        return await instance.get()

    for kind in (Counter, Counter.options(max_concurrency=2), Async):
        actor = kind.remote()
        assert ray.get(actor.__ray_ready__.remote()) is True
        assert ray.get(actor.__ray_call__.remote(describe, 1, y=2)) == (kind.__name__, 1, 2)
        refs = [actor.get.remote(), actor.__ray_terminate__.remote()]
        assert ray.get(refs[0]) == (1 if kind is Async else 0)
        with pytest.raises(ActorDiedError):
            ray.get(refs[1], timeout=40)
    assert ray.get(Async.remote().__ray_call__.remote(wait)) == 1
    with pytest.raises(TypeError, match="__ray_call__"):
        Counter.remote().__ray_call__.remote()


def test_calls_with_arguments_and_options_as_values():
    counter = Counter._remote(args=[5], kwargs={"step": 2}, num_cpus=0)
    assert ray.get(counter.add._remote((1,))) == 7
    assert ray.get(counter.add._remote(kwargs={"n": 2}, num_returns=1)) == 11
    assert ray.get(counter.get._remote()) == 11


def test_partial_methods():
    @ray.remote
    class Partial:
        def add(self, a, b, c=0):
            return a + b + c

        add_one = functools.partialmethod(add, 1)
        add_three = functools.partialmethod(add, 1, c=2)

    partial = Partial.remote()
    assert ray.get(
        [partial.add_one.remote(1), partial.add_one.remote(b=2), partial.add_three.remote(5)]
    ) == [2, 3, 8]
    with pytest.raises(TypeError, match="add_one"):
        partial.add_one.remote()


def test_keyword_and_variable_arguments():
    @ray.remote
    class Any:
        def call(self, a, *args, b=2, **kwargs):
            return a, args, b, kwargs

    actor = Any.remote()
    assert ray.get(actor.call.remote(1)) == (1, (), 2, {})
    assert ray.get(actor.call.remote(1, 2, 3, b=4, c=5, self_=6)) == (
        1,
        (2, 3),
        4,
        {"c": 5, "self_": 6},
    )
    with pytest.raises(TypeError):
        actor.call.remote()


def test_an_actor_creates_actors_and_tasks():
    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote
    class Boss:
        def __init__(self):
            self.counters = [Counter.remote(i) for i in range(3)]

        def total(self):
            return sum(ray.get([double.remote(counter.get.remote()) for counter in self.counters]))

    assert ray.get(Boss.remote().total.remote()) == 6


def test_twenty_actors_on_four_cpus():
    counters = [Counter.remote(i) for i in range(20)]
    assert ray.get([counter.add.remote() for counter in counters]) == list(range(1, 21))


def test_actors_are_not_called_directly():
    with pytest.raises(TypeError, match=r"Counter\.remote"):
        Counter()
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"add\.remote"):
        counter.add()


class Base:
    INHERITED = "base"


@ray.remote
class Worker(Base):
    LIMIT = 10
    _private = [1]

    class Inner:
        pass

    @staticmethod
    def helper(x):
        return x + Worker.LIMIT

    @classmethod
    def name(cls):
        return cls.__name__, cls.LIMIT

    def method(self):
        return (
            Worker.LIMIT,
            Worker._private,
            Worker.helper(1),
            Worker.name(),
            Worker.INHERITED,
            self.helper(2),
        )


def test_what_belongs_to_the_class_itself():
    there = (10, [1], 11, ("Worker", 10), "base")

    @ray.remote
    def look(given):
        return [(c.LIMIT, c._private, c.helper(1), c.name(), c.INHERITED) for c in (Worker, given)]

    @ray.remote
    class Local:
        LIMIT = 5

        def limit(self):
            return Local.LIMIT

    assert (
        Worker.LIMIT,
        Worker._private,
        Worker.helper(1),
        Worker.name(),
        Worker.INHERITED,
    ) == there
    assert Worker.options(num_cpus=0).LIMIT == 10 and Worker.Inner.__name__ == "Inner"
    assert ray.get(look.remote(Worker)) == [there, there]
    assert ray.get(Worker.remote().method.remote()) == (*there, 12)
    assert ray.get(Local.remote().limit.remote()) == 5


def test_what_a_class_does_not_have():
    for _ in range(2):
        with pytest.raises(AttributeError, match="'Worker' has no attribute 'nothing'"):
            Worker.nothing  # noqa: B018
    with pytest.raises(
        AttributeError, match=r"instances of Worker: make an actor with Worker\.remote"
    ):
        Worker.method()
    assert not hasattr(Worker, "__wrapped__") and not hasattr(
        ray.actor.ActorClass.__new__(type(Worker)), "LIMIT"
    )
    assert copy.copy(Worker).LIMIT == 10


def test_an_actor_class_can_not_be_inherited_from():
    assert issubclass(ray.actor.ActorClassInheritanceException, TypeError)
    with pytest.raises(ray.actor.ActorClassInheritanceException, match="Sub can't inherit"):

        class Sub(Counter):
            pass


class Plain:
    def get(self):
        return 1


def hinted(
    handle: ActorHandle[Plain],
    later: "ActorHandle[Plain] | None",
    proxy: ray.actor.ActorProxy[Plain],
    actor_class: ray.actor.ActorClass[Plain],
    of_actor_class: ActorHandle[Counter],
) -> ray.ObjectRef[int]:
    return handle.get.remote()


def test_annotations_name_the_class():
    hints = typing.get_type_hints(hinted)
    assert hints["handle"] == ActorHandle[Plain]
    assert typing.get_origin(hints["handle"]) is ActorHandle
    assert typing.get_args(hints["handle"]) == (Plain,)
    assert typing.get_args(hints["later"]) == (ActorHandle[Plain], type(None))
    assert typing.get_origin(hints["proxy"]) is ActorHandle
    assert typing.get_origin(hints["actor_class"]) is ray.actor.ActorClass
    assert typing.get_args(hints["of_actor_class"]) == (Counter,)
    assert typing.get_origin(hints["return"]) is ray.ObjectRef
    actor_class = ray.remote(Plain)
    handle = actor_class.remote()
    assert isinstance(handle, ActorHandle) and isinstance(actor_class, ray.actor.ActorClass)
    assert ray.get(hinted(handle, None, handle, actor_class, handle)) == 1


def test_annotations_reach_a_worker():
    @ray.remote
    class Holder:
        kept: "ActorHandle[Plain]"

        def hold(self, handles: list[ActorHandle[Plain]]) -> ray.ObjectRef[int]:
            self.kept: ActorHandle[Plain] = handles[0]
            return ray.get(self.kept.get.remote())

    assert ray.get(Holder.remote().hold.remote([ray.remote(Plain).remote()])) == 1


def test_method_without_options_leaves_a_method_as_it_is():
    @ray.remote
    class Methods:
        @ray.method
        def bare(self, x):
            return x + 1

        @ray.method()
        def called(self, x):
            return x + 2

        @ray.method
        @staticmethod
        def static(x):
            return x + 3

    methods = Methods.remote()
    calls = [methods.bare, methods.called, methods.static]
    assert ray.get([call.remote(1) for call in calls]) == [2, 3, 4]


def test_options_that_mean_the_default_pass():
    counter = Counter.options(
        max_restarts=0, max_concurrency=1, lifetime=None, num_cpus=None, name=None
    ).remote()
    assert ray.get(counter.add.remote()) == 1
    for runtime_env in ({}, None):
        counter = Counter.options(runtime_env=runtime_env).remote()
        assert ray.get(counter.add.remote()) == 1
        assert ray.get(ray.remote(runtime_env=runtime_env)(Plain).remote().get.remote()) == 1


def test_an_actors_random_state_is_its_own():
    @ray.remote
    class Dice:
        def throw(self):
            import random

            return random.random()

    dice = [Dice.remote() for _ in range(4)]
    assert len(set(ray.get([each.throw.remote() for each in dice]))) == 4


def test_a_long_queue_of_calls():
    counter = Counter.remote()
    refs = [counter.add.remote() for _ in range(10_000)]
    assert ray.get(refs[-1]) == 10_000
    assert ray.get(refs[4_999]) == 5_000


def test_an_actor_that_gets_its_own_calls_result_from_another_thread():
    @ray.remote
    class Threaded:
        def start(self, counter):
            import threading

            self.found = []
            self.thread = threading.Thread(
                target=lambda: self.found.append(ray.get(counter.add.remote()))
            )
            self.thread.start()

        def finish(self):
            self.thread.join(30)
            return self.found

    threaded = Threaded.remote()
    ray.get(threaded.start.remote(Counter.remote()))
    assert ray.get(threaded.finish.remote()) == [1]


def test_a_call_that_people_see_by_another_name():
    @ray.remote
    class Reader:
        def read(self, path):
            return path, ray.get_runtime_context().get_task_name()

        def fail(self):
            raise KeyError("lost")

    reader = Reader.remote()
    assert ray.get(reader.read.remote("a"))[0] == "a"
    path, name = ray.get(reader.read.options(name="the first file").remote("b"))
    assert path == "b" and name.endswith("the first file")
    long = reader.read.options(name="é" * 120).remote("c")
    assert ray.get(long)[0] == "c"
    with pytest.raises(KeyError, match="the failing one"):
        ray.get(reader.fail.options(name="the failing one").remote())
    with pytest.raises(ValueError, match="NUL"):
        reader.read.options(name="a\0b")
    with pytest.raises(TypeError, match="name must be a str"):
        reader.read.options(name=1)
