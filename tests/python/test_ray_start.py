"""`ray start`, `ray stop`, `ray status`, and which node `ray.init` joins."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import drivers
import pytest
import support

import ray
from ray._private import sessions

pytestmark = pytest.mark.one_path("nodes and their commands; tasks only show that a node lives")


@ray.remote
def echo(x):
    return x


@pytest.fixture(autouse=True)
def no_nodes():
    """Every test begins and ends without one."""
    assert sessions.live_nodes() == []
    yield
    ray.shutdown()
    drivers.command("stop", "--force")
    assert support.wait_until(lambda: not support.processes() and not support.sessions())


def start(*options, **env):
    return drivers.command("start", "--head", "--port=0", "--num-cpus=2", *options, env=env)


def started(*options, **env):
    result = start(*options, **env)
    assert result.returncode == 0, result.stderr
    return sessions.live_nodes()[0]


# ---- ray start ----


def test_the_words_of_start():
    result = start()
    assert (result.returncode, result.stderr) == (0, "")
    (node,) = sessions.live_nodes()
    ip = node.address.rpartition(":")[0]
    for words in (
        f"Local node IP: {ip}\n",
        "Ray runtime started.\n",
        f"ray.init(address={node.address!r})",
        "ray stop\n",
        "ray status\n",
    ):
        assert words in result.stdout
    assert support.alive(node.pid)  # although its starter has ended


def test_a_node_has_what_start_says():
    node = started(
        "--num-cpus=3",
        "--num-gpus=2",
        '--resources={"special": 1.5}',
        "--memory=1e9",
        "--object-store-memory=100000000",
    )
    ray.init(address=node.address)
    found = ray.cluster_resources()
    assert found["CPU"] == 3 and found["GPU"] == 2 and found["special"] == 1.5
    assert found["memory"] == 1e9 and 90e6 < found["object_store_memory"] <= 100e6
    assert ray.get(echo.options(num_gpus=1, resources={"special": 0.5}).remote(1)) == 1


def test_a_port_is_one_nodes():
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
    assert drivers.command("start", "--head", f"--port={port}").returncode == 0
    (node,) = sessions.live_nodes()
    assert node.address.endswith(f":{port}")
    again = drivers.command("start", "--head", f"--port={port}")
    assert again.returncode == 1 and str(port) in again.stderr and "ray stop" in again.stderr
    assert [each.pid for each in sessions.live_nodes()] == [node.pid]
    assert drivers.command("stop").returncode == 0
    assert drivers.command("start", "--head", f"--port={port}").returncode == 0


def test_options_that_mean_nothing_are_said_to():
    result = start("--disable-usage-stats", "--min-worker-port", "10002")
    assert result.returncode == 0, result.stderr
    for name in ("--disable-usage-stats", "--min-worker-port"):
        assert f"{name} means nothing here" in result.stdout


def test_options_that_make_no_difference():
    result = start("--include-dashboard=false", "--dashboard-host=0.0.0.0", "--dashboard-port=8265")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "options, words",
    [
        ([], "--head"),
        (["--head", "--labels={}"], "--labels"),
        (["--head", "--labels=a b=c"], "--labels"),
        (["--head", "--labels=ray.io/node-id=1"], "--labels"),
        (["--head", "--include-dashboard=true"], "--include-dashboard"),
        (["--head", "--include-dashboard=maybe"], "maybe"),
        (["--head", "--port=70000"], "--port"),
        (["--head", "--port=-1"], "--port"),
        (["--head", "--port=much"], "--port"),
        (["--head", "--num-cpus=-1"], "num_cpus"),
        (["--head", "--num-cpus=nan"], "num_cpus"),
        (["--head", "--num-cpus=two"], "--num-cpus"),
        (["--head", "--num-gpus=0.5"], "num_gpus"),
        (["--head", "--resources=special"], "--resources"),
        (["--head", "--resources=[1]"], "--resources"),
        (["--head", '--resources={"CPU": 1}'], "num_cpus"),
        (["--head", '--resources={"special": "much"}'], "special"),
        (["--head", "--memory=-5"], "memory"),
        (["--head", "--object-store-memory=1"], "object_store_memory"),
        (["--head", "--object-store-memory=nan"], "object_store_memory"),
        (["--head", "--object-store-memory=inf"], "object_store_memory"),
        (["--head", "--port=0", "--node-ip-address=nowhere"], "nowhere"),
        (["--head", "--port=0", "--node-ip-address=203.0.113.1"], "203.0.113.1"),
        (["--head", "--port=0", "--temp-dir=/proc/none"], "/proc/none"),
        (["--head", "--port=0", "--object-spilling-directory=/proc/none"], "/proc/none"),
        (["--head", "--fly"], "--fly"),
    ],
    ids=" ".join,
)
def test_bad_options(options, words):
    result = drivers.command("start", *options)
    assert result.returncode in (1, 2), result.stdout
    assert words in result.stderr and "Traceback" not in result.stderr
    assert sessions.live_nodes() == []


def test_a_temp_dir_of_its_own(folder):
    node = started("--temp-dir", folder)
    assert node.folder.startswith(folder + os.sep)
    assert ray.init(address="auto")["session_dir"] == node.folder
    ray.shutdown()
    assert drivers.command("stop").returncode == 0
    assert os.listdir(folder) == []


def test_block_stays_until_the_node_is_stopped():
    with subprocess.Popen(
        [drivers.RAY, "start", "--head", "--port=0", "--block"], stdout=subprocess.PIPE, text=True
    ) as blocked:
        assert "--block" in next(line for line in blocked.stdout if "--block" in line)
        (node,) = sessions.live_nodes()
        assert blocked.poll() is None
        assert drivers.command("stop").returncode == 0
        assert blocked.wait(drivers.LIMIT) == 0
    assert not support.alive(node.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_block_ends_its_node_by_signals(number, folder):
    with subprocess.Popen(
        [drivers.RAY, "start", "--head", "--port=0", "--block", f"--temp-dir={folder}"],
        stdout=subprocess.PIPE,
        text=True,
    ) as blocked:
        next(line for line in blocked.stdout if "--block" in line)
        (node,) = sessions.live_nodes()
        blocked.send_signal(number)
        assert blocked.wait(drivers.LIMIT) == 0
    assert not support.alive(node.pid) and not os.path.exists(node.folder)
    assert support.sessions() == []  # nor what would lead there


def test_block_tells_of_the_daemons_death():
    with subprocess.Popen(
        [drivers.RAY, "start", "--head", "--port=0", "--block"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as blocked:
        next(line for line in blocked.stdout if "--block" in line)
        os.kill(sessions.live_nodes()[0].pid, signal.SIGKILL)
        assert blocked.wait(drivers.LIMIT) == 1
        assert "daemon has died" in blocked.stderr.read()


# ---- ray stop ----


def test_stop_without_a_node():
    result = drivers.command("stop")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "Did not find any active Ray processes.\n"


def test_stop_ends_all_nodes_and_no_private_session():
    nodes = [started(), started()]
    ray.init(address="local", num_cpus=1)
    assert len(sessions.live_nodes()) == 2
    result = drivers.command("stop")
    assert result.returncode == 0
    assert re.fullmatch(r"Stopped all \d+ Ray processes\.\n", result.stdout)
    assert not any(support.alive(node.pid) for node in nodes)
    assert not any(os.path.exists(node.folder) for node in nodes)
    assert ray.get(echo.remote(1)) == 1


def test_stop_of_one_node():
    one, other = started(), started()
    assert drivers.command("stop", "--address", one.address).returncode == 0
    assert not support.alive(one.pid) and support.alive(other.pid)
    assert drivers.command("stop", "--address", other.folder).returncode == 0
    result = drivers.command("stop", "--address", one.address)
    assert result.returncode == 1 and one.address in result.stderr


def test_stop_by_force_leaves_nothing(folder):
    node = started("--object-spilling-directory", folder)
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(hold_an_actor)
        assert drivers.command("stop", "--force").returncode == 0
        assert not support.alive(node.pid) and not os.path.exists(node.folder)
    assert support.wait_until(lambda: not support.processes())


@pytest.mark.parametrize("options", [["-g", "0"], ["--grace-period=0"]])
def test_a_node_that_does_not_end_in_time_is_killed(options):
    node = started()
    os.kill(node.pid, signal.SIGSTOP)
    result = drivers.command("stop", *options)
    assert result.returncode == 0 and "killed" in result.stderr
    assert not support.alive(node.pid) and not os.path.exists(node.folder)


def test_stop_ends_detached_actors_as_programs_end(folder):
    node = started()
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(detach_a_writer, f"{folder}/ended")
    assert drivers.command("stop").returncode == 0
    assert os.path.exists(f"{folder}/ended")


def test_the_programs_of_a_stopped_node_are_told(folder):
    node = started()
    ray.init(address=node.address)
    ref = echo.remote(1)
    assert ray.get(ref) == 1
    assert drivers.command("stop").returncode == 0
    with pytest.raises(ray.exceptions.LocalRayletDiedError):
        ray.get(echo.remote(1), timeout=40)
    ray.shutdown()
    ray.init(num_cpus=1)
    assert ray.get(echo.remote(2)) == 2


@ray.remote
class Writer:
    def __init__(self, path):
        self.path = path

    def __ray_shutdown__(self):
        support.touch(self.path)


def detach_a_writer(path):
    ray.get(Writer.options(lifetime="detached", name="w").remote(path).__ray_ready__.remote())


def hold_an_actor():
    global held
    held = support.Counter.remote()
    return ray.get(held.add.remote())


# ---- ray status ----


def test_the_words_of_status(folder):
    node = started('--resources={"special": 1}')
    result = drivers.command("status")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.match(
        r"======== Autoscaler status: [-0-9: .]+ ========\nNode status\n", result.stdout
    )
    for words in (
        "Active:\n (no active nodes)\n",
        f"Idle:\n 1 node_{node.node_id}\n",
        "Pending:\n (no pending nodes)\n",
        "Recent failures:\n (no failures)\n",
        "Resources\n",
        "Total Usage:\n",
        " 0.0/2.0 CPU\n",
        " 0.0/1.0 special\n",
        "Pending Demands:\n (no resource demands)\n",
    ):
        assert words in result.stdout, result.stdout


def test_status_shows_what_is_used_and_what_waits(folder):
    node = started()
    ray.init(address=node.address)
    gate = f"{folder}/gate"
    wait = ray.remote(support.wait_for_file)
    refs = [wait.remote(gate), wait.options(num_cpus=0.5).remote(gate)]
    refs += [wait.options(num_cpus=2).remote(gate) for _ in range(3)]
    refs += [wait.options(resources={"missing": 1}).remote(gate)]

    def shown():
        words = drivers.command("status", "--address", node.address).stdout
        return all(
            each in words
            for each in (
                " 1.5/2.0 CPU\n",
                " {'CPU': 2.0}: 3+ pending tasks/actors\n",
                "'missing': 1.0}: 1+ pending tasks/actors\n",
                f"Active:\n 1 node_{node.node_id}\n",
            )
        )

    assert support.wait_until(shown, 40), drivers.command("status").stdout
    ray.cancel(refs[-1])
    support.touch(gate)
    ray.get(refs[:-1])


def test_status_shows_jobs_where_asked(folder):
    node = started()
    with drivers.Driver(folder, {"address": node.address, "namespace": "mine"}) as driver:
        words = drivers.command("status", "-v").stdout
        assert f"driver {driver.pid}, namespace mine" in words
        assert f"driver {driver.pid}" not in drivers.command("status").stdout


def test_status_without_a_node():
    result = drivers.command("status")
    assert (result.returncode, result.stdout) == (1, "")
    assert "ray status: no session" in result.stderr


def test_status_of_what_is_not_there():
    started()
    for address in ("127.0.0.1:1", "/nowhere", "nowhere"):
        result = drivers.command("status", "--address", address)
        assert (result.returncode, result.stdout) == (1, "") and address in result.stderr
    result = drivers.command("status", env={"RAY_ADDRESS": "127.0.0.1:1"})
    assert result.returncode == 1 and "127.0.0.1:1" in result.stderr


# ---- which node is joined ----


def test_init_without_a_node_starts_a_session_of_its_own():
    context = ray.init(num_cpus=1)
    assert sessions.live_nodes() == []
    ray.shutdown()
    assert not os.path.exists(context["session_dir"])


@pytest.mark.parametrize("address", ["auto", None])
def test_the_newest_node_is_joined(address):
    started()
    newest = started()
    context = ray.init(address=address)
    assert context["session_dir"] == newest.folder
    assert context["node_id"] == ray.nodes()[0]["NodeID"]
    assert context["address"] == newest.address
    assert ray.get(echo.remote(1)) == 1
    ray.shutdown()
    assert support.alive(newest.pid)


def test_a_call_without_init_joins_too():
    node = started()
    assert ray.get(echo.remote(1)) == 1
    assert session_dir() == node.folder


@pytest.mark.parametrize("address", ["auto", None])
@pytest.mark.parametrize("spelling", ["address", "folder", "127.0.0.1", "localhost"])
def test_ray_address_says_which(monkeypatch, address, spelling):
    node = started()
    started()
    port = node.address.rpartition(":")[2]
    named = getattr(node, spelling, f"{spelling}:{port}")
    monkeypatch.setenv("RAY_ADDRESS", named)
    assert ray.init(address=address)["session_dir"] == node.folder


def test_an_address_comes_before_ray_address(monkeypatch):
    one, other = started(), started()
    monkeypatch.setenv("RAY_ADDRESS", other.address)
    assert ray.init(address=one.address)["session_dir"] == one.folder
    ray.shutdown()
    context = ray.init(address="local", num_cpus=1)
    assert context["session_dir"] not in (one.folder, other.folder)


def test_ray_address_may_say_local_or_auto(monkeypatch):
    node = started()
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert ray.init(num_cpus=1)["session_dir"] != node.folder
    ray.shutdown()
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert ray.init()["session_dir"] == node.folder


def test_auto_without_a_node_is_a_connection_error(monkeypatch):
    ray.init(address="local", num_cpus=1)  # a private session, which is never joined
    code = "import ray; ray.init(address='auto')"
    for env in ({}, {"RAY_ADDRESS": "auto"}):
        result = run_python(code, env)
        assert result.returncode == 1
        assert "ConnectionError: no node of this user" in result.stderr
        assert "ray start --head" in result.stderr
    result = run_python("import ray; ray.init()", {"RAY_ADDRESS": "auto"})
    assert "ConnectionError: no node of this user" in result.stderr


def run_python(code, env):
    import sys

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=drivers.LIMIT,
        env=drivers.environment(env),
    )


def test_a_private_session_is_never_joined(folder):
    session = ray.init(address="local", num_cpus=1)["session_dir"]
    with drivers.Driver(folder, {"address": None, "num_cpus": 1}) as driver:
        assert driver.call(session_dir) != session
    with drivers.Driver(folder, None) as driver:
        with pytest.raises(ConnectionError, match="can't be joined"):
            driver.call(drivers.join, {"address": session})


def session_dir():
    return ray._core.session()["socket"].rpartition("/")[0]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("address", ["127.0.0.1:1", "192.0.2.1:6379", "nowhere", "/nowhere", ":"])
def test_an_address_that_nobody_has(address, running):
    if running:
        node = started()
    with pytest.raises(ConnectionError, match=re.escape(repr(address))) as info:
        ray.init(address=address)
    assert not running or node.address in str(info.value)
    assert not ray.is_initialized()


def test_an_address_that_is_none():
    for wrong in (6379, b"auto", ["auto"]):
        with pytest.raises(TypeError, match="address must be a str"):
            ray.init(address=wrong)


def test_a_node_that_has_ended(folder):
    node = started()
    assert drivers.command("stop").returncode == 0
    with pytest.raises(ConnectionError):
        ray.init(address=node.address)
    with pytest.raises(ConnectionError):
        ray.init(address=node.folder)


def test_a_folder_that_is_no_sessions(folder):
    with pytest.raises(ConnectionError, match="no daemon runs"):
        ray.init(address=folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_folder_of_another_user(folder):
    theirs = f"{folder}/theirs"
    os.mkdir(theirs)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(ConnectionError, match="another user"):
        ray.init(address=theirs)


@pytest.mark.parametrize(
    "option",
    [
        {"num_cpus": 1},
        {"num_gpus": 0},
        {"resources": {"special": 1}},
        {"object_store_memory": 100_000_000},
        {"_memory": 1e9},
        {"_temp_dir": "/tmp"},
        {"object_spilling_directory": "/tmp"},
        {"_system_config": {"health_check_period_ms": 1}},
    ],
    ids=lambda option: next(iter(option)),
)
@pytest.mark.parametrize("address", ["auto", None])
def test_what_a_node_has_can_not_be_said_while_joining(option, address, shared_node):
    (name,) = option
    with pytest.raises(ValueError, match=f"existing cluster, {name} must not be provided"):
        ray.init(address=address, **option)
    assert not ray.is_initialized()


@pytest.fixture
def shared_node():
    return started()


def test_a_node_of_another_version_says_so():
    node = started()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(node.socket)
        packet = bytearray(support.hello(role=1))
        packet[-40:] = b"0.0.1".ljust(40, b"\0")
        connection.send(packet)
        answer = connection.recv(4096)
    version = ray.__version__.split("mobula.")[1].encode()
    assert b"is of Mobula " + version in answer and b"this program of 0.0.1" in answer
    assert ray.init(address=node.address) and ray.get(echo.remote(1)) == 1


# ---- what killed daemons leave ----


def kill(node):
    os.kill(node.pid, signal.SIGKILL)
    assert support.wait_until(lambda: not support.alive(node.pid))


def test_a_killed_daemon_leaves_nothing_that_the_next_start_keeps(folder):
    node = started()
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(hold_an_actor)
        kill(node)
        assert support.wait_until(lambda: len(support.processes()) == 1), support.processes()
    assert sessions.live_nodes() == []
    with pytest.raises(ConnectionError):
        ray.init(address="auto")
    other = started()
    assert not os.path.exists(node.folder)
    assert support.sessions() == [os.path.basename(other.folder)]


def test_a_killed_daemon_elsewhere_leaves_nothing_that_the_next_start_keeps(folder):
    node = started("--temp-dir", folder)
    assert len(support.sessions()) == 1
    kill(node)
    other = started()
    assert support.sessions() == [os.path.basename(other.folder)]
    assert os.listdir(folder) == []


def test_spill_files_of_a_killed_daemon_are_cleared(folder):
    spill = f"{folder}/spill"
    options = ("--object-store-memory=20000000", f"--object-spilling-directory={spill}")
    node = started(*options)
    with drivers.Driver(folder, {"address": node.folder}) as driver:
        driver.call(put_much)
        assert spilled(spill) > 1 << 20
        kill(node)
    assert spilled(spill) > 1 << 20
    started(*options)
    assert support.wait_until(lambda: spilled(spill) == 0)


def put_much():
    global held
    held = [ray.put(os.urandom(2 << 20)) for _ in range(20)]


def spilled(folder):
    return sum(
        size_of(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names
    )


def size_of(path):
    """0 for a file that a daemon has removed since it was listed."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def test_the_programs_of_a_killed_daemon_are_told_and_go_on():
    node = started()
    ray.init(address=node.address)
    assert ray.get(echo.remote(1)) == 1
    kill(node)
    with pytest.raises(ray.exceptions.LocalRayletDiedError):
        ray.get(echo.remote(1), timeout=40)
    ray.shutdown()
    other = started()
    assert ray.init(address="auto")["session_dir"] == other.folder
    assert ray.get(echo.remote(1)) == 1


def test_many_starts_and_stops_at_once():
    """Each clears up what others have left, and none what others have."""
    errors = []

    def again():
        for _ in range(3):
            result = start()
            if result.returncode != 0:
                errors.append(result.stderr)
                return
            port = re.search(r"address='([^']+)'", result.stdout).group(1)
            result = drivers.command("stop", "--address", port)
            if result.returncode != 0:
                errors.append(result.stderr)

    threads = [threading.Thread(target=again) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sessions.live_nodes() == [] and support.sessions() == []


def test_a_starter_without_standard_streams_or_folder(folder):
    """As cron and init systems start things."""
    gone = f"{folder}/gone"
    os.mkdir(gone)
    shell = f"cd {gone} && rmdir {gone} && exec {drivers.RAY} start --head --port=0 <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], timeout=drivers.LIMIT).returncode == 0
    (node,) = sessions.live_nodes()
    ray.init(address="auto")
    assert ray.get(echo.remote(1)) == 1
    assert os.readlink(f"/proc/{node.pid}/cwd") == "/"
    shutil.rmtree(gone, ignore_errors=True)
