"""Objects that are larger than the store: each in a file of its own, read in place; nothing is left
behind of one.
"""

import contextlib
import ctypes
import gc
import glob
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import support

import ray
from ray.exceptions import OutOfDiskError
from ray.util.state import list_objects

MB = 1 << 20
STORE = 24 * MB
SIZE = 40 * MB


def array(seed, size=SIZE):
    return np.random.default_rng(seed).integers(0, 255, size, dtype=np.uint8)


def same(left, right):
    return left.shape == right.shape and bool((left == right).all())


def open_files(pid):
    """Descriptors of files without a name, in the spill folder of some session."""
    found = 0
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(OSError):
            target = os.readlink(path)
            found += "mobula_spill_" in target and target.endswith("(deleted)")
    return found


def mappings():
    """The stretches of this process that are such files."""
    with open("/proc/self/maps") as file:
        return [
            tuple(int(end, 16) for end in line.split()[0].split("-"))
            for line in file
            if "mobula_spill_" in line
        ]


def lies_in_file(view):
    return any(first <= view.ctypes.data < end for first, end in mappings())


@ray.remote
def make(seed, size=SIZE):
    return array(seed, size)


@ray.remote
def equals(value, seed):
    return same(value, array(seed)), lies_in_file(value)


@ray.remote
def equals_inside(refs, seed):
    return same(ray.get(refs[0]), array(seed))


@ray.remote
def put_one(seed):
    return [ray.put(array(seed))]


@ray.remote
def echo(value):
    return value


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "spilled")


@pytest.fixture
def session(start, folder):
    start(num_cpus=2, object_store_memory=STORE, object_spilling_directory=folder)


def test_a_put_is_read_in_place(session):
    value = array(1)
    ref = ray.put(value)
    view = ray.get(ref)
    assert same(view, value) and not view.flags.writeable and lies_in_file(view)
    again = ray.get(ref)
    assert again.ctypes.data == view.ctypes.data
    assert ray.get(equals.remote(ref, 1), timeout=30) == (True, True)
    assert ray.get(equals_inside.remote([ref], 1), timeout=30)
    assert ray.get(ray.put(7)) == 7


def test_the_last_view_lets_go_of_the_mapping(session):
    ref = ray.put(array(2))
    views = [ray.get(ref)[i:] for i in range(3)]
    del ref
    gc.collect()
    assert len(mappings()) == 1
    expected = array(2)
    while views:
        assert same(views[0], expected[3 - len(views) :])
        assert len(mappings()) == 1
        del views[0]
    gc.collect()
    assert mappings() == []
    assert support.wait_until(lambda: open_files(support.daemon_pid()) == 0)


def test_a_result_and_an_argument(session):
    ref = make.remote(3)
    assert same(ray.get(ref, timeout=30), array(3))
    assert ray.get(equals.remote(ref, 3), timeout=30) == (True, True)
    assert ray.get(equals.remote(array(4), 4), timeout=30) == (True, True)
    assert ray.get(equals.remote(make.remote(5), 5), timeout=30) == (True, True)
    assert same(ray.get(echo.remote(make.remote(6)), timeout=30), array(6))
    assert ray.wait([ref], timeout=0)[0] == [ref]


def test_one_that_a_task_put_outlives_its_worker(session):
    @ray.remote(max_calls=1)
    def put_and_end():
        return [ray.put(array(7))], os.getpid()

    (ref,), pid = ray.get(put_and_end.remote(), timeout=30)
    assert support.wait_until(lambda: not support.alive(pid))
    assert same(ray.get(ref, timeout=30), array(7))


def test_actors(session):
    @ray.remote
    class Keeper:
        def __init__(self):
            self.kept = None

        def keep(self, value):
            self.kept = value
            return lies_in_file(value)

        def give(self):
            return self.kept

    keeper = Keeper.remote()
    assert ray.get(keeper.keep.remote(ray.put(array(8))), timeout=30)
    gc.collect()
    assert same(ray.get(keeper.give.remote(), timeout=30), array(8))


def test_await(session):
    @ray.remote
    class Waiter:
        async def look(self, refs):
            return same(await refs[0], array(9))

    assert ray.get(Waiter.remote().look.remote([make.remote(9)]), timeout=30)


@pytest.mark.parametrize(
    "value", [b"x" * SIZE, "ä" * SIZE, [b"y" * SIZE, 3], {"a": bytearray(SIZE)}]
)
def test_other_types(session, value):
    assert ray.get(ray.put(value)) == value
    assert ray.get(echo.remote(value), timeout=40) == value


def test_references_inside(session):
    inner = [ray.put(i) for i in range(100)] + [ray.put(array(10))]
    ref = ray.put([array(11), inner])
    ids = [one.hex() for one in inner]
    del inner
    gc.collect()
    value, refs = ray.get(ref)
    assert [one.hex() for one in refs] == ids and ray.get(refs[:100]) == list(range(100))
    assert same(value, array(11)) and same(ray.get(refs[100]), array(10))
    assert ray.get(ray.get(echo.remote(ref), timeout=30)[1][99]) == 99
    del ref, refs, value
    gc.collect()
    assert support.wait_until(lambda: open_files(support.daemon_pid()) == 0)


def test_sizes_around_the_store(session):
    for size in (STORE - MB, STORE - 8192, STORE - 100, STORE, STORE + 1, STORE + 8192):
        value = b"z" * size
        assert ray.get(ray.put(value)) == value


def test_several_results(session):
    @ray.remote(num_returns=3)
    def three():
        return array(12), 5, array(13)

    first, second, third = three.remote()
    assert ray.get(second, timeout=30) == 5
    assert same(ray.get(first), array(12)) and same(ray.get(third), array(13))


def test_a_result_that_an_error_replaces(session):
    @ray.remote(num_returns=2)
    def bad():
        return array(14), threading.Lock()

    for ref in bad.remote():
        with pytest.raises(TypeError):
            ray.get(ref, timeout=30)
    del ref
    gc.collect()
    assert support.wait_until(lambda: open_files(support.daemon_pid()) == 0)


def test_a_task_that_is_run_again(session):
    @ray.remote(max_retries=1, retry_exceptions=True, num_returns=2)
    def second_time(path):
        if not os.path.exists(path):
            support.touch(path)
            return array(15), threading.Lock()
        return array(16), 1

    first, second = second_time.remote(os.path.join(support.run_folder(), "second_time"))
    assert ray.get(second, timeout=40) == 1 and same(ray.get(first), array(16))
    assert open_files(support.daemon_pid()) == 1


def test_an_error_that_is_larger_than_the_store(session):
    class Loud(Exception):
        pass

    @ray.remote
    def fail():
        error = Loud("a large one")
        error.payload = array(17)
        raise error

    ref = fail.remote()
    for _ in range(2):
        with pytest.raises(Loud) as info:
            ray.get(ref, timeout=30)
        assert same(info.value.payload, array(17))
    with pytest.raises(Loud):
        ray.get(echo.remote(ref), timeout=30)


def test_it_is_listed_and_takes_nothing_of_the_store(session, folder):
    free = support.store_free_settled()
    ref = ray.put(array(18))
    row = next(row for row in list_objects() if row.object_id == ref.hex())
    assert row.state == "SPILLED" and row.object_size >= SIZE
    assert free - support.store_free_settled() < MB
    assert glob.glob(f"{folder}/*/*") == []  # no file has a name, so none is left behind


def test_dropped_ones_leave_nothing(session):
    daemon = support.daemon_pid()
    files = len(os.listdir("/proc/self/fd"))
    for i in range(30):
        ref = ray.put(array(i))
        assert ray.get(ref)[0] == array(i, 1)[0]
        assert open_files(daemon) <= 3
    del ref
    gc.collect()
    assert support.wait_until(lambda: open_files(daemon) == 0)
    assert mappings() == []
    assert len(os.listdir("/proc/self/fd")) == files


def test_threads_at_once(session):
    wrong = []

    def work(k):
        for i in range(4):
            ref = ray.put(array(k))
            if not same(ray.get(ref), array(k)) or not ray.get(equals.remote(ref, k))[0]:
                wrong.append((k, i))

    running = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert wrong == []


def test_threads_that_read_the_same_one(session):
    ref, wrong = ray.put(array(19)), []

    def work():
        for _ in range(20):
            if ray.get(ref)[:100].tolist() != array(19)[:100].tolist():
                wrong.append(1)

    running = [threading.Thread(target=work) for _ in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert wrong == [] and mappings() == []


def test_a_worker_that_is_killed_while_it_writes_one(session):
    @ray.remote(max_retries=-1)
    def slow(path):
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        return array(20, 150 * MB)

    daemon = support.daemon_pid()
    path = os.path.join(support.run_folder(), "slow_pids")
    ref = slow.remote(path)
    killed = 0
    while killed < 3:
        # a file that nobody but this task has asked for
        assert support.wait_until(lambda: open_files(daemon) > 0)
        with open(path) as file:
            pid = int(file.read().split()[-1])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        killed += 1
        if ray.wait([ref], timeout=0.2)[0]:
            break  # it was faster
    assert same(ray.get(ref, timeout=50), array(20, 150 * MB))
    assert support.wait_until(lambda: open_files(daemon) == 1)
    del ref
    gc.collect()
    assert support.wait_until(lambda: open_files(daemon) == 0)


def test_views_outlive_the_session(start, folder):
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=folder)
    view = ray.get(ray.put(array(21)))
    ray.shutdown()
    assert same(view, array(21)) and len(mappings()) == 1
    assert os.listdir(folder) == []
    del view
    gc.collect()
    assert mappings() == []


def test_a_forked_child_reads_what_its_parent_has_open(session):
    view = ray.get(ray.put(array(22)))
    pid = os.fork()
    if pid == 0:
        good = False
        with contextlib.suppress(BaseException):
            good = same(view, array(22))
        os._exit(0 if good else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert same(view, array(22))


def test_the_driver_is_told_once(folder):
    code = f"""
import numpy as np, ray
ray.init(num_cpus=1, object_store_memory={STORE}, object_spilling_directory={folder!r})
refs = [ray.put(np.zeros({SIZE}, dtype=np.uint8)) for _ in range(3)]
ray.shutdown()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    told = re.findall(
        r"An object of 40\.0 MiB is larger than the object store \(24\.0 MiB\): "
        rf"it lies in a file in {re.escape(folder)}",
        done.stdout + done.stderr,
    )
    assert len(told) == 1, done.stderr
    assert os.listdir(folder) == []


def test_a_driver_that_is_killed_with_its_daemon_leaves_nothing(folder):
    code = f"""
import os, time, numpy as np, ray
ray.init(num_cpus=1, object_store_memory={STORE}, object_spilling_directory={folder!r})
ref = ray.put(np.zeros({SIZE}, dtype=np.uint8))
print(ray._private.worker._core.session()["daemon_pid"], flush=True)
time.sleep(60)
"""
    driver = support.start_driver(support.script(support.run_folder(), code))
    daemon = int(driver.stdout.readline())
    support.kill_both(driver, daemon)
    driver.communicate()
    assert glob.glob(f"{folder}/*/*") == []


def test_no_space_on_the_disk(start, small_disk):
    start(num_cpus=2, object_store_memory=STORE, object_spilling_directory=small_disk)
    value, files = array(23), len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with pytest.raises(OutOfDiskError) as info:
            ray.put(value)
    assert len(os.listdir("/proc/self/fd")) == files and mappings() == []
    assert open_files(support.daemon_pid()) == 0
    words = str(info.value)
    free = os.statvfs(small_disk)
    assert small_disk in words and "No space left on device" in words
    numbers = [int(number) for number in re.findall(r"\d+", words)]
    assert any(SIZE <= number < SIZE + MB for number in numbers), words
    assert free.f_bavail * free.f_bsize in numbers, words
    with pytest.raises(OutOfDiskError):
        echo.remote(value)
    with pytest.raises(OutOfDiskError):
        ray.get(make.remote(23), timeout=30)
    with pytest.raises(OutOfDiskError):
        ray.get(put_one.remote(23), timeout=30)
    smaller = array(23, 25 * MB)
    assert same(ray.get(ray.put(smaller)), smaller)
    assert ray.get(echo.remote(1), timeout=30) == 1
    assert open_files(support.daemon_pid()) <= 1


def test_the_next_folder_has_space(start, small_disk, tmp_path):
    start(
        num_cpus=1,
        object_store_memory=STORE,
        object_spilling_directory=[small_disk, str(tmp_path / "good")],
    )
    refs = [ray.put(array(i)) for i in range(4)]
    assert all(same(ray.get(ref), array(i)) for i, ref in enumerate(refs))


def test_no_folder_has_space(start, small_disk, tmp_path):
    start(
        num_cpus=1,
        object_store_memory=STORE,
        object_spilling_directory=[small_disk, os.path.join(small_disk, "other")],
    )
    with pytest.raises(OutOfDiskError, match="the other folders have none either"):
        ray.put(array(24))


def test_a_folder_in_memory_when_memory_is_short(start, monkeypatch):
    """The object is far larger than what the machine has left: not one page is taken for it."""
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory="/dev/shm")
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 2
    free = os.statvfs("/dev/shm").f_bfree
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    # what is put: a large stretch of nothing, which costs nothing
    none = ctypes.c_size_t(0)
    place = library.mmap(none, ctypes.c_size_t(size), 1, 0x4022, -1, ctypes.c_long(0))
    if place in (None, ctypes.c_void_p(-1).value):
        pytest.skip("no address space for a test")
    value = np.frombuffer((ctypes.c_char * size).from_address(place), dtype=np.uint8)
    with pytest.raises(OutOfDiskError, match="it lies in memory, which is short"):
        ray.put(value)
    assert abs(os.statvfs("/dev/shm").f_bfree - free) < 1 << 16
    assert ray.get(ray.put(1)) == 1


def test_ctrl_c_while_the_disk_takes_its_time(start, tmp_path):
    """The daemon does not answer meanwhile: the put is left, and nothing stays of it."""
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=str(tmp_path / "s"))
    daemon = support.daemon_pid()
    ray.get(ray.put(array(25)))
    os.kill(daemon, signal.SIGSTOP)
    timer = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            ray.put(array(26))
    finally:
        timer.cancel()
        os.kill(daemon, signal.SIGCONT)
    assert time.monotonic() - begin < 30
    assert support.wait_until(lambda: open_files(daemon) == 0)
    assert same(ray.get(ray.put(array(27))), array(27))
