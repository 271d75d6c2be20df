"""Exceptions in tasks: they arrive as themselves, with the story of what happened."""

import copy
import os
import pickle
import sys

import pytest
import support

import ray
from ray.exceptions import RayTaskError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def fail_with(error):
    raise error


@ray.remote
def echo(x):
    return x


def failure(ref):
    """The exception that get raises."""
    with pytest.raises(RayTaskError) as info:
        ray.get(ref, timeout=40)
    return info.value


class Custom(Exception):
    def __init__(self, code, detail):
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


@ray.remote
def fail_custom(code, detail):
    # which pickle alone could not carry: its args are not what its constructor takes
    raise Custom(code, detail)


class Slotted(Exception):
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    "error",
    [
        ValueError("text"),
        KeyError("key"),
        ZeroDivisionError(),
        OSError(2, "No such file", "name"),
        FileNotFoundError(2, "No such file", "name"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        StopIteration(5),
        ImportError("no", name="module"),
        MemoryError(),
        AssertionError("a", 1),
        RecursionError("deep"),
        TimeoutError("late"),
        EOFError(),
        RuntimeError("é 日本"),
        ray.exceptions.GetTimeoutError("nested"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_both_its_own_class_and_a_task_error(error):
    found = failure(fail_with.remote(error))
    assert isinstance(found, type(error)) and isinstance(found, RayTaskError)
    assert type(error).__name__ in str(found)
    assert isinstance(found.cause, type(error)) and found.cause.args == error.args
    # as with Ray: Modin's tests and others take the cause from there
    assert len(found.args) == 1 and found.args[0] is found.cause


def test_fields_of_errors_arrive():
    assert failure(fail_with.remote(OSError(13, "denied", "file"))).errno == 13
    found = failure(fail_custom.remote(5, {"a": [1]}))
    assert (found.code, found.detail) == (5, {"a": [1]}) and isinstance(found, Custom)
    assert failure(fail_with.remote(Slotted(3))).x == 3
    error = failure(fail_with.remote(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why")))
    assert (error.reason, error.object) == ("why", b"\xff")


def test_the_name_that_was_not_found_arrives():
    @ray.remote
    def fail(how):
        return missing if how == "name" else ().missing  # noqa: F821

    assert failure(fail.remote("name")).name == "missing"
    assert failure(fail.remote("attribute")).name == "missing"


class Guarded(Exception):
    """Refuses to be changed, and has names of its own where a RayTaskError has fields."""

    function_name = "its own name"
    cause = property(lambda self: "its own cause")
    pid = property(lambda self: "its own pid")
    args = property(lambda self: ("its own args",))

    def __setattr__(self, name, value):
        raise TypeError("this can't be changed")


def test_an_error_that_can_not_be_changed():
    found = failure(fail_with.remote(Guarded("text")))
    assert isinstance(found, Guarded)
    assert (found.cause, found.pid, found.args) == (
        "its own cause",
        "its own pid",
        ("its own args",),
    )
    assert "fail_with" in str(found) and found.function_name == "its own name"


def test_an_errors_own_fields_win():
    error = ValueError("text")
    error.pid, error.function_name, error.cause, error.traceback_str = 1, 2, 3, 4
    for found in (
        failure(fail_with.remote(error)),
        failure(fail_with.remote(failure(fail_with.remote(error)))),
    ):
        assert (found.pid, found.function_name, found.cause, found.traceback_str) == (1, 2, 3, 4)
        assert isinstance(found, ValueError) and "ValueError: text" in str(found)
        again = pickle.loads(pickle.dumps(found))
        assert (again.pid, str(again)) == (1, str(found)) and isinstance(again, ValueError)


class Sealed(Exception):
    def __init_subclass__(cls):
        raise RuntimeError("no classes below this one")


def test_an_error_whose_class_can_not_be_inherited_from():
    found = failure(fail_with.remote(Sealed("text")))
    assert type(found) is RayTaskError and isinstance(found.cause, Sealed)
    assert "fail_with" in str(found) and "Sealed: text" in str(found)


def test_the_remote_traceback_is_in_the_text():
    def inner():
        return {}["missing"]

    @ray.remote
    def outer():
        return inner()

    text = str(failure(outer.remote()))
    assert "outer" in text and "inner" in text and "KeyError: 'missing'" in text
    assert os.path.basename(__file__) in text and 'return {}["missing"]' in text
    assert "ray/_private" not in text


def test_the_text_reaches_whoever_does_not_catch_it(folder):
    code = """
import ray
@ray.remote
def unlucky():
    raise ValueError("thirteen")
ray.get(unlucky.remote())
"""
    result = support.run_driver(support.script(folder, code))
    assert result.returncode == 1
    assert "ValueError: thirteen" in result.stderr and "unlucky" in result.stderr


def test_catching_either_class():
    for kind in (ValueError, RayTaskError, ray.exceptions.RayError, Exception):
        try:
            ray.get(fail_with.remote(ValueError("x")))
        except kind:
            pass


def test_causes_and_contexts_are_told():
    @ray.remote
    def chained():
        try:
            {}["first"]
        except KeyError as error:
            raise ValueError("second") from error

    found = failure(chained.remote())
    assert isinstance(found, ValueError)
    assert "first" in str(found) and "second" in str(found)


def test_an_exception_of_a_local_class():
    class Local(ValueError):
        pass

    @ray.remote
    def fail():
        raise Local("here")

    found = failure(fail.remote())
    assert isinstance(found, Local) and isinstance(found, ValueError)


def test_fields_that_can_not_be_pickled_stay_behind():
    @ray.remote
    def fail():
        import threading

        error = ValueError("holds a lock", threading.Lock())
        error.lock, error.code = threading.Lock(), 7
        raise error

    found = failure(fail.remote())
    assert isinstance(found, ValueError) and found.cause.args[0] == "holds a lock"
    assert (found.lock, found.code) == (None, 7) and "lock" in found.cause.args[1]
    assert "left out of ValueError" in str(found)
    assert ".lock (_thread.lock): cannot pickle" in str(found)


def test_an_exception_of_a_class_that_can_not_be_pickled():
    @ray.remote
    def fail(base):
        import threading

        class Odd(base):
            lock = threading.Lock()

        raise Odd("holds on")

    for base in (KeyError, Exception):
        found = failure(fail.remote(base))
        assert "Odd: " in str(found) and "holds on" in str(found)
        assert "Odd could not be pickled: TypeError: cannot pickle '_thread.lock'" in str(found)
        assert isinstance(found, KeyError) == (base is KeyError)
        assert found.args == ((found.cause,) if base is KeyError else ())


def test_http_errors():
    @ray.remote
    def fail():
        import email.message
        import io
        import urllib.error

        headers = email.message.Message()
        headers["Retry-After"] = "5"
        raise urllib.error.HTTPError(
            "http://localhost/x", 503, "too busy", headers, io.BufferedReader(io.BytesIO(b"body"))
        )

    import urllib.error

    with pytest.raises(urllib.error.HTTPError) as info:
        ray.get(fail.remote())
    found = info.value
    assert (found.code, found.msg, found.reason) == (503, "too busy", "too busy")
    assert found.headers["Retry-After"] == "5" and found.filename == "http://localhost/x"
    assert isinstance(found.cause, urllib.error.HTTPError) and found.fp is None
    assert "left out of urllib.error.HTTPError" in str(found) and ".fp (" in str(found)


class Response:
    """As a library's: it has a connection."""

    def __init__(self, status):
        import socket

        self.status, self.connection = status, socket.socket()


class RequestFailed(OSError):
    """As in requests: its constructor takes things by name."""

    def __init__(self, *args, response, url):
        super().__init__(*args)
        self.response, self.url = response, url


def test_an_error_whose_constructor_takes_names():
    @ray.remote
    def fail():
        raise RequestFailed(111, "refused", response=Response(500), url="http://x")

    found = failure(fail.remote())
    assert isinstance(found, RequestFailed) and (found.url, found.response) == ("http://x", None)
    assert (found.errno, found.strerror) == (111, "refused")
    assert ".response -> .connection (socket.socket)" in str(found)


def test_an_error_whose_text_is_no_utf8():
    found = failure(fail_with.remote(ValueError("lone \udc80 surrogate")))
    assert isinstance(found, ValueError) and "lone \\udc80 surrogate" in str(found)


def test_an_exception_that_can_not_be_unpickled():
    @ray.remote
    def fail():
        class Trap(Exception):
            def __reduce__(self):
                return int, ("no number",)

        raise Trap("it said")

    assert "it said" in str(failure(fail.remote()))


def test_an_exception_whose_text_can_not_be_made():
    @ray.remote
    def fail():
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError("no words")

            __repr__ = __str__

        raise Mute

    assert "Mute" in str(failure(fail.remote()))


def test_an_exception_class_of_a_module_that_the_driver_lacks():
    @ray.remote
    def fail():
        import types

        module = types.ModuleType("only_there")
        exec("class Foreign(Exception): pass", module.__dict__)
        sys.modules["only_there"] = module
        raise module.Foreign("far away")

    assert "far away" in str(failure(fail.remote()))


def test_a_huge_exception():
    found = failure(fail_with.remote(ValueError("x" * 3_000_000)))
    assert isinstance(found, ValueError) and len(found.cause.args[0]) == 3_000_000


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_exception_groups():
    group = ExceptionGroup("several", [ValueError(1), KeyError("k")])  # noqa: F821
    found = failure(fail_with.remote(group))
    assert isinstance(found, ExceptionGroup)  # noqa: F821
    assert [type(part) for part in found.exceptions] == [ValueError, KeyError]


def test_a_failed_argument_fails_the_task_with_that_cause(folder):
    @ray.remote
    def never(x, y=None):
        support.touch(f"{folder}/ran")

    bad = fail_with.remote(KeyError("root"))
    for ref in (
        never.remote(bad),
        never.remote(1, bad),
        never.remote(1, y=bad),
        never.remote(never.remote(bad)),
    ):
        found = failure(ref)
        assert isinstance(found, KeyError) and "root" in str(found)
    assert not os.path.exists(f"{folder}/ran")


@ray.remote
class Holder:
    def __init__(self, *values):
        pass

    def take(self, *values):
        pass


@ray.remote
def load():
    raise KeyError("the first cause")


@ray.remote
def train(data):
    return data


@ray.remote
def evaluate(x, model=None):
    return model


LINK = "  At least one of the input arguments for this task could not be computed:\n"


def test_a_failed_argument_names_the_chain():
    found = failure(evaluate.remote(1, model=train.remote(load.remote())))
    text = str(found)
    lines = text.split("\n")
    assert lines[0].startswith("ray::evaluate() (pid=")
    assert lines[2].startswith("ray.exceptions.RayTaskError: ray::train() (pid=")
    assert lines[4].startswith("ray.exceptions.RayTaskError: ray::load() (pid=")
    assert text.count(LINK) == 2 and text.endswith("KeyError: 'the first cause'")
    assert isinstance(found, KeyError) and type(found.cause) is KeyError
    assert found.function_name == "evaluate" and found.pid == int(lines[0].split("pid=")[1][:-1])


def test_a_failed_argument_of_an_actor():
    holder = Holder.remote()
    found = failure(holder.take.remote(1, load.remote()))
    assert isinstance(found, KeyError) and str(found).startswith("ray::Holder.take() (pid=")
    assert f"{LINK}ray.exceptions.RayTaskError: ray::load() (pid=" in str(found)
    stillborn = Holder.remote(train.remote(load.remote()))
    with pytest.raises(ray.exceptions.ActorDiedError) as info:
        ray.get(stillborn.take.remote())
    assert info.value.actor_init_failed
    for part in ("ray::Holder.__init__() (pid=", "ray::train() (pid=", "ray::load() (pid=", LINK):
        assert part in str(info.value)


def test_a_crash_as_an_argument_names_the_chain():
    @ray.remote(max_retries=0)
    def crash():
        os._exit(3)

    with pytest.raises(ray.exceptions.WorkerCrashedError) as info:
        ray.get(train.remote(crash.remote()))
    assert str(info.value).startswith("ray::train() (pid=")
    assert f"{LINK}ray.exceptions.WorkerCrashedError: the worker (pid" in str(info.value)


def test_a_long_chain_of_failures_stays_short():
    ref = load.remote()
    for _ in range(300):
        ref = train.remote(ref)
    found = failure(evaluate.remote(ref))
    assert isinstance(found, KeyError) and len(str(found)) < 10000
    assert str(found).startswith("ray::evaluate() (pid=") and "ray::load() (pid=" in str(found)
    assert "(285 tasks in between are left out)" in str(found)


def test_a_failed_argument_that_fails_late(folder):
    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        raise KeyError("late")

    ref = echo.remote(echo.remote(late.remote()))
    support.touch(f"{folder}/go")
    assert isinstance(failure(ref), KeyError)


def test_errors_through_nested_tasks():
    @ray.remote
    def level(n):
        return ray.get(level.remote(n - 1)) if n else 1 / 0

    found = failure(level.remote(3))
    assert isinstance(found, ZeroDivisionError) and "ZeroDivisionError" in str(found)


def test_a_task_may_catch_the_error_of_another():
    @ray.remote
    def rescue():
        try:
            return ray.get(fail_with.remote(KeyError("x")))
        except KeyError as error:
            return repr(error.args), isinstance(error, RayTaskError)

    assert ray.get(rescue.remote()) == ("(KeyError('x'),)", True)


def test_all_results_of_a_failed_task_fail():
    @ray.remote(num_returns=3)
    def fail():
        raise KeyError("all")

    for ref in fail.remote():
        assert isinstance(failure(ref), KeyError)


def test_one_failure_among_many_leaves_the_others_good():
    refs = [echo.remote(1), fail_with.remote(KeyError("x")), echo.remote(3)]
    with pytest.raises(KeyError):
        ray.get(refs)
    assert ray.get([refs[0], refs[2]]) == [1, 3]
    with pytest.raises(KeyError):
        ray.get(refs)  # again, and again the same


def test_an_exception_as_a_value_is_a_value():
    error = ray.get(echo.remote(ValueError("just data")))
    assert type(error) is ValueError and error.args == ("just data",)
    assert type(ray.get(ray.put(KeyError("k")))) is KeyError


def test_a_caught_error_can_be_pickled_and_sent():
    found = failure(fail_custom.remote(1, 2))
    again = pickle.loads(pickle.dumps(found))
    assert (
        isinstance(again, Custom) and isinstance(again, RayTaskError) and str(again) == str(found)
    )
    back = ray.get(echo.remote(found))
    assert isinstance(back, Custom) and back.code == 1
    for same in (copy.copy(found), copy.deepcopy(found)):
        assert isinstance(same, Custom) and same.code == 1 and str(same) == str(found)


def test_a_task_that_exits_fails_but_its_worker_lives():
    @ray.remote
    def leave(status):
        sys.exit(status)

    for status in (0, 3, "text"):
        with pytest.raises(ray.exceptions.RayError):
            ray.get(leave.remote(status), timeout=40)
    assert ray.get(echo.remote(1)) == 1


def test_keyboard_interrupt_in_a_task_does_not_interrupt_the_driver():
    with pytest.raises(RayTaskError, match="KeyboardInterrupt"):
        ray.get(fail_with.remote(KeyboardInterrupt("odd")), timeout=40)
    assert ray.get(echo.remote(1)) == 1


def test_a_result_that_can_not_be_pickled():
    @ray.remote
    def give():
        import threading

        return {"deep": [threading.Lock()]}

    found = failure(give.remote())
    assert isinstance(found, TypeError) and "lock" in str(found)
    assert ray.get(echo.remote(1)) == 1


def test_a_result_that_can_not_be_unpickled():
    @ray.remote
    def give():
        class Trap:
            def __reduce__(self):
                return int, ("no number",)

        return Trap()

    ref = give.remote()
    for _ in range(2):
        with pytest.raises(ValueError, match="no number"):
            ray.get(ref, timeout=40)


def test_refs_inside_of_exceptions():
    @ray.remote
    def fail():
        error = ValueError("carries a ref")
        error.ref = ray.put("cargo")
        raise error

    ref = fail.remote()
    assert ray.get(failure(ref).ref, timeout=30) == "cargo"
