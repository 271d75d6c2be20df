"""The folder of sessions: full, missing, forbidden, stale or somebody else's."""

import os
import shutil
import socket
import subprocess
import sys

import pytest
import support

import ray
from ray.exceptions import OutOfDiskError, RayError

pytestmark = pytest.mark.one_path("folders of sessions")

REFUSED = (RayError, OSError, ValueError)


@pytest.fixture
def small_disk(folder):
    """A file system with next to no space."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    path = os.path.join(folder, "disk")
    os.mkdir(path)
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("mounting is not allowed here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def fill(path):
    with open(os.path.join(path, "fill"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_no_space(start, small_disk):
    fill(small_disk)
    with pytest.raises(OutOfDiskError, match=os.path.basename(small_disk)):
        start(num_cpus=1, _temp_dir=small_disk)
    assert not ray.is_initialized() and support.processes() == []
    os.unlink(os.path.join(small_disk, "fill"))
    start(num_cpus=1, _temp_dir=small_disk)
    assert ray.get(ray.put(1)) == 1


def test_a_disk_that_fills_up_later_is_no_trouble(start, small_disk):
    start(num_cpus=1, _temp_dir=small_disk)
    fill(small_disk)
    assert ray.get(ray.remote(len).remote(b"x" * 1_000_000), timeout=30) == 1_000_000


def test_a_file_instead_of_a_folder(start, folder):
    path = os.path.join(folder, "file")
    support.touch(path)
    with pytest.raises(REFUSED, match="file"):
        start(num_cpus=1, _temp_dir=path)
    assert not ray.is_initialized() and support.processes() == []


def test_a_folder_that_is_not_there_is_made(start, folder):
    path = os.path.join(folder, "not", "yet")
    assert start(num_cpus=1, _temp_dir=path)["session_dir"].startswith(path)
    assert ray.get(ray.put(1)) == 1


def test_a_folder_that_can_not_be_made(start):
    with pytest.raises(ValueError, match="_temp_dir /proc/nowhere can't be made"):
        start(num_cpus=1, _temp_dir="/proc/nowhere")
    assert not ray.is_initialized() and support.processes() == []


def test_a_path_that_is_too_long_for_a_socket(start, folder):
    path = os.path.join(folder, "x" * 120)
    os.mkdir(path)
    with pytest.raises(REFUSED, match="_temp_dir"):
        start(num_cpus=1, _temp_dir=path)
    assert support.processes() == []
    assert [files for _, _, files in os.walk(path) if files] == []


def test_a_wrong_type(start):
    with pytest.raises(TypeError):
        start(num_cpus=1, _temp_dir=5)


def test_a_path_object_and_spaces(start, folder):
    import pathlib

    path = pathlib.Path(folder) / "with space é"
    path.mkdir()
    context = start(num_cpus=1, _temp_dir=path)
    assert context["session_dir"].startswith(str(path))
    assert ray.get(ray.remote(abs).remote(-1)) == 1


def test_the_environment_names_the_folder(start, folder, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", folder)
    assert start(num_cpus=1)["session_dir"].startswith(folder)


def test_a_folder_of_another_user_is_refused(start, folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give folders away")
    theirs = os.path.join(folder, f"mobula-{os.geteuid()}")
    os.mkdir(theirs, 0o777)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(REFUSED, match="mobula-"):
        start(num_cpus=1, _temp_dir=folder)
    assert support.processes() == []


def test_a_link_in_place_of_our_folder_is_not_followed(start, folder):
    elsewhere = os.path.join(folder, "elsewhere")
    os.mkdir(elsewhere, 0o777)
    os.symlink(elsewhere, os.path.join(folder, f"mobula-{os.geteuid()}"))
    try:
        start(num_cpus=1, _temp_dir=folder)
    except REFUSED:
        assert os.listdir(elsewhere) == []
    else:
        pytest.fail("a link that anybody could have made was followed")


def test_an_open_folder_of_ours_is_closed_or_refused(start, folder):
    ours = os.path.join(folder, f"mobula-{os.geteuid()}")
    os.mkdir(ours)
    os.chmod(ours, 0o777)
    try:
        start(num_cpus=1, _temp_dir=folder)
    except REFUSED:
        return
    assert os.stat(ours).st_mode & 0o077 == 0


def test_stale_sessions_do_not_matter_and_are_cleared(start, folder):
    code = """
import ray, sys, time
ray.init(num_cpus=1, _temp_dir=sys.argv[1])
session = ray._private.worker._core.session()
print(session["socket"], session["daemon_pid"], flush=True)
time.sleep(100)
"""
    driver = subprocess.Popen(
        [sys.executable, support.script(folder, code), folder], stdout=subprocess.PIPE, text=True
    )
    stale, daemon = driver.stdout.readline().split()
    support.kill_both(driver, int(daemon))
    assert os.path.exists(stale)
    start(num_cpus=1, _temp_dir=folder)
    assert ray.get(ray.put(1)) == 1
    assert not os.path.exists(stale)


def test_a_folder_that_was_half_removed_is_cleared(start, folder):
    half = os.path.join(folder, f"mobula-{os.geteuid()}", "session_6606a559833ad_18229")
    os.makedirs(half, mode=0o700)
    start(num_cpus=1, _temp_dir=folder)
    assert not os.path.exists(half)


def test_a_session_that_is_alive_is_not_cleared(start, folder):
    context = start(num_cpus=1, _temp_dir=folder)
    code = (
        "import ray, sys\nray.init(num_cpus=1, _temp_dir=sys.argv[1])\nprint(ray.get(ray.put(5)))"
    )
    result = support.run_driver(support.script(folder, code), folder)
    assert result.stdout == "5\n", result.stderr
    assert os.path.exists(context["raylet_socket_name"])

    @ray.remote(max_calls=1)
    def fresh():
        return os.getpid()

    assert len({ray.get(fresh.remote(), timeout=30) for _ in range(3)}) == 3


def test_foreign_files_beside_the_sessions_stay(start, folder):
    ours = os.path.join(folder, f"mobula-{os.geteuid()}")
    os.makedirs(os.path.join(ours, "session_of_mine"), mode=0o700)
    os.chmod(ours, 0o700)
    support.touch(os.path.join(ours, "notes.txt"))
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(os.path.join(ours, "socket"))
        start(num_cpus=1, _temp_dir=folder)
        assert ray.get(ray.put(1)) == 1
        ray.shutdown()
    assert {"notes.txt", "socket", "session_of_mine"} <= set(os.listdir(ours))


def test_a_session_whose_folder_vanishes_goes_on_or_says_so(start, folder):
    context = start(num_cpus=2, _temp_dir=folder, log_to_driver=False)

    @ray.remote(max_calls=1, max_retries=0)
    def fresh(x):
        return x

    assert ray.get(fresh.remote(1), timeout=30) == 1
    shutil.rmtree(context["session_dir"])
    assert ray.get(ray.put(2)) == 2
    try:
        assert ray.get([fresh.remote(i) for i in range(3)], timeout=30) == [0, 1, 2]
    except RayError as error:
        assert not isinstance(error, ray.exceptions.GetTimeoutError), "no call may hang"
