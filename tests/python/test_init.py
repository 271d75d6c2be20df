"""Starting and ending the system, and what it says about itself."""

import logging
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import threading
import warnings

import pytest
import support

import ray
from ray.exceptions import RaySystemError

pytestmark = pytest.mark.one_path("the beginning and the end of sessions")


@ray.remote
def echo(x):
    return x


@ray.remote
class Keeper:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


def test_is_initialized(start):
    assert ray.is_initialized() is False
    start(num_cpus=1)
    assert ray.is_initialized() is True
    ray.shutdown()
    assert ray.is_initialized() is False


def test_is_initialized_without_a_call_is_true():
    assert ray.is_initialized  # programs of 2018 test it like this


def test_shutdown_may_come_twice_or_before_init(start):
    ray.shutdown()
    start(num_cpus=1)
    ray.shutdown()
    ray.shutdown()


def test_context(start):
    context = start(num_cpus=1)
    assert context.python_version == ".".join(map(str, sys.version_info[:3]))
    assert context.ray_version == ray.__version__
    assert context["node_id"] == context.address_info["node_id"] == ray.nodes()[0]["NodeID"]
    assert os.path.isdir(context["session_dir"])
    assert context.dashboard_url in (None, "")
    assert context.address_info["redis_address"] is None
    assert context.address_info["metrics_export_port"] is None
    assert "node_id" in context and len(context) == len(list(context))


def test_context_is_a_table_in_a_notebook(start):
    html = start(num_cpus=1)._repr_html_()
    assert "<table" in html and "Python version" in html and "Dashboard" in html
    assert ray.__version__ in html and ".".join(map(str, sys.version_info[:3])) in html


def test_context_ends_the_session_at_the_end_of_a_with(start):
    with start(num_cpus=1):
        assert ray.get(echo.remote(1)) == 1
    assert not ray.is_initialized()


def test_second_init_raises(start):
    start(num_cpus=3)
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        start(num_cpus=1)
    assert ray.get(echo.remote(1)) == 1
    context = start(num_cpus=1, ignore_reinit_error=True)
    assert context["node_id"] == ray.nodes()[0]["NodeID"]
    assert ray.cluster_resources()["CPU"] == 3


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda: ray.get(ray.put(5)), 5),
        (lambda: ray.get([]), []),
        (lambda: ray.get(echo.remote(5)), 5),
        (lambda: ray.get(Keeper.remote(5).get.remote()), 5),
        (lambda: len(ray.wait([ray.put(1)])[0]), 1),
    ],
    ids=["put", "get", "task", "actor", "wait"],
)
def test_a_call_before_init_starts_it(start, call, expected):
    assert call() == expected
    assert ray.is_initialized()
    assert ray.cluster_resources()["CPU"] >= 1


def test_init_in_a_task(start):
    start(num_cpus=1)

    @ray.remote
    def again(**options):
        ray.init(**options)
        return ray.get(ray.put(1))

    with pytest.raises(RuntimeError, match="(?s)in a task or an actor.*leave the call out"):
        ray.get(again.remote())
    assert ray.get(again.remote(ignore_reinit_error=True)) == 1


def test_a_working_directory_that_is_gone(folder):
    code = """
import os, ray
os.rmdir(os.getcwd())
ray.init(num_cpus=1)
print(ray.get(ray.remote(abs).remote(-1)))
ray.shutdown()
try:
    ray.init(num_cpus=1, _temp_dir="here")
except ValueError as error:
    print(error)
"""
    gone = os.path.join(folder, "gone")
    os.mkdir(gone)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=gone, capture_output=True, text=True, timeout=50
    )
    assert result.stdout.splitlines() == [
        "1",
        "_temp_dir here can't be made: No such file or directory",
    ], result.stderr


def test_looking_around_before_init_is_an_error():
    context = ray.get_runtime_context()
    looks = (ray.nodes, ray.cluster_resources, ray.available_resources, ray.timeline)
    for look in (*looks, context.get_job_id, context.get_node_id):
        with pytest.raises(ray.exceptions.RaySystemError, match="ray.init"):
            look()
    assert not ray.is_initialized()


def test_resources_are_what_init_was_given(start):
    start(
        num_cpus=3,
        num_gpus=2,
        resources={"disk": 4, "half": 0.5},
        object_store_memory=64 << 20,
        _memory=1 << 30,
    )
    total = ray.cluster_resources()
    assert (total["CPU"], total["GPU"], total["disk"], total["half"]) == (3, 2, 4, 0.5)
    assert total["memory"] == 1 << 30
    assert total["object_store_memory"] == pytest.approx(64 << 20, rel=0.1)
    assert total["node:__internal_head__"] == 1
    available = ray.available_resources()
    assert {name: available[name] for name in ("CPU", "GPU", "disk", "half")} == {
        "CPU": 3,
        "GPU": 2,
        "disk": 4,
        "half": 0.5,
    }


def test_nodes(start):
    start(num_cpus=3)
    (node,) = ray.nodes()
    assert node["Alive"] is True and node["Resources"]["CPU"] == 3
    assert node["NodeID"] == ray.get_runtime_context().get_node_id()
    assert {"NodeManagerAddress", "NodeManagerHostname"} <= set(node)


def test_default_cpu_count_respects_the_affinity(folder):
    code = "import os, ray; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); ray.init(); "
    code += "print(ray.cluster_resources()['CPU'])"
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.strip() == "1.0", result.stderr


def test_zero_cpus(start):
    start(num_cpus=0)
    assert ray.get(echo.options(num_cpus=0).remote(7), timeout=30) == 7


def test_more_cpus_than_cores_is_so_many_workers(start, folder):
    count = 2 * os.cpu_count() + 4
    start(num_cpus=count)

    @ray.remote
    def meet():
        support.meet(folder, "worker", count)
        return os.getpid()

    assert len(set(ray.get([meet.remote() for _ in range(count)]))) == count


def test_dashboard_off_passes(start):
    start(num_cpus=1, include_dashboard=False)
    ray.shutdown()
    start(num_cpus=1, include_dashboard=None)
    ray.shutdown()
    start(num_cpus=1, include_webui=False)


def test_namespace_is_kept(start):
    start(num_cpus=1, namespace="corner")
    assert ray.get_runtime_context().namespace == "corner"

    @ray.remote
    def namespace():
        return ray.get_runtime_context().namespace

    assert ray.get(namespace.remote()) == "corner"


@pytest.mark.parametrize(
    "options",
    [
        {"runtime_env": {"conda": "x"}},
        {"job_config": {"metadata": {"a": "b"}}},
        {"_node_ip_address": "10.1.2.3"},
        {"_plasma_directory": "/tmp"},
        {"proxy_server_url": "http://localhost"},
        {"include_dashboard": True},
        {"include_webui": True},
        {"address": "ray://somewhere:10001"},
    ],
    ids=lambda options: next(iter(options)) + "=" + str(next(iter(options.values()))),
)
def test_what_comes_later_says_so(start, options):
    with pytest.raises(Exception, match="not in Mobula"):
        start(num_cpus=1, **options)
    assert not ray.is_initialized()
    assert support.processes() == []


HARMLESS = {
    "runtime_env": [None, {}],
    "dashboard_host": [None, "127.0.0.1", "0.0.0.0"],
    "dashboard_port": [None, 0, 8265],
    "proxy_server_url": [None],
    "labels": [None, {}, {"region": "here"}],
    "_enable_object_reconstruction": [False],
    "_metrics_export_port": [None, 8080],
    "_node_ip_address": [None, "127.0.0.1"],
    "_redis_password": [ray.ray_constants.REDIS_DEFAULT_PASSWORD, "secret"],
    "_redis_username": ["default"],
    "_skip_env_hook": [True],
    "_tracing_startup_hook": [None],
}


@pytest.mark.parametrize("which", [0, 1, -1])
def test_what_there_is_nothing_to_do_for_stops_no_program(start, which):
    start(num_cpus=1, **{name: values[which % len(values)] for name, values in HARMLESS.items()})
    assert ray.get(echo.remote(1)) == 1


@pytest.mark.parametrize(
    "options",
    [{"dashboard_port": "http"}, {"dashboard_host": 1}, {"_metrics_export_port": 1.5}],
    ids=str,
)
def test_what_there_is_nothing_to_do_for_has_its_type(start, options):
    (name,) = options
    with pytest.raises(TypeError, match=f"{name} must be of type"):
        start(num_cpus=1, **options)
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    "options",
    [{"address": "auto"}, {"address": "10.0.0.1:6379"}, {"runtime_env": {"pip": ["x"]}}],
    ids=str,
)
def test_a_second_init_that_may_be_ignored_has_whatever_options(start, options):
    node = start(num_cpus=1)["node_id"]
    assert start(ignore_reinit_error=True, **options)["node_id"] == node
    with pytest.raises(RuntimeError, match="called already"):
        start(**options)
    with pytest.raises(RuntimeError, match="does not know nun_cpus"):
        start(ignore_reinit_error=True, nun_cpus=1)


def test_a_second_init_in_a_task_may_be_of_a_cluster(start):
    start(num_cpus=1)

    @ray.remote
    def again():
        return ray.init(address="auto", ignore_reinit_error=True)["node_id"]

    assert ray.get(again.remote()) == ray.nodes()[0]["NodeID"]


def test_an_address_from_the_environment_does_not_matter_to_a_second_init(start, monkeypatch):
    start(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    start(ignore_reinit_error=True)


def test_a_second_init_is_no_way_to_a_client_of_another_cluster(start):
    start(num_cpus=1)
    with pytest.raises(NotImplementedError, match="ray://somewhere.*not in Mobula: .*ray.init"):
        start("ray://somewhere:10001", ignore_reinit_error=True)


def test_an_address_is_a_str(start):
    with pytest.raises(TypeError, match="address must be a str or None, not int"):
        start(6379)


def test_system_config(start):
    with pytest.raises(TypeError, match="must be a dict, not list"):
        start(num_cpus=1, _system_config=["anything"])
    with pytest.raises(ValueError, match="health_check_failure_threshold.* not be 0"):
        start(num_cpus=1, _system_config={"health_check_failure_threshold": 0})
    with pytest.warns(UserWarning, match="no such settings: anything$"):
        start(num_cpus=1, _system_config={"anything": 1, "health_check_timeout_ms": 1})
    assert ray.get(echo.remote(1)) == 1


def test_the_logger_is_left_alone_if_asked_to(start):
    logger = logging.getLogger("ray")
    before = logger.level
    try:
        start(num_cpus=1, logging_level="CRITICAL", configure_logging=False)
        assert logger.level == before
        ray.shutdown()
        start(num_cpus=1, logging_level="CRITICAL")
        assert logger.level == logging.CRITICAL
    finally:
        logger.setLevel(before)


def test_logging_format_is_that_of_the_logger(folder):
    code = """
import logging, ray
logging.basicConfig(format="root %(message)s")
def told(**options):
    ray.init(num_cpus=1, **options)
    logging.getLogger("ray").warning("one")
    logging.getLogger("ray.data").warning("two")
    ray.shutdown()
told()
told(logging_format="%(levelname)s of %(name)s: %(message)s", configure_logging=False)
told(logging_format="%(levelname)s of %(name)s: %(message)s")
told(logging_format="%(message)s!")
told()
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stderr.splitlines() == [
        "root one",
        "root two",
        "root one",
        "root two",
        "WARNING of ray: one",
        "WARNING of ray.data: two",
        "one!",
        "two!",
        "one!",
        "two!",
    ]


def test_a_format_that_is_none_starts_nothing(start):
    with pytest.raises(ValueError, match="[Ii]nvalid format"):
        start(num_cpus=1, logging_format="no field")
    assert not ray.is_initialized()


def test_init_itself_warns_of_nothing(start):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(num_cpus=1, logging_level="ERROR")
        assert ray.get(echo.remote(1)) == 1


@pytest.mark.parametrize(
    "options, error",
    [
        ({"num_cpus": -1}, ValueError),
        ({"num_cpus": "2"}, TypeError),
        ({"num_cpus": float("nan")}, ValueError),
        ({"num_cpus": float("inf")}, ValueError),
        ({"num_gpus": -1}, ValueError),
        ({"resources": {"a": -1}}, ValueError),
        ({"resources": {"a": "1"}}, TypeError),
        ({"resources": {"CPU": 1}}, ValueError),
        ({"resources": ["a"]}, TypeError),
        ({"resources": {1: 1}}, TypeError),
        ({"object_store_memory": -5}, ValueError),
        ({"object_store_memory": "1GB"}, TypeError),
        ({"namespace": 5}, (TypeError, ValueError)),
        ({"nun_cpus": 5}, (TypeError, ValueError, RuntimeError)),
    ],
    ids=str,
)
def test_bad_options_of_init(start, options, error):
    with pytest.raises(error, match=next(iter(options)).rstrip("s")):
        start(**options)
    assert not ray.is_initialized()
    assert support.processes() == []


@pytest.mark.parametrize(
    "options, error, words",
    [
        (
            {"object_store_memory": 1},
            ValueError,
            "object_store_memory must be at least 262144 bytes, not 1",
        ),
        (
            {"object_store_memory": 10**15},
            RaySystemError,
            "10{15} bytes.*smaller object_store_memory.*ulimit -v",
        ),
        ({"num_gpus": 65}, RaySystemError, "at most 64 GPUs, not 65"),
        ({"num_gpus": 1.5}, ValueError, "num_gpus must be whole"),
        ({"resources": {"": 1}}, ValueError, "name.*empty"),
        ({"resources": {"a": 1e-5}}, ValueError, "'a'.*0.0001.*precision"),
        (
            {"resources": {f"r{i}": 1 for i in range(2000)}},
            RaySystemError,
            "at most 1024 different names of resources",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_amounts_that_no_node_can_have(start, options, error, words):
    with pytest.raises(error, match=words):
        start(num_cpus=1, **options)
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    "name, values",
    [
        ("RAY_memory_usage_threshold", ["0", "-1", "abc", "nan", "95%", "0,5", "inf", "1e9"]),
        ("RAY_memory_monitor_refresh_ms", ["-1", "soon", "nan", "1e10", "0.5"]),
        ("MOBULA_ENFORCE_MEMORY", ["yes", "2"]),
        ("MOBULA_FAST_PATH", ["no", "-1"]),
    ],
)
def test_bad_values_in_the_environment(start, monkeypatch, name, values):
    for value in values:
        monkeypatch.setenv(name, value)
        with pytest.raises(ValueError, match=f"{name}={re.escape(value)}; it must be"):
            start(num_cpus=1)
    monkeypatch.setenv(name, "1")
    start(num_cpus=1)
    assert ray.get(echo.remote(1), timeout=30) == 1


def test_switches_of_the_environment_that_contradict_each_other(start, monkeypatch):
    monkeypatch.setenv("MOBULA_ENFORCE_MEMORY", "1")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    with pytest.raises(ValueError, match="leave one of them out"):
        start(num_cpus=1)


def test_too_few_open_files(folder):
    code = """
import resource, ray
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
try:
    ray.init(num_cpus=1)
except ray.exceptions.RaySystemError as error:
    print(error)
"""
    result = support.run_driver(support.script(folder, code))
    assert "Too many open files. Raise the limit of open files (ulimit -n)" in result.stdout, (
        result.stderr
    )
    assert "_temp_dir" not in result.stdout


def test_fractions_of_a_node(start):
    start(num_cpus=1.5, resources={"disk": 2.25})
    assert ray.cluster_resources()["CPU"] == 1.5 and ray.cluster_resources()["disk"] == 2.25


def test_temp_dir_is_used_and_left_clean(start, folder):
    context = start(num_cpus=1, _temp_dir=folder)
    assert context["session_dir"].startswith(folder + os.sep)
    (users,) = os.listdir(folder)
    assert os.stat(os.path.join(folder, users)).st_mode & 0o777 == 0o700
    assert os.stat(context["session_dir"]).st_mode & 0o777 == 0o700
    ray.get(echo.remote(1))
    ray.shutdown()
    assert support.wait_until(lambda: not os.path.exists(context["session_dir"]))


def test_remote_functions_and_classes_work_after_the_next_init(start):
    for cpus in (1, 2, 1):
        start(num_cpus=cpus)
        assert ray.get(echo.remote(cpus)) == cpus
        assert ray.get(Keeper.remote(cpus).get.remote()) == cpus
        ray.shutdown()


def test_ten_sessions_leave_nothing_in_the_driver(start):
    def inventory():
        with open("/proc/self/maps") as file:
            segments = sum("memfd" in line for line in file)
        return len(os.listdir("/proc/self/fd")), segments, len(os.listdir("/proc/self/task"))

    def session():
        start(num_cpus=1)
        assert ray.get(echo.remote(ray.put(b"x" * 100000))) == b"x" * 100000
        ray.shutdown()

    session()
    before = inventory()
    for _ in range(10):
        session()
    assert support.wait_until(lambda: inventory() <= before), (before, inventory())
    assert threading.active_count() >= 1


def test_a_limit_on_the_size_of_files_is_named():
    code = """
import resource, ray
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    ray.init(num_cpus=1)
except ray.exceptions.RaySystemError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert "File too large" in done.stdout, done.stdout + done.stderr


def test_nothing_is_started_by_import():
    code = "import ray, os; print(len(os.listdir('/proc/self/task')), ray.is_initialized())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "False"]
    assert found.stderr == ""


def test_processes_of_ours_are_known(start):
    """The check after each module is worth nothing if it does not see what there is to see."""
    start(num_cpus=1)

    @ray.remote
    def pid():
        return os.getpid()

    known = dict(support.processes())
    worker = ray.get(pid.remote())
    known = dict(support.processes())
    assert worker in known and support.daemon_pid() in known
    assert len(known) >= 3  # and the zygote


@pytest.mark.parametrize("files", [20, 24, 25, 26, 27, 28, 32])
def test_few_open_files_are_enough_or_an_error(tmp_path, files):
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
import ray
try:
    ray.init(num_cpus=2)
    print(ray.get([ray.remote(lambda: 1).remote() for _ in range(10)], timeout=40))
except ray.exceptions.GetTimeoutError:
    raise
except ray.exceptions.RaySystemError as error:
    print(error)
"""
    done = support.run_driver(support.script(tmp_path, code))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_exit_functions_may_use_the_system(folder):
    """Whether they were registered before or after ray.init, as long as ray was imported."""
    code = """
import atexit, ray, sys
@ray.remote
def f(x):
    print("ran", x)
    return x
def say(text):
    sys.stdout.write(text + "\\n")  # in one piece: what workers print may come between any two
@atexit.register
def last():
    say(f"before init {ray.is_initialized()} {ray.get(f.remote(1), timeout=30)}")
ray.init(num_cpus=1)
atexit.register(lambda: say(f"after init {ray.get(f.remote(2), timeout=30)}"))
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stderr, result.returncode) == ("", 0)
    lines = [line for line in result.stdout.splitlines() if "pid=" not in line]
    assert lines == ["after init 2", "before init True 1"]
    # the end waits for what is printed
    assert sum("ran 1" in line for line in result.stdout.splitlines()) == 1


def test_an_import_alone_starts_nothing_at_exit(folder):
    code = "import atexit, ray\natexit.register(lambda: print(ray.is_initialized()))"
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.stderr, result.returncode) == ("False\n", "", 0)


@pytest.mark.parametrize("before", ["", "ray.init(num_cpus=1); ray.shutdown()"])
def test_a_forked_childs_own_session_ends_with_it(folder, before):
    """Of a parent that has none now."""
    code = f"""
import os, ray, sys
{before}
@ray.remote
def f():
    print("in the child's session")
pid = os.fork()
if pid == 0:
    ray.init(num_cpus=1)
    f.remote()
    ray.get(f.remote(), timeout=30)
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout.count("in the child's session") == 2


def test_the_main_thread_stays_pythons_main_thread(folder):
    """Whichever thread imports `threading` first takes itself for it."""
    code = """
import ray
ray.init(num_cpus=1)
import asyncio, threading, warnings
warnings.simplefilter("ignore")
print(threading.current_thread() is threading.main_thread(), threading.main_thread().is_alive())
asyncio.get_event_loop().close()
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "True True\n" and result.returncode == 0, result.stderr


def test_an_interrupt_while_the_daemon_starts_leaves_nothing(folder):
    code = """
import sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "cloudpickle":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
import ray
try:
    ray.init(num_cpus=1)
except KeyboardInterrupt:
    print(ray.is_initialized())
sys.meta_path.pop(0)
ray.init(num_cpus=1)
print(ray.get(ray.put(5)))
"""
    result = support.run_driver(support.script(folder, code))
    assert result.stdout == "False\n5\n", result.stderr


def long_path(folder, size):
    """A search path of so many bytes, whose last folder has a module."""
    module = os.path.join(folder, "at_the_end")
    os.mkdir(module)
    with open(os.path.join(module, "far_away.py"), "w") as file:
        file.write("FOUND = 'found'\n")
    names = [f"/nowhere/{i:06}/" + "x" * 100 + "\u00e9\udcff" for i in range(size // 118)]
    return [*names, module]


def test_a_search_path_of_many_folders(start, folder, monkeypatch):
    paths = [*sys.path, *long_path(folder, 600_000)]
    monkeypatch.setattr(sys, "path", paths)
    start(num_cpus=2)

    @ray.remote
    def seen():
        import far_away

        return sys.path, far_away.FOUND

    @ray.remote
    class Actor:
        def seen(self):
            return len(sys.path)

    assert ray.get(seen.remote()) == (paths, "found")
    assert ray.get(Actor.remote().seen.remote()) == len(paths)


def test_a_search_path_that_is_too_long(start, folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, *long_path(folder, 20_000_000)])
    with pytest.raises(RaySystemError, match="sys.path"):
        start(num_cpus=1)
    assert not ray.is_initialized()


def daemon_answer(folder, files):
    """What a daemon says to its driver that may have so many files open: the kind of its packet,
    its text, and how it ended. Its driver hangs up then.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:

        def prepare():
            os.dup2(its.fileno(), 3)
            os.closerange(4, 1024)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        given = support.setup_descriptor()
        socket.send_fds(ours, [support.hello(role=1)], [given])
        os.close(given)
        daemon = subprocess.Popen(
            [
                os.path.join(os.path.dirname(ray.__file__), "bin", "mobulad"),
                f"--temp={folder}",
                "--store=100000000",
                "--resource=1=CPU",
            ],
            close_fds=False,  # or it would be closed again
            preexec_fn=prepare,
            stderr=subprocess.DEVNULL,
        )
        its.close()
        ours.settimeout(60)
        try:
            packet = ours.recv(65536)
        finally:
            ours.close()
            if support.wait_until(lambda: daemon.poll() is not None, 60) is False:
                daemon.kill()
        kind = struct.unpack_from("<II", packet)[1] if len(packet) >= 8 else 0
        return kind, packet[12:].decode(errors="replace"), daemon.wait()


def test_a_daemon_with_too_few_files_says_so(folder):
    """At whatever it runs out of them: it neither crashes nor hangs, nor ends without a word."""
    welcome, refused = 2, 3
    kinds = []
    for files in range(5, 64, 3):  # with fewer, the loader does not find the C library
        kind, text, status = daemon_answer(folder, files)
        assert kind in (welcome, refused), (files, kind, text, status)
        assert status in (0, 1), (files, kind, text, status)
        if kind == refused:
            assert "files" in text or "ulimit" in text, (files, text)
        kinds.append(kind)
    assert kinds[0] == refused and kinds[-1] == welcome
