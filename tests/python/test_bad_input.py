"""Bad input gets a clear error, and nothing is lost: what was right before is right after."""

import importlib
import os
import threading

import pytest
import support
from support import Counter, echo

import ray

pytestmark = pytest.mark.one_path("what is refused is refused before it is submitted")

INIT = {"num_cpus": 2}


@pytest.fixture
def good(cluster):
    """After the test, the session is as good as before."""
    counter = Counter.remote()
    ref = ray.put("kept")
    yield
    assert ray.get(echo.remote(ref), timeout=30) == "kept"
    assert ray.get(counter.add.remote(), timeout=30) == 1


def test_calling_a_remote_function_directly(good):
    with pytest.raises(TypeError, match=r"echo\.remote"):
        echo(1)


def test_calling_an_actor_class_directly(good):
    with pytest.raises(TypeError, match=r"Counter\.remote"):
        Counter()


@pytest.mark.parametrize(
    "thing", [5, "text", None, 1.5, object(), {}], ids=lambda thing: type(thing).__name__
)
def test_get_of_what_is_no_ref_names_its_type(good, thing):
    with pytest.raises(ValueError, match=type(thing).__name__):  # as in Ray
        ray.get(thing)
    with pytest.raises(TypeError, match=type(thing).__name__):
        ray.get([ray.put(1), thing])


def test_get_of_other_things_of_ours(good):
    for thing, name in [
        (echo, "RemoteFunction"),
        (Counter, "ActorClass"),
        (Counter.remote(), "ActorHandle"),
    ]:
        with pytest.raises((TypeError, ValueError), match=name):
            ray.get(thing)
        with pytest.raises((TypeError, ValueError), match=name):
            ray.wait([thing])


def test_get_options(good):
    with pytest.raises(TypeError):
        ray.get(ray.put(1), patience=1)
    with pytest.raises(TypeError):
        ray.get()
    with pytest.raises(TypeError):
        ray.put()
    with pytest.raises(TypeError):
        ray.put(1, 2)


OPTIONS = [
    ({"num_cpu": 1}, (ValueError, TypeError), "num_cpu"),
    ({"retries": 1}, (ValueError, TypeError), "retries"),
    ({"num_cpus": -1}, ValueError, "num_cpus"),
    ({"num_cpus": "1"}, TypeError, "num_cpus"),
    ({"num_cpus": [1]}, TypeError, "num_cpus"),
    ({"num_cpus": float("nan")}, ValueError, "num_cpus"),
    ({"num_cpus": float("inf")}, ValueError, "num_cpus"),
    ({"num_gpus": -0.5}, ValueError, "num_gpus"),
    ({"num_gpus": 1.5}, ValueError, "num_gpus.*whole"),
    ({"num_cpus": 0.00005}, ValueError, "num_cpus.*0.0001.*precision"),
    ({"memory": -1}, ValueError, "memory"),
    ({"memory": "1GB"}, TypeError, "memory"),
    ({"resources": {"a": -1}}, ValueError, "a"),
    ({"resources": {"a": "x"}}, TypeError, "a"),
    ({"resources": {"a": 1e-5}}, ValueError, "a.*0.0001.*precision"),
    ({"resources": {"": 1}}, ValueError, "name.*empty"),
    ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
    ({"resources": {"GPU": 1}}, ValueError, "num_gpus"),
    ({"resources": {1: 1}}, TypeError, "int"),
    ({"resources": "disk"}, TypeError, "resources"),
]
TASK_OPTIONS = [
    ({"num_returns": -1}, ValueError, "num_returns"),
    ({"num_returns": "two"}, (TypeError, ValueError), "num_returns"),
    ({"num_returns": 1.5}, (TypeError, ValueError), "num_returns"),
    ({"num_returns": True}, (TypeError, ValueError), "num_returns"),
    ({"max_retries": -2}, ValueError, "max_retries"),
    ({"max_retries": "3"}, TypeError, "max_retries"),
    ({"max_calls": -1}, ValueError, "max_calls"),
    ({"name": 5}, TypeError, "name"),
    ({"retry_exceptions": "yes"}, TypeError, "retry_exceptions"),
    ({"retry_exceptions": [5]}, TypeError, "retry_exceptions"),
    ({"retry_exceptions": ValueError}, TypeError, "retry_exceptions"),
    ({"max_restarts": 1}, ValueError, "max_restarts"),
]


@pytest.mark.parametrize(
    "options, error, word", OPTIONS + TASK_OPTIONS, ids=lambda value: str(value)[:40]
)
def test_wrong_options_of_tasks(good, options, error, word):
    with pytest.raises(error, match=word):
        ray.remote(**options)(lambda: 1)
    with pytest.raises(error, match=word):
        echo.options(**options)


@pytest.mark.parametrize(
    "options, error, word",
    OPTIONS
    + [
        ({"num_returns": 2}, ValueError, "num_returns"),
        ({"max_retries": 1}, ValueError, "max_retries"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_options_of_actors(good, options, error, word):
    with pytest.raises(error, match=word):
        ray.remote(**options)(type("Class", (), {}))
    with pytest.raises(error, match=word):
        Counter.options(**options)


def test_wrong_options_of_methods(good):
    counter = Counter.remote()
    for options in ({"num_returns": -1}, {"num_returns": "x"}, {"num_cpus": 1}, {"bogus": 1}):
        with pytest.raises((TypeError, ValueError), match=next(iter(options))):
            counter.add.options(**options)
        with pytest.raises((TypeError, ValueError), match=next(iter(options))):
            ray.method(**options)(lambda self: 1)
    for wrong in ((2,), (lambda self: 1, 2)):
        with pytest.raises(TypeError, match="num_returns"):
            ray.method(*wrong)
    with pytest.raises(TypeError, match="num_returns"):
        ray.method(lambda self: 1, num_returns=2)


@pytest.mark.parametrize("name", ["num_returns", "max_retries", "max_calls"])
@pytest.mark.parametrize("value", [2**31, 2**33, 2**70])
def test_huge_counts(good, name, value):
    with pytest.raises(ValueError, match=f"{name} must be at most"):
        echo.options(**{name: value})


def test_a_huge_number_of_results(good):
    with pytest.raises(ValueError, match="num_returns must be at most 100000"):
        echo.options(num_returns=10**9)
    assert ray.get(echo.options(max_retries=2**31 - 1).remote(1)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"runtime_env": {"conda": "x"}},
    ],
    ids=str,
)
def test_options_that_come_later_say_so(good, options):
    with pytest.raises(Exception, match="not in Mobula yet"):
        echo.options(**options)
    with pytest.raises(Exception, match="not in Mobula yet"):
        ray.remote(**options)(lambda: 1)


@pytest.mark.parametrize("name", ["rllib", "train", "tune", "serve", "UniqueID"])
def test_names_that_come_later_say_so(name):
    assert not hasattr(ray, name)
    with pytest.raises(AttributeError, match="not in Mobula"):
        getattr(ray, name)


def test_runtime_env_that_is_empty_passes(good):
    for runtime_env in ({}, None):
        assert ray.get(echo.options(runtime_env=runtime_env).remote(1)) == 1
        assert ray.get(ray.remote(runtime_env=runtime_env)(lambda: 2).remote()) == 2


ATTRIBUTES_THAT_COME_LATER = [
    (lambda: ray.ObjectRef, "ObjectRef", "from_random owner_address"),
    (
        lambda: ray.put(1),
        "ObjectRef",
        "owner_address redis_shard_hash tensor_transport",
    ),
    (lambda: echo, "RemoteFunction", "_default_options _function_name"),
    (lambda: Counter, "ActorClass", "__ray_metadata__ _default_options"),
    (lambda: Counter.remote(), "ActorHandle", "_actor_method_call _ray_is_cross_language"),
    (lambda: Counter.remote().add, "ActorMethod", "_method_name"),
]


@pytest.mark.parametrize("make, owner, names", ATTRIBUTES_THAT_COME_LATER)
def test_attributes_that_come_later_say_so(good, make, owner, names):
    thing = make()
    for name in names.split():
        with pytest.raises(AttributeError, match=f"^{owner}.{name} is not in Mobula yet$"):
            getattr(thing, name)
        assert not hasattr(thing, name)
        assert getattr(thing, name, "none") == "none"
    with pytest.raises(AttributeError, match="no (attribute|method) 'no_such_thing'"):
        thing.no_such_thing  # noqa: B018


def test_a_users_own_name_is_no_name_of_ours(good):
    @ray.remote
    class Binder:
        @classmethod
        def bind(cls):
            return "bound"

        def method_meta(self):
            return "meta"

    assert Binder.bind() == "bound"
    with pytest.raises(AttributeError, match="'method_meta' is a method of instances of Binder"):
        Binder.method_meta  # noqa: B018
    binder = Binder.remote()
    assert ray.get([binder.bind.remote(), binder.method_meta.remote()]) == ["bound", "meta"]


def test_modules_are_there_without_an_import_of_their_own(folder):
    code = """
import ray
print(ray._private.services.get_node_ip_address().count("."))
print(ray.util.state.list_objects.__name__, ray.worker.global_worker.connected, ray.state.__name__)
for look in ("ray._private.utils", "ray._private.no_such_thing", "ray.util.state.api"):
    try:
        eval(look)
    except AttributeError as error:
        print(error)
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.splitlines() == [
        "3",
        "list_objects False ray._private.state",
        "ray._private.utils is not in Mobula yet",
        "module 'ray._private' has no attribute 'no_such_thing'",
        "ray.util.state.api is not in Mobula yet",
    ], result.stderr


def test_names_that_never_were():
    with pytest.raises(AttributeError, match="no attribute"):
        ray.no_such_thing  # noqa: B018


def test_modules_that_come_later():
    for name in ("sgd", "spark"):
        with pytest.raises(AttributeError, match="not in Mobula: Mobula is Ray's core only"):
            getattr(ray.util, name)
    for name in (
        "ray.data.block",
        "ray.tune",
        "ray.util.spark",
        "ray.train.torch",
    ):
        with pytest.raises(ModuleNotFoundError, match="is not in Mobula"):
            importlib.import_module(name)
    with pytest.raises(ModuleNotFoundError, match="No module named 'ray.no_such_thing'"):
        importlib.import_module("ray.no_such_thing")


@pytest.mark.parametrize("name", ["ray.serve", "ray.util.horovod", "ray.util.state.list_actors"])
def test_names_that_come_later_can_not_be_imported(name):
    package, _, last = name.rpartition(".")
    with pytest.raises(ImportError, match=f"{name} is not in Mobula"):
        exec(f"from {package} import {last}")


def test_who_only_asks_whether_a_module_is_there_is_told_no():
    for name in ("ray.tune", "ray.util.spark"):
        assert importlib.util.find_spec(name) is None


def test_wrong_use_of_the_decorator(good):
    with pytest.raises(TypeError):
        ray.remote()
    with pytest.raises(TypeError):
        ray.remote(2)
    with pytest.raises(TypeError):
        ray.remote(lambda: 1, num_cpus=1)


class Holder:
    def __init__(self):
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    "call", [lambda x: ray.put(x), lambda x: echo.remote(x), lambda x: echo.remote([x])]
)
def test_what_can_not_be_pickled_is_named(good, call):
    with pytest.raises(TypeError, match="lock") as info:
        call({"deep": [Holder()]})
    text = str(info.value)
    assert "'deep'" in text and ".lock" in text  # the way to the part that is to blame


def test_an_argument_of_a_method_that_can_not_be_pickled(good):
    counter = Counter.remote()
    with pytest.raises(TypeError, match="lock"):
        counter.add.remote(threading.Lock())
    with pytest.raises(TypeError, match="lock"):
        ray.get(ray.put(threading.Lock()))
    assert ray.get(counter.add.remote()) == 1


def test_pickling_that_raises_anything(good):
    class Angry:
        def __reduce__(self):
            raise RuntimeError("leave me alone")

    for call in (ray.put, echo.remote):
        with pytest.raises(Exception, match="leave me alone"):
            call(Angry())


def test_a_generator_can_not_be_put(good):
    with pytest.raises(TypeError, match="generator"):
        ray.put(i for i in range(3))


def test_hundreds_of_failed_puts_leak_no_slots(good):
    lock = threading.Lock()
    for _ in range(3000):
        with pytest.raises(TypeError):
            ray.put((ray.put(1), lock))


def test_init_in_a_task_is_no_second_system(good):
    @ray.remote
    def again():
        try:
            ray.init()
        except RuntimeError:
            pass
        ray.init(ignore_reinit_error=True)
        return ray.get_runtime_context().get_node_id()

    assert ray.get(again.remote(), timeout=40) == ray.nodes()[0]["NodeID"]


def test_shutdown_in_a_task_does_not_end_the_session(good):
    @ray.remote
    def end():
        try:
            ray.shutdown()
        except RuntimeError as error:
            return str(error)
        return "shut down"

    ray.get(end.remote(), timeout=40)


def test_a_task_waiting_for_itself_times_out(good):
    @ray.remote
    def waits(box):
        try:
            ray.get(box[0], timeout=0.2)
        except ray.exceptions.GetTimeoutError:
            return "timed out"

    @ray.remote(num_cpus=0)
    def never():
        support.wait_for_file(os.path.join(support.run_folder(), "never"), 3)

    assert ray.get(waits.remote([never.options(max_retries=0).remote()]), timeout=40) == "timed out"


def test_a_sub_interpreter_is_refused(folder):
    """It would take the hooks of the first one over."""
    pytest.importorskip("_xxsubinterpreters")  # of Python 3.12 and before
    code = """
import _xxsubinterpreters as interpreters
import ray
ray.init(num_cpus=1)

@ray.remote
def fails():
    raise KeyError("as before")

other = interpreters.create()
try:
    interpreters.run_string(other, "import ray")
except interpreters.RunFailedError as error:
    print("sub-interpreter" in str(error))
interpreters.destroy(other)
try:
    ray.get(fails.remote(), timeout=30)
except KeyError:
    print("as before")
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "True\nas before\n", result.stderr
