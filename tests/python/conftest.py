"""The frame of every test: a folder of its own, a time limit, and nothing left behind.

A test that takes longer than LIMIT fails by an exception; if it is stuck where no signal handler
runs, the whole run ends a little later with the stacks of all threads.

`make test` runs all of them, and then again with MOBULA_FAST_PATH=0, where every task and call goes
through the daemon: what is marked `one_path("why")`, a file or a test, it leaves out there. Mark
what can't behave differently: because no task runs in it, or only to see that the session lives.
"""

import contextlib
import faulthandler
import os
import shutil
import signal
import sys
import tempfile

import pytest
from disks import mounted

# Most take less than a second. A machine that has just started reads everything from its disk, and
# may be busy with something else.
LIMIT = 120
GRACE = 15

_RUN = os.path.realpath(tempfile.mkdtemp(prefix="mobula-test-"))
os.environ["MOBULA_TEST_RUN"] = _RUN
os.environ["RAY_TMPDIR"] = _RUN
# Zygotes and workers carry this in their environment, or while they start in their command line:
# this is how support.processes() knows them.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_RUN, os.environ.get("PYTHONPATH")]))
sys.path.append(_RUN)
os.environ.pop("RAY_ADDRESS", None)
os.environ["RAY_AUTH_TOKEN"] = os.urandom(32).hex()  # of the clusters here, and not the user's
os.environ.pop("CUDA_VISIBLE_DEVICES", None)
# Tests of crashes want the signal itself; the address sanitizer would turn it into an exit with a
# report.
os.environ["ASAN_OPTIONS"] = ":".join(
    filter(None, [os.environ.get("ASAN_OPTIONS"), "handle_segv=0:handle_abort=0"])
)

# A run in the background is started with these ignored, and hands that on to whatever it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

import support  # noqa: E402

import ray  # noqa: E402  (it reads the environment)

_stderr = None


def pytest_configure():
    global _stderr
    _stderr = os.dup(2)  # not in the capture's hands now, as it is while tests run


def _too_long(number, frame):
    pytest.fail(f"the test took longer than {LIMIT} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    faulthandler.dump_traceback_later(LIMIT + GRACE, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_unconfigure():
    shutil.rmtree(_RUN, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    """After each module: no session, no process, no session's folder."""
    yield
    ended = not ray.is_initialized()
    ray.shutdown()
    assert ended, "a test left its session running"
    support.wait_until(lambda: not support.processes() and not support.sessions())
    assert support.processes() == []
    assert support.sessions() == []
    assert support.redis_processes() == [] and support.redis_folders() == []


@pytest.fixture(scope="module")
def cluster(request):
    """One session for all tests of a module, started with its INIT."""
    context = ray.init(**getattr(request.module, "INIT", {"num_cpus": 4}))
    yield context
    ray.shutdown()


@pytest.fixture
def start():
    """ray.init for one test; ended after it."""
    assert not ray.is_initialized()
    yield ray.init
    ray.shutdown()


@pytest.fixture
def session(request, start):
    """A session for each test of a module: with two CPUs, or as `@pytest.mark.init(...)` says."""
    mark = request.node.get_closest_marker("init")
    start(**(mark.kwargs if mark else {"num_cpus": 2}))


@pytest.fixture
def folder():
    """A folder inside of this run's, so that drivers started from it are known as ours.

    It stays until the run's end: a task that outlives its test may still look for the file that
    lets it go on.
    """
    return tempfile.mkdtemp(prefix="t-", dir=_RUN)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 30 MiB."""
    with mounted(str(tmp_path / "disk"), "-t", "tmpfs", "-o", "size=30m") as path:
        yield path


@pytest.fixture(scope="module")
def node(request):
    """A node of `ray start` for all tests of a module, with its NODE (num_cpus, ...)."""
    import drivers

    with drivers.node(**getattr(request.module, "NODE", {})) as started:
        yield started


@pytest.fixture
def driver(node, folder):
    """Makes drivers that use the module's node; each ends with the test."""
    import drivers

    with contextlib.ExitStack() as ends:
        yield lambda **init: ends.enter_context(
            drivers.Driver(folder, {"address": node.folder, **init})
        )
