"""Functions and actors in C, called from Python; and Python functions called from C."""

import os
import subprocess
import sys

import pytest
import support

import ray
from ray.cross_language import c_class, c_function

INIT = {"num_cpus": 2, "object_store_memory": 256 << 20}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(ROOT, "tests", "unit", "task", "odd_tasks.c")


def compile_c(source, output, *flags):
    """As docs/c-api.md says: with what `ray c-flags` prints."""
    command = [
        sys.executable,
        "-m",
        "ray.scripts.main",
        "c-flags",
        *(["--compile"] if "-shared" in flags else []),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    # The library that `make sanitize` tests needs the sanitizers' own.
    if "-shared" not in flags and support.sanitized():
        found.append("-fsanitize=address,undefined")
    cc = os.environ.get("CC", "cc")
    subprocess.run(
        [cc, *flags, "-D_GNU_SOURCE", "-Wall", "-Werror", source, *found, "-o", output], check=True
    )
    return output


@pytest.fixture(scope="module")
def library():
    return compile_c(SOURCE, os.path.join(support.run_folder(), "libodd.so"), "-shared", "-fPIC")


@pytest.fixture
def c(library, cluster):
    """A function of the library by its name."""
    return lambda name: c_function(library, name)


def test_items_of_a_function_in_c(c, folder):
    count_up = c("count_up").options(num_returns="streaming")
    assert [ray.get(ref) for ref in count_up.remote(5)] == [0, 1, 2, 3, 4]
    generator = count_up.options(_generator_backpressure_num_objects=3).remote(
        100, 50, f"{folder}/died"
    )
    assert [ray.get(ref) for ref in generator] == list(range(100))
    *arrays, text, last = c("arrays_up").options(num_returns="streaming").remote(1000)
    assert [ray.get(ref).tolist() for ref in arrays] == [[i] * 1000 for i in range(3)]
    assert ray.get(text) == "end"
    assert "no more than 1000" in words_of(last)
    assert "streaming" in words_of(c("count_up").remote(5))
    assert "functions in Python" in words_of(c("count_up").options(num_returns="dynamic").remote(5))
    endless = count_up.remote(2**62)
    assert ray.get(next(endless)) == 0
    done = endless.completed()
    del endless
    assert ray.get(done, timeout=60) is None


def test_a_task_asks_whether_it_was_cancelled(c, folder):
    ref = c("until_cancelled").remote(f"{folder}/runs")
    support.wait_for_file(f"{folder}/runs")
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="until_cancelled was running") as e:
        ray.get(ref, timeout=60)
    assert isinstance(e.value.task_id, ray.TaskID)


def words_of(ref):
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(ref)
    return str(caught.value)


def test_a_task(c):
    add = c("add")
    assert ray.get([add.remote(i, 1) for i in range(3000)]) == list(range(1, 3001))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -(2**63),
        2**63 - 1,
        0.1,
        float("inf"),
        "",
        "text",
        "\u00e4\U0001f600",
        b"",
        b"\0\1",
        (),
    ]
    + [(1, (2.5, "x"), None), b"x" * 100000, "y" * 100000],
)
def test_values_come_back(c, value):
    again = ray.get(c("echo").remote(value))
    assert again == value and type(again) is type(value)
    again = ray.get(c("echo").remote(ray.put(value)))
    assert again == value and type(again) is type(value)


def test_what_arguments_are(c):
    given = (None, True, 1, 1.5, "s", b"b", (1,), [1], {1: 2}, 2**64)
    pickled = "a pickled Python object"
    assert ray.get(c("describe").remote(*given)) == (
        "None",
        "a bool",
        "an int",
        "a float",
        "a str",
        "bytes",
        "a tuple",
        pickled,
        pickled,
        pickled,
    )
    assert len(ray.get(c("describe").remote(*range(16)))) == 16


def test_references_are_their_values(c):
    add = c("add")
    first = add.remote(1, 2)
    assert ray.get(add.remote(first, ray.put(10))) == 13

    @ray.remote
    def python_task(x):
        return x * 2

    assert ray.get(add.remote(python_task.remote(first), 1)) == 7
    assert ray.get(python_task.remote(add.remote(1, 1))) == 4


def test_arrays(c):
    np = pytest.importorskip("numpy")
    for count in (0, 1, 511, 512, 100000, 4000000):
        data = np.arange(count, dtype=np.float64)
        assert ray.get(c("sum").remote(data)) == data.sum()
        assert ray.get(c("sum").remote(data.tobytes())) == data.sum()
    large = ray.put(np.ones(200000))
    assert ray.get([c("sum").remote(large) for _ in range(20)]) == [200000.0] * 20
    assert ray.get(c("sum").remote(bytearray(80))) == 0
    assert ray.get(c("sum").remote(bytearray(80_000))) == 0
    assert ray.get(c("sum").remote(memoryview(np.ones(5000)))) == 5000
    for objects in (np.array([1, None]), np.array([None] * 5000)):
        with pytest.raises(TypeError, match="Python objects"):
            c("sum").remote(objects)
    with pytest.raises(TypeError, match="of that kind"):
        c("sum").remote(np.zeros(10, dtype="M8[s]"))
    with pytest.raises(TypeError, match="contiguous"):
        c("sum").remote(np.ones((100, 100))[:, ::2])
    assert ray.get(c("sum").remote(ray.put(np.ones(3)))) == 3
    assert "without a buffer of its own" in words_of(c("sum").remote(ray.put([np.ones(3)])))
    assert "argument 0 is an int, and bytes or an array is needed" in words_of(c("sum").remote(3))


def test_an_array_as_a_result(c, library):
    np = pytest.importorskip("numpy")
    example = compile_c(
        os.path.join(ROOT, "examples", "c", "tasks.c"),
        os.path.join(support.run_folder(), "libt.so"),
        "-shared",
        "-fPIC",
    )
    squares = c_function(example, "squares")
    ref = squares.remote(100000)
    found = ray.get(ref)
    assert found.dtype == np.float64 and not found.flags.writeable
    assert (found == np.arange(100000.0) ** 2).all()
    del ref
    assert found[-1] == 99999.0**2  # the array holds its object
    assert ray.get(squares.remote(0)).shape == (0,)
    view = ray.get(c("view").remote())
    assert isinstance(view, memoryview) and view.readonly and bytes(view) == b"v" * 5000
    assert ray.get(c("sum").remote(squares.remote(1000))) == (np.arange(1000.0) ** 2).sum()


def test_a_value_too_deep_for_python(c):
    assert ray.get(c("deep").remote(3)) == (((None,),),)
    with pytest.raises(RecursionError):
        ray.get(c("deep").remote(1000000))
    assert ray.get(c("describe").remote(c("deep").remote(1000000))) == ("a tuple",)


def test_a_reference_passed_on(c, library):
    np = pytest.importorskip("numpy")
    assert ray.get(c("pass_on").remote(ray.put(np.ones(10000)), library)) == 10000.0
    assert "was not given as a reference" in words_of(c("pass_on").remote(1, library))


def test_several_results(c):
    assert ray.get(c("count").options(num_returns=3).remote()) == [0, 1, 2]
    assert ray.get(c("count").options(num_returns=100).remote()) == list(range(100))
    assert c("count").options(num_returns=0).remote() is None
    assert ray.get(c("nothing").remote()) is None
    refs = c("first_only").options(num_returns=2).remote()
    assert "num_returns is 2, and result 1 was not written" in words_of(refs[0])


def test_errors(c):
    words = words_of(c("fails").remote())
    assert words.startswith("ray::fails() (pid=") and words.endswith("\nit failed with 42")
    assert "argument 1 is a str, and an int is needed" in words_of(c("add").remote(1, "two"))
    assert "argument 0 is None" in words_of(c("add").remote(None, 1))
    assert "it takes 2 arguments, and 3 were given" in words_of(c("add").remote(1, 2, 3))
    assert words_of(c("fails_in_latin_1").remote()).endswith("\n? \u00e4 ??? \U0001f600 ??")
    assert words_of(c("fails_at_length").remote()).count("\u00e4") > 900
    assert "the time ran out" in words_of(c("fails_without_words").remote())
    assert "has no function no_such" in words_of(c("no_such").remote())
    assert "it failed with 42" in words_of(c("echo").remote(c("fails").remote()))

    @ray.remote
    def raises():
        raise KeyError("from Python")

    with pytest.raises(KeyError):
        ray.get(c("echo").remote(raises.remote()))


def test_no_names_for_arguments(c):
    with pytest.raises(TypeError, match="takes no arguments by name: b"):
        c("add").remote(1, b=2)


def test_bad_names(library, folder):
    with pytest.raises(FileNotFoundError):
        c_function(os.path.join(folder, "no.so"), "f")
    for name in ("", "a b", "a-b", 3):
        with pytest.raises(ValueError):
            c_function(library, name)
    with pytest.raises(TypeError, match="add.remote"):
        c_function(library, "add")(1, 2)


def test_a_file_that_is_no_library(cluster, folder):
    path = os.path.join(folder, "text.so")
    support.touch(path)
    assert "can't be loaded" in words_of(c_function(path, "f").remote())


def test_crashes_and_retries(c, folder):
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(c("crash").options(max_retries=0).remote())
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(c("crash").options(max_retries=1).remote())
    assert ray.get(c("crash_once").remote(os.path.join(folder, "one"))) == 1
    path = os.path.join(folder, "two")
    assert ray.get(c("fail_once").options(retry_exceptions=True).remote(path)) == 1
    assert "the first time" in words_of(c("fail_once").remote(os.path.join(folder, "three")))
    with pytest.raises(ValueError, match="no exceptions"):
        c("fails").options(retry_exceptions=[ValueError])


def test_options(c):
    assert ray.get(c("add").options(num_cpus=2, name="other").remote(1, 2)) == 3
    assert words_of(c("fails").options(name="other").remote()).startswith("ray::other()")
    assert ray.get(c("add").options(max_calls=1).remote(1, 2)) == 3
    with pytest.raises(ValueError):
        c("add").options(no_such_option=1)


def test_from_a_task_and_inside_a_value(c):
    add = c("add")

    @ray.remote
    def nested(functions):
        return ray.get([add.remote(1, 2), functions[0].remote(3, 4)])

    assert ray.get(nested.remote([add])) == [3, 7]


def test_store_full(c):
    with pytest.raises(ray.exceptions.RayTaskError, match="object store"):
        ray.get(c("too_large").remote())
    for _ in range(60):
        assert "after all" in words_of(c("array_then_fails").remote())


def test_an_actor(library, cluster, folder):
    path = os.path.join(folder, "box")
    box = c_class(library, "Box").remote(path)
    assert ray.get([box.calls.remote() for _ in range(1000)]) == list(range(1, 1001))
    assert ray.get(box.add.remote(1, 2)) == 3
    assert ray.get(box.sum.options(num_returns=1).remote(bytearray(16))) == 0.0
    assert ray.get(box.pid.remote()) != os.getpid()
    assert words_of(box.fails.remote()).startswith("ray::Box.fails() (pid=")
    assert "has no function Box_no_such" in words_of(box.no_such.remote())
    assert "no method" in words_of(box.free.remote())
    with pytest.raises(TypeError, match="by name"):
        box.add.remote(1, b=2)
    with pytest.raises(AttributeError):
        _ = box._private

    @ray.remote
    def call(handle):
        return ray.get(handle.calls.remote())

    @ray.remote
    def call_method(method, *args):
        return ray.get(method.remote(*args))

    assert ray.get(call.remote(box)) == 1001
    assert ray.get(call_method.remote(box.sum, bytearray(16))) == 0.0
    assert not os.path.exists(path)
    del box
    assert support.wait_until(lambda: os.path.exists(path))


def test_actors_that_die(library, cluster, folder):
    Box = c_class(library, "Box")
    broken = Box.remote(3)
    with pytest.raises(
        ray.exceptions.ActorDiedError, match="argument 0 is an int, and a str is needed"
    ):
        ray.get(broken.calls.remote())
    path = os.path.join(folder, "box")
    crashed = Box.remote(path)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(crashed.crash.remote())
    killed = Box.options(num_cpus=1).remote(path)
    assert ray.get(killed.calls.remote()) == 1
    ray.kill(killed)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(killed.calls.remote())
    assert not os.path.exists(path)
    with pytest.raises(ValueError, match="one after the other"):
        Box.options(max_concurrency=2)


def test_actors_that_are_restarted(library, cluster, folder):
    Box = c_class(library, "Box")
    box = Box.options(max_restarts=2).remote(os.path.join(folder, "box"))
    for _ in range(2):
        assert ray.get([box.calls.remote(), box.calls.remote()], timeout=40) == [1, 2]
        with pytest.raises(ray.exceptions.ActorUnavailableError):
            ray.get(box.crash.remote(), timeout=40)
    assert ray.get(box.calls.remote(), timeout=40) == 1
    often = box.fails.options(max_task_retries=3, retry_exceptions=True)
    assert "the box is shut" in words_of(often.remote())
    with pytest.raises(ValueError, match="no exceptions"):
        box.fails.options(retry_exceptions=[ValueError])
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(box.crash.remote(), timeout=40)
    with pytest.raises(ray.exceptions.ActorDiedError, match="restarted 2 times"):
        ray.get(box.calls.remote(), timeout=40)


def test_what_c_prints_arrives(folder, library):
    code = f"""
import os, ray
from ray.cross_language import c_function
ray.init(num_cpus=1)

@ray.remote
def python_says():
    print("from Python")

@ray.remote
def shell():
    os.system("echo from the shell")

for _ in range(2):
    ray.get(python_says.remote())
    ray.get(c_function({library!r}, "says").remote())
ray.get(shell.remote())
"""
    ran = support.run_driver(support.script(folder, code))
    assert ran.returncode == 0, ran.stderr
    lines = [line.split(" pid=")[0] + line.split(")")[1] for line in ran.stdout.splitlines()]
    printed = [
        "(python_says from Python",
        "(says from C: \1 and more",
        "(says a line without an end",
    ]
    # What has no end is ended by the next line of the same stream, or with the worker.
    assert sorted(lines[:-1]) == sorted(printed * 2)
    assert lines[-1] == "(shell from the shell"  # C has taken its name back
    assert ran.stderr.count("an error from C") == 2 and ran.stderr.startswith("(says pid=")


DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mobula_task.h"

static void check(mob_status_t status) {
    if (status == MOB_OK) return;
    printf("%s: %s\n", mob_status_name(status), mob_last_error());
    exit(1);
}

int main(int argc, char **argv) {
    const mob_resource_t cpus = {"CPU", 2};
    mob_config_t config = {
        .daemon_path = MOB_DAEMON, .zygote_argv = MOB_PYTHON_WORKERS, .store_bytes = 64 << 20};
    mob_client_t *client;
    mob_ref_t function, ref;
    mob_value_t value;
    mob_item_t item;
    mob_args_t args;
    config.resources = &cpus;
    config.resource_count = 1;
    check(mob_init(&config, &client));
    for (int i = 1; i < argc; i++) {
        check(mob_function_python(client, "c_calls_me", argv[i], &function));
        mob_args_init(&args);
        mob_write_int(&args.values, 20);
        mob_args_keyword(&args, "b");
        mob_write_float(&args.values, 1.5);
        check(mob_task_run(client, function, argv[i], &args, &ref));
        mob_args_fini(&args);
        mob_status_t status = mob_get(client, ref, 20000, &value);
        if (status != MOB_OK) {
            const char *end = strrchr(mob_last_error(), '\n');
            printf("%s: %s: %s\n", argv[i], mob_status_name(status), end ? end + 1 : mob_last_error());
            continue;
        }
        check(mob_value_item(&value, &item));
        printf("%s: %s", argv[i], mob_tag_text(item.tag));
        if (item.tag == MOB_FLOAT) printf(" %g", item.real);
        if (item.tag == MOB_PICKLED) printf(" with a buffer of %llu bytes", (unsigned long long)item.size);
        printf("\n");
        mob_ref_release(client, ref);
    }
    mob_shutdown(client);
    return 0;
}
"""

MODULE = """
import ray

def add(a, b):
    return a + b

@ray.remote
def remote_add(a, b):
    return a + b

def a_list(a, b):
    return [a, b]

def an_array(a, b):
    import numpy
    return numpy.full(1000, a + b)

def raises(a, b):
    raise LookupError("no such thing")

class Space:
    @staticmethod
    def inside(a, b):
        return a - b

number = 3
"""


def test_a_c_program_calls_python(folder):
    pytest.importorskip("numpy")
    source, program = os.path.join(folder, "driver.c"), os.path.join(folder, "driver")
    with open(source, "w") as file:
        file.write(DRIVER)
    with open(os.path.join(folder, "c_calls_me.py"), "w") as file:
        file.write(MODULE)
    compile_c(source, program)
    names = [
        "add",
        "remote_add",
        "a_list",
        "an_array",
        "raises",
        "Space.inside",
        "number",
        "no_such",
    ]
    env = {**os.environ, "PYTHONPATH": folder + os.pathsep + os.environ["PYTHONPATH"]}
    ran = subprocess.run([program, *names], env=env, capture_output=True, text=True, timeout=50)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "add: a float 21.5",
        "remote_add: a float 21.5",
        "a_list: a pickled Python object with a buffer of 0 bytes",
        "an_array: a pickled Python object with a buffer of 8000 bytes",
        "raises: task: LookupError: no such thing",
        "Space.inside: a float 18.5",
        "number: task: TypeError: c_calls_me.number can't be called: it is a int",
        "no_such: task: AttributeError: module 'c_calls_me' has no attribute 'no_such'",
    ]
