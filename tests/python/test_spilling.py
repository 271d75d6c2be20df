"""More objects than memory has room for: they go to disk and come back, and nothing is lost, wrong
or left behind.
"""

import ctypes
import glob
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import support
from disks import mounted, share_in_cache

import ray
from ray.exceptions import ObjectLostError, ObjectStoreFullError, OutOfDiskError
from ray.util.state import list_objects

MB = 1 << 20
STORE = 40 * MB
driver_alone = pytest.mark.one_path("only the driver puts and gets")
PIECES = ("asked for, ", " of its"), ("at most ", " of them in one piece")


def array(seed, size=2 * MB):
    return np.random.default_rng(seed).integers(0, 255, size, dtype=np.uint8)


def digest(value):
    return hashlib.blake2b(value).hexdigest()


def files(folder):
    return sorted(
        path for path in glob.glob(f"{folder}/**", recursive=True) if os.path.isfile(path)
    )


@ray.remote
def digest_of(value):
    return digest(value)


@ray.remote
def digests_of(refs):
    return [digest(ray.get(ref)) for ref in refs]


@ray.remote
def make(seed, size=2 * MB):
    return array(seed, size)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "spilled")


@pytest.fixture
def session(start, folder):
    start(num_cpus=3, object_store_memory=STORE, object_spilling_directory=folder)


def test_three_times_the_store_in_random_order_by_several_workers(session, folder):
    expected = [digest(array(i)) for i in range(60)]
    refs = [ray.put(array(i)) for i in range(60)]
    assert files(folder)
    order = random.sample(range(60), 60)
    found = ray.get([digest_of.remote(refs[i]) for i in order], timeout=50)
    assert found == [expected[i] for i in order]
    parts = [random.sample(range(60), 20) for _ in range(3)]
    for part, result in zip(
        parts, ray.get([digests_of.remote([refs[i] for i in part]) for part in parts], timeout=50)
    ):
        assert result == [expected[i] for i in part]


def test_results_of_tasks(session, folder):
    refs = [make.remote(i) for i in range(60)]
    order = random.sample(range(60), 60)
    assert ray.get([digest_of.remote(refs[i]) for i in order], timeout=50) == [
        digest(array(i)) for i in order
    ]
    assert files(folder)


@driver_alone
def test_small_objects_share_files(session, folder):
    count = 25_000
    refs = [ray.put(b"%06d" % i * 1000) for i in range(count)]
    assert 0 < len(files(folder)) < 100
    for i in random.sample(range(count), 1500):
        assert ray.get(refs[i]) == b"%06d" % i * 1000
    some = random.sample(range(count), 600)
    assert ray.get([refs[i] for i in some], timeout=50) == [b"%06d" % i * 1000 for i in some]


@driver_alone
def test_more_than_the_store_in_one_get_of_what_is_copied(session):
    refs = [ray.put(bytes([i]) * (4 * MB)) for i in range(20)]
    values = ray.get(refs, timeout=50)
    assert all(value == bytes([i]) * (4 * MB) for i, value in enumerate(values))


@driver_alone
def test_what_is_in_use_stays_where_it_is(session):
    kept = [array(i) for i in range(3)]
    views = ray.get([ray.put(a) for a in kept])
    refs = [ray.put(array(100 + i)) for i in range(40)]
    for ref in random.sample(refs, 20):
        ray.get(ref)
    assert all((view == a).all() for view, a in zip(views, kept))


def test_references_inside_values_on_disk(session):
    inner = [ray.put(array(i)) for i in range(10)]
    outer = ray.put({"refs": inner, "filler": array(77)})
    del inner
    pushed = [ray.put(array(100 + i)) for i in range(40)]
    found = ray.get(outer)
    assert [digest(value) for value in ray.get(found["refs"])] == [
        digest(array(i)) for i in range(10)
    ]
    del found, outer
    assert ray.get(pushed[0]) is not None


def test_an_actor_gets_and_keeps_what_was_on_disk(session):
    @ray.remote
    class Keeper:
        def __init__(self, first):
            self.digests = [digest(first)]

        def add(self, value):
            self.digests.append(digest(value))
            return len(self.digests)

        def all(self):
            return self.digests

    refs = [ray.put(array(i)) for i in range(50)]
    keeper = Keeper.remote(refs[0])
    for ref in refs[1:]:
        keeper.add.remote(ref)
    assert ray.get(keeper.all.remote(), timeout=50) == [digest(array(i)) for i in range(50)]


@driver_alone
def test_more_in_use_than_fits_is_an_error_with_names(session):
    views = []
    with pytest.raises(ObjectStoreFullError) as info:
        for i in range(40):
            views.append(ray.get(ray.put(array(i))))
    assert 10 < len(views) < 20
    text = str(info.value)
    assert str(STORE) in text and f"in use by the driver {os.getpid()}" in text, text
    assert all((view == array(i)).all() for i, view in enumerate(views))
    assert ray.get(digest_of.remote(b"x"), timeout=30) == digest(b"x")
    views.pop()
    ray.put(array(1))


@driver_alone
def test_what_is_free_lies_in_pieces_between_what_is_in_use(session):
    views = []
    with pytest.raises(ObjectStoreFullError):
        while True:
            views.append(ray.get(ray.put(array(len(views)))))
    views.sort(key=lambda view: view.ctypes.data)
    del views[::2]
    with pytest.raises(ObjectStoreFullError) as info:
        ray.put(array(1, 12 * MB))
    free, piece = (
        int(re.search(f"{before}([0-9]+){behind}", str(info.value))[1]) for before, behind in PIECES
    )
    assert piece < 12 * MB < free, info.value


def test_a_task_that_needs_more_than_fits(session):
    refs = [ray.put(array(i)) for i in range(30)]

    @ray.remote
    def all_at_once(*values):
        return len(values)

    with pytest.raises(ObjectStoreFullError):
        ray.get(all_at_once.remote(*refs), timeout=40)
    assert ray.get(all_at_once.remote(*refs[:5]), timeout=30) == 5


@driver_alone
def test_who_waits_for_room_gets_it_when_it_is_there(session):
    views = [ray.get(ray.put(array(i, 4 * MB))) for i in range(8)]
    timer = threading.Timer(0.7, views.clear)
    timer.start()
    ref = ray.put(array(99, 16 * MB))
    assert not views  # it could not have had room before
    assert digest(ray.get(ref)) == digest(array(99, 16 * MB))
    timer.join()


def test_tasks_whose_arguments_do_not_fit_all_at_once(session):
    refs = [ray.put(array(i)) for i in range(36)]

    @ray.remote
    def all_of(*values):
        time.sleep(0.2)
        return [digest(value) for value in values]

    results = [all_of.remote(*refs[i : i + 12]) for i in (0, 12, 24)]
    assert sum(ray.get(results, timeout=55), []) == [digest(array(i)) for i in range(36)]


@driver_alone
def test_who_needs_little_does_not_wait_for_who_needs_much(session):
    views = [ray.get(ray.put(array(i, 4 * MB))) for i in range(6)]
    failed = []

    def put_much():
        try:
            ray.put(np.zeros(30 * MB, dtype=np.uint8))
        except ObjectStoreFullError as error:
            failed.append(error)

    thread = threading.Thread(target=put_much)
    thread.start()
    time.sleep(0.5)
    refs = [ray.put(array(i, MB // 2)) for i in range(10)]
    assert not failed  # it still waits
    thread.join()
    assert failed and len(views) == 6
    assert digest(ray.get(refs[0])) == digest(array(0, MB // 2))


@driver_alone
def test_who_gave_up_waiting_does_not_spoil_it_for_the_next(session):
    class GaveUp(Exception):
        pass

    def give_up(number, frame):
        raise GaveUp

    views = [ray.get(ray.put(array(i, 4 * MB))) for i in range(9)]
    before = signal.signal(signal.SIGUSR1, give_up)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    with pytest.raises(GaveUp):
        ray.put(np.zeros(8 * MB, dtype=np.uint8))
    timer.join()
    signal.signal(signal.SIGUSR1, before)
    time.sleep(4)
    views.clear()
    assert ray.get(ray.put(np.zeros(8 * MB, dtype=np.uint8))).nbytes == 8 * MB


def _refused_at(call, threads=6):
    """Seconds after which each thread that calls it was refused."""
    seconds = []

    def run():
        with pytest.raises(ObjectStoreFullError):
            call()
        seconds.append(time.monotonic() - begin)

    begin = time.monotonic()
    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(seconds) == threads
    return seconds


@driver_alone
def test_threads_that_wait_for_the_same_are_refused_together(session):
    spilled = [ray.put(array(i, 12 * MB)) for i in range(4)]
    views = ray.get(spilled[1:])
    alone = _refused_at(lambda: ray.get(spilled[0]), threads=1)[0]
    assert max(_refused_at(lambda: ray.get(spilled[0]))) < 3 * alone
    assert max(_refused_at(lambda: ray.put(array(9, 12 * MB)))) < 3 * alone
    del views
    assert digest(ray.get(spilled[0])) == digest(array(0, 12 * MB))


@driver_alone
def test_who_can_not_ask_for_a_while_is_refused_all_the_same(session):
    """A thread keeps Python's lock for seconds at a time."""
    views = [ray.get(ray.put(array(i, 12 * MB))) for i in range(3)]
    refused = threading.Event()

    def put():
        with pytest.raises(ObjectStoreFullError):
            ray.put(array(9, 12 * MB))
        refused.set()

    keep = ctypes.PyDLL(None).usleep  # with Python's lock
    thread = threading.Thread(target=put)
    thread.start()
    for _ in range(6):
        if not refused.wait(0.01):
            keep(2500000)
    in_time = refused.is_set()
    thread.join()
    assert in_time and len(views) == 3


@driver_alone
def test_files_go_with_their_objects(session, folder):
    refs = [ray.put(array(i)) for i in range(60)]
    assert len(files(folder)) > 1
    del refs
    assert support.wait_until(lambda: not files(folder)), files(folder)
    assert support.wait_until(lambda: support.store_free() > STORE - 4 * MB)


@driver_alone
def test_nothing_is_left_after_shutdown(session, folder):
    refs = [ray.put(array(i)) for i in range(60)]
    assert files(folder)
    ray.shutdown()
    assert os.listdir(folder) == []
    del refs


DRIVER = """
import os, sys, time
import numpy as np
import ray
ray.init(num_cpus=1, object_store_memory=20 << 20, object_spilling_directory=sys.argv[1])
refs = [ray.put(np.full(1 << 20, i, dtype=np.uint8)) for i in range(60)]
print("daemon", ray._private.worker._core.session()["daemon_pid"], flush=True)
time.sleep(100)
"""


def driver(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, folder], stdout=subprocess.PIPE, text=True
    )
    return process, int(process.stdout.readline().split()[1])


@driver_alone
def test_nothing_is_left_by_a_driver_that_is_killed(folder):
    process, _ = driver(folder)
    assert files(folder)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert support.wait_until(lambda: os.listdir(folder) == [])


@driver_alone
def test_nothing_is_left_by_a_daemon_that_is_killed(folder):
    process, daemon = driver(folder)
    assert files(folder)
    os.kill(daemon, signal.SIGKILL)
    assert support.wait_until(lambda: os.listdir(folder) == [] and support.sessions() == [])
    process.kill()
    process.wait()


@driver_alone
def test_the_next_one_removes_what_two_that_were_killed_have_left(folder, start):
    process, daemon = driver(folder)
    support.kill_both(process, daemon)
    left = os.listdir(folder)
    assert len(left) == 1
    start(num_cpus=1, object_store_memory=20 * MB, object_spilling_directory=folder)
    refs = [ray.put(array(i)) for i in range(20)]
    assert files(folder) and support.wait_until(lambda: left[0] not in os.listdir(folder))
    del refs


@driver_alone
def test_what_was_used_last_goes_last(session):
    refs = [ray.put(array(i)) for i in range(12)]
    time.sleep(0.3)
    for ref in refs[:4]:  # the oldest
        ray.get(ref)
    time.sleep(0.3)
    more = [ray.put(array(100 + i)) for i in range(10)]
    states = [list_objects(filters=[("object_id", "=", ref.hex())])[0].state for ref in refs]
    assert "SPILLED" in states[4:] and "SPILLED" not in states[:4], states
    del more


def flip(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for at in range(1000, size, 100_000):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))


def cut(path):
    os.truncate(path, os.path.getsize(path) // 3)


def pipe(path):
    os.unlink(path)
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [flip, cut, os.unlink, lambda path: os.truncate(path, 0), pipe])
def test_a_damaged_file_is_an_error_with_a_name(session, folder, damage):
    refs = [ray.put(array(i)) for i in range(60)]
    for path in files(folder):
        damage(path)
    lost = 0
    for i, ref in enumerate(refs):
        begin = time.monotonic()
        try:
            assert digest(ray.get(ref, timeout=20)) == digest(array(i))
        except ObjectLostError as error:
            lost += 1
            assert folder in str(error)
        assert time.monotonic() - begin < 15
    assert lost > 20
    with pytest.raises(ObjectLostError):
        ray.get([digest_of.remote(ref) for ref in refs], timeout=30)
    assert digest(ray.get(ray.put(array(5)))) == digest(array(5))


@driver_alone
def test_several_folders_in_turn(start, tmp_path):
    folders = [str(tmp_path / name) for name in ("a", "b", "c")]
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=folders)
    refs = [ray.put(array(i)) for i in range(80)]
    assert all(files(folder) for folder in folders)
    assert [digest(ray.get(ref)) for ref in refs] == [digest(array(i)) for i in range(80)]


@driver_alone
def test_a_folder_that_fails_leaves_the_others(start, tmp_path):
    folders = [str(tmp_path / name) for name in ("good", "bad", "good")]
    start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=folders)
    os.rmdir(folders[1])
    support.touch(folders[1])
    refs = [ray.put(array(i)) for i in range(60)]
    assert files(folders[0])
    assert [digest(ray.get(ref)) for ref in refs] == [digest(array(i)) for i in range(60)]
    ray.shutdown()
    assert os.listdir(folders[0]) == []


@driver_alone
def test_one_of_two_disks_is_full(start, small_disk, tmp_path):
    start(
        num_cpus=1,
        object_store_memory=STORE,
        object_spilling_directory=[small_disk, str(tmp_path / "good")],
    )
    refs = [None] * 60

    def put(k):
        for i in range(k, 60, 10):
            refs[i] = ray.put(array(i, 4 * MB + k * 65536))

    running = [threading.Thread(target=put, args=(k,)) for k in range(10)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert [digest(ray.get(refs[i])) for i in range(60)] == [
        digest(array(i, 4 * MB + i % 10 * 65536)) for i in range(60)
    ]


@driver_alone
def test_one_of_two_disks_does_not_answer(start, tmp_path, capfd):
    image, disk = str(tmp_path / "image"), str(tmp_path / "disk")
    with open(image, "wb") as file:
        file.truncate(300 * MB)
    if not shutil.which("mkfs.ext4") or subprocess.run(["mkfs.ext4", "-q", image]).returncode != 0:
        pytest.skip("no file system can be made here: mkfs.ext4 is missing or fails")
    with mounted(disk, "-o", "loop", device=image):
        start(
            num_cpus=1,
            object_store_memory=STORE,
            object_spilling_directory=[disk, str(tmp_path / "good")],
        )
        refs = [ray.put(array(i)) for i in range(40)]
        subprocess.run(["fsfreeze", "-f", disk], check=True)
        try:
            for i in range(40, 80):
                refs.append(ray.put(array(i)))
        finally:
            subprocess.run(["fsfreeze", "-u", disk], check=True)
        assert [digest(ray.get(ref)) for ref in refs] == [digest(array(i)) for i in range(80)]
        ray.shutdown()
    assert f"Writing to {disk}" in capfd.readouterr().err


def test_files_that_were_read_stay_in_the_page_cache_while_memory_is_plentiful(session, folder):
    with open("/proc/meminfo") as file:
        memory = dict(line.split()[:2] for line in file)
    if int(memory["MemAvailable:"]) < int(memory["MemTotal:"]) / 3:
        pytest.skip("this machine has little memory to spare now")
    refs = [ray.put(array(i)) for i in range(60)]
    for _ in range(2):
        assert [digest(ray.get(ref)) for ref in refs] == [digest(array(i)) for i in range(60)]
    assert share_in_cache(files(folder)) > 0.5


@driver_alone
def test_folders_that_make_no_sense(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="object_spilling_directory"):
        ray.init(object_spilling_directory=str(tmp_path / "file"))
    with pytest.raises(TypeError, match="object_spilling_directory"):
        ray.init(object_spilling_directory=17)
    assert not ray.is_initialized()


def test_a_file_system_that_knows_no_direct_writes(start, tmp_path):
    with mounted(str(tmp_path / "ram"), "-t", "ramfs") as path:
        start(num_cpus=1, object_store_memory=STORE, object_spilling_directory=path)
        refs = [ray.put(array(i)) for i in range(40)]
        assert files(path)
        assert [digest(ray.get(ref)) for ref in refs] == [digest(array(i)) for i in range(40)]
        ray.shutdown()


def test_a_full_disk_is_an_error_and_all_else_goes_on(start, small_disk):
    start(num_cpus=2, object_store_memory=STORE, object_spilling_directory=small_disk)
    refs = []
    with pytest.raises(OutOfDiskError) as info:
        for i in range(100):
            refs.append(ray.put(array(i)))
    assert "No space left on device" in str(info.value) and small_disk in str(info.value)
    assert 20 < len(refs) < 40
    assert ray.get(digest_of.remote(b"x"), timeout=30) == digest(b"x")
    kept = refs[::2]
    del refs  # with every second one, room comes back on the disk and in memory
    expected = [digest(array(i)) for i in range(0, 2 * len(kept), 2)]
    assert ray.get([digest_of.remote(ref) for ref in kept], timeout=40) == expected
    ray.shutdown()
    assert os.listdir(small_disk) == []


def _told_of_spilling(folder, **environment):
    code = f"""
import numpy as np
import ray
ray.init(num_cpus=1, object_store_memory=20 << 20, object_spilling_directory={folder!r})
refs = [ray.put(np.full(1 << 20, i, dtype=np.uint8)) for i in range(60)]
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    words = r"^\(raylet\) Spilled (\d+) MiB, (\d+) objects, write throughput (\d+) MiB/s$"
    return [(int(size), int(objects)) for size, objects, _ in re.findall(words, done.stderr, re.M)]


@driver_alone
def test_the_driver_is_told(folder):
    found = _told_of_spilling(folder)
    assert found and all(objects >= size > 0 for size, objects in found)


@driver_alone
def test_the_driver_is_told_of_much_only_or_not_at_all(folder):
    found = _told_of_spilling(folder, RAY_verbose_spill_logs=str(25 << 20))
    assert found and all(size >= 25 for size, _ in found)
    assert _told_of_spilling(folder, RAY_verbose_spill_logs="0") == []
