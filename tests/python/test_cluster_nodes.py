"""Several nodes of one cluster on this machine: how they come and go, and what shows them."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import clusters
import drivers
import pytest
import support
from clusters import NOTICED, await_all, head, ids, join, kill, refused

import ray
from ray._private import redis_server, roster, sessions, token

pytestmark = [
    pytest.mark.one_path("nodes and their commands; tasks only show that a node lives"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]


no_nodes = clusters.none_left


cluster = clusters.empty


@ray.remote
def echo(x):
    return x


# ---- nodes come ----


def test_a_node_joins_by_the_words_that_the_head_prints():
    result = drivers.command("start", "--head", "--port=0", "--num-cpus=1")
    assert (result.returncode, result.stderr) == (0, "")
    command = re.search(r"^ +ray (start --address='\S+')$", result.stdout, re.M).group(1)
    assert "RAY_AUTH_TOKEN" in result.stdout
    done = subprocess.run(
        f"{drivers.RAY} {command}", shell=True, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    newest, first = sessions.live_nodes()
    assert newest.cluster == first.cluster and re.fullmatch("[0-9a-f]{32}", first.cluster)
    assert newest.address != first.address and newest.ip == first.ip
    await_all(first, newest)


def test_a_node_joins_at_any_node():
    first = head()
    second = join(first)
    third = join(second, "--node-name=third")
    await_all(first, second, third)
    assert third.name == "third"
    rows = {row.node_id: row for row in roster.seen_by(first.socket)}
    assert [rows[node.node_id].is_head for node in (first, second, third)] == [True, False, False]
    assert rows[third.node_id].name == "third" and rows[third.node_id].pid == third.pid
    assert f"127.0.0.1:{rows[second.node_id].port}" == second.address


def test_a_token_in_a_file(folder):
    path = f"{folder}/token"
    env = {"RAY_AUTH_TOKEN": None, "RAY_AUTH_TOKEN_PATH": path}
    assert path in refused("--head", "--port=0", **env)
    with open(path, "w") as file:
        file.write("  a token of a cluster\n")
    assert f"chmod 600 {path}" in refused("--head", "--port=0", **env)
    os.chmod(path, 0o600)
    first = head(**env)
    await_all(first, join(first, RAY_AUTH_TOKEN="a token of a cluster"))


def test_a_head_makes_the_token(folder):
    env = {"RAY_AUTH_TOKEN": None, "HOME": folder}
    result = drivers.command("get-auth-token", env=env)
    assert result.returncode == 1 and "--generate" in result.stderr
    words = refused("--address=127.0.0.1:1", **env)
    assert "no token" in words and ".ray/auth_token" in words
    first = head(**env)
    path = f"{folder}/.ray/auth_token"
    assert os.stat(path).st_mode & 0o777 == 0o600
    made = drivers.command("get-auth-token", env=env).stdout.strip()
    assert made == open(path).read() and re.fullmatch("[0-9a-f]{64}", made)
    assert drivers.command("get-auth-token", "--generate", env=env).stdout.strip() == made
    await_all(first, join(first, **env))


def test_another_token_is_refused():
    first = head()
    words = refused(f"--address={first.address}", RAY_AUTH_TOKEN="not the token of it")
    assert "token" in words and first.address in words
    assert ids(first) == {first.node_id}


def certificates(folder, name):
    """The options of `ray start` for certificates by an authority of this name."""
    command = (
        f"cd {folder} && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} "
        f"-keyout {name}-ca.key -out {name}-ca.pem && openssl req -newkey rsa:2048 -nodes "
        f"-subj /CN=node -keyout {name}.key -out {name}.csr && openssl x509 -req -days 2 "
        f"-in {name}.csr -CA {name}-ca.pem -CAkey {name}-ca.key -CAcreateserial -out {name}.pem"
    )
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    base = f"{folder}/{name}"
    return (f"--tls-cert={base}.pem", f"--tls-key={base}.key", f"--tls-ca={base}-ca.pem")


def test_nodes_with_certificates(folder):
    ours, others = certificates(folder, "ours"), certificates(folder, "others")
    first = head(*ours)
    second = join(first, *ours)
    await_all(first, second)
    assert first.address in refused(f"--address={first.address}", *others)
    assert first.address in refused(f"--address={first.address}")
    await_all(first, second)


def test_join_of_nobody():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        assert address in refused(f"--address={address}")
        assert time.monotonic() - began < 60


def test_join_of_what_is_no_node():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert address in refused(f"--address={address}")


def test_a_head_without_redis_is_alone(folder):
    os.mkdir(f"{folder}/bin")
    result = drivers.command("start", "--head", "--port=0", env={"PATH": f"{folder}/bin"})
    assert result.returncode == 0, result.stderr
    assert "redis-server" in result.stdout and "--address" not in result.stdout
    (node,) = sessions.live_nodes()
    assert node.cluster == "" and support.redis_processes() == []
    assert "redis-server" in refused(f"--address={node.address}")
    (row,) = roster.seen_by(node.socket)
    assert row.alive and row.is_head and row.node_id == node.node_id
    ray.init(address=node.address)
    assert ray.get(echo.remote(1)) == 1


def test_two_clusters_know_nothing_of_each_other():
    one, other = head(), head()
    assert one.cluster != other.cluster and len(support.redis_processes()) == 2
    joined = join(one)
    await_all(one, joined)
    await_all(other)


def test_a_redis_that_somebody_else_looks_after(folder):
    with own_redis(folder) as address:
        secret = f"{folder}/secret"
        with open(secret, "w") as file:
            file.write("secret\n")
        options = (f"--redis={address}", f"--redis-password-file={secret}")
        assert "chmod 600" in refused("--head", "--port=0", *options)
        os.chmod(secret, 0o600)
        assert "password" in refused("--head", "--port=0", options[0], RAY_REDIS_PASSWORD="wrong")
        first = head(*options)
        assert support.redis_folders() == []
        assert "password" in refused(f"--address={first.address}")
        await_all(first, join(first, RAY_REDIS_PASSWORD="secret"))
        assert drivers.command("stop").returncode == 0
        again = head(*options)  # with the same token it is the same cluster
        assert again.cluster == first.cluster
        assert head(*options, RAY_external_storage_namespace="b").cluster != first.cluster
        assert drivers.command("stop").returncode == 0


def test_a_redis_without_a_password(folder):
    with own_redis(folder, password=None) as address:
        first = head(f"--redis={address}")
        await_all(first, join(first))
        assert drivers.command("stop").returncode == 0


class own_redis:
    def __init__(self, folder, password="secret"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [redis_server.program(), "--port", str(port), "--bind", "127.0.0.1"]
        words += ["--save", "", "--dir", folder]
        if password is not None:
            words += ["--requirepass", password]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.address = f"127.0.0.1:{port}"

    def __enter__(self):
        def answers():
            host, port = self.address.split(":")
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        assert support.wait_until(answers)
        return self.address

    def __exit__(self, *exc):
        self.server.kill()
        self.server.wait()


@pytest.mark.parametrize(
    "options, words",
    [
        ([], "--head"),
        (["--head", "--address=10.0.0.1:6379"], "--address"),
        (["--address=10.0.0.1"], "HOST:PORT"),
        (["--address=10.0.0.1:much"], "HOST:PORT"),
        (["--address=10.0.0.1:6379", "--redis=10.0.0.1:6380"], "--redis"),
        (["--address=10.0.0.1:6379", "--redis-sentinel=a@b:1"], "--redis-sentinel"),
        (["--head", "--redis=nowhere"], "--redis"),
        (["--head", "--redis-sentinel=10.0.0.1:26379"], "--redis-sentinel"),
        (["--head", "--redis=a:1", "--redis-sentinel=a@b:1"], "not both"),
        (["--head", "--redis=a:1", "--redis-password=x"], "--redis-password-file"),
        (["--head", "--redis=a:1", "--redis-port=7000"], "--redis-port"),
        (["--head", "--redis-port=70000"], "--redis-port"),
        (["--head", "--redis-password-file=/nowhere"], "/nowhere"),
        (["--head", "--tls-cert=/nowhere"], "--tls-key"),
        (["--head", "--tls-cert=/no", "--tls-key=/no", "--tls-ca=/no"], "/no"),
    ],
    ids=" ".join,
)
def test_bad_options(options, words):
    result = drivers.command("start", *options)
    assert result.returncode in (1, 2), result.stdout
    assert words in result.stderr and "Traceback" not in result.stderr
    assert sessions.live_nodes() == [] and support.redis_processes() == []


def test_the_password_of_redis_is_no_argument_and_in_no_open_file():
    node = head()
    (pid,) = support.redis_processes()
    secret = token.derived(os.environ["RAY_AUTH_TOKEN"], "redis")
    for process in (pid, node.pid):
        with open(f"/proc/{process}/cmdline") as file:
            assert secret not in file.read()
    folder = redis_server.of_cluster(node.cluster).folder
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(f"{folder}/redis.conf").st_mode & 0o777 == 0o600


# ---- nodes go ----


@pytest.mark.parametrize("has_driver", [False, True], ids=["alone", "with a driver"])
def test_a_node_that_is_stopped_is_gone_at_once(folder, has_driver):
    first = head()
    second = join(first)
    await_all(first, second)
    with contextlib.ExitStack() as stack:
        if has_driver:
            driver = stack.enter_context(drivers.Driver(folder, {"address": second.folder}))
            driver.call(has_worker)
        assert drivers.command("stop", "--address", second.address).returncode == 0
        await_all(first)
    (row,) = [row for row in roster.seen_by(first.socket) if not row.alive]
    assert row.node_id == second.node_id and row.until_ms >= row.since_ms > 0
    assert row.reason == "it was ended in peace"


def has_worker():
    return ray.get(echo.remote(1))


def test_a_node_that_is_killed_is_known_to_be_dead():
    first = head()
    second, third = join(first), join(first)
    await_all(first, second, third)
    ray.init(address=first.address)
    kill(second)
    assert support.wait_until(lambda: not alive(second), NOTICED)
    found = {node["NodeID"]: node for node in ray.nodes()}
    assert found[second.node_id]["DeathReason"] == 2
    assert found[second.node_id]["DeathReasonMessage"]
    assert found[third.node_id]["Alive"] and found[third.node_id]["DeathReason"] == 0
    await_all(first, third)
    words = drivers.command("status").stdout
    failures = words[words.index("Recent failures:") : words.index("Resources\n")]
    assert f"node_{second.node_id}" in failures and "127.0.0.1" in failures
    assert ray.cluster_resources()["CPU"] == 2


def alive(node):
    """In ray.nodes() of this program."""
    return next(row["Alive"] for row in ray.nodes() if row["NodeID"] == node.node_id)


def test_a_head_finds_the_cluster_again_after_its_death():
    first = head()
    kill(first)
    assert len(support.redis_processes()) == 1
    result = drivers.command("start", "--head", "--port=0", "--node-ip-address=127.0.0.1")
    assert result.returncode == 0 and "the cluster of before" in result.stdout, result.stderr
    (again,) = sessions.live_nodes()
    assert again.cluster == first.cluster and again.node_id != first.node_id
    assert len(support.redis_processes()) == 1
    await_all(again)


def test_a_head_finds_the_cluster_again_after_everything_was_killed():
    first = head()
    (redis,) = support.redis_processes()
    kill(first)
    os.kill(redis, signal.SIGKILL)
    assert support.wait_until(lambda: support.redis_processes() == [])
    again = head()
    assert again.cluster == first.cluster
    assert again.node_id in ids(again)


def test_a_head_of_another_token_takes_nothing_that_is_there():
    first = head()
    kill(first)
    other = head(RAY_AUTH_TOKEN="another token than that")
    assert other.cluster != first.cluster and len(support.redis_processes()) == 2


def test_a_start_that_fails_leaves_no_redis():
    node = head()
    port = node.address.rpartition(":")[2]
    words = refused("--head", f"--port={port}", "--node-ip-address=127.0.0.1")
    assert port in words and "ray stop" in words
    assert len(support.redis_processes()) == 1 and len(support.redis_folders()) == 1


# ---- ray stop ----


def test_stop_ends_all_nodes_here_and_redis():
    first = head()
    await_all(first, join(first), join(first))
    result = drivers.command("stop")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(r"Stopped all \d+ Ray processes\.\n", result.stdout)
    assert sessions.live_nodes() == [] and support.redis_processes() == []


def test_stop_of_a_head_whose_redis_others_need():
    first = head()
    second = join(first)
    await_all(first, second)
    result = drivers.command("stop", "--address", first.address)
    assert result.returncode == 1 and "--force" in result.stderr
    assert second.address in result.stderr
    await_all(first, second)
    result = drivers.command("stop", "--force", "--address", first.address)
    assert result.returncode == 0
    assert not support.alive(first.pid) and support.alive(second.pid)


def test_stop_ends_the_redis_of_a_dead_head():
    kill(head())
    assert len(support.redis_processes()) == 1
    result = drivers.command("stop")
    assert result.returncode == 0 and "Stopped all 1 Ray" in result.stdout
    assert support.redis_processes() == [] and support.redis_folders() == []


# ---- what shows nodes ----


def test_what_the_nodes_are_like_and_have(cluster):
    first = cluster.add_node(num_cpus=2, resources={"a": 1}, labels={"zone": "x"})
    second = cluster.add_node(num_cpus=3, num_gpus=2, resources={"a": 2, "b": 1}, node_name="two")
    cluster.connect()
    own, other = ray.nodes()
    assert own["NodeID"] == first.node_id == ray.get_runtime_context().get_node_id()
    assert other["NodeID"] == second.node_id and other["NodeName"] == second.node_name == "two"
    for node in (own, other):
        assert set(node) == {
            *("NodeID", "Alive", "alive", "NodeName", "NodeManagerAddress", "NodeManagerHostname"),
            *("NodeManagerPort", "ObjectManagerPort", "MetricsExportPort", "RuntimeEnvAgentPort"),
            *("ObjectStoreSocketName", "RayletSocketName", "DeathReason", "DeathReasonMessage"),
            *("Resources", "Labels"),
        }
        assert node["Alive"] is node["alive"] is True and node["NodeManagerPort"] > 0
        assert node["NodeManagerAddress"] == "127.0.0.1"
        assert node["NodeManagerHostname"] == socket.gethostname()
    assert own["RayletSocketName"] == first.raylet_socket_name
    assert own["Labels"]["zone"] == "x" and "zone" not in other["Labels"]
    assert own["Resources"]["CPU"] == 2 and own["Resources"]["node:__internal_head__"] == 1
    assert other["Resources"]["b"] == 1 and "node:__internal_head__" not in other["Resources"]
    found = ray.cluster_resources()
    assert (found["CPU"], found["GPU"], found["a"], found["b"]) == (5, 2, 3, 1)
    assert found["node:127.0.0.1"] == 2 and found["node:__internal_head__"] == 1
    assert ray.get_runtime_context().get_node_labels() == own["Labels"]
    assert ray.util.get_node_ip_address() == "127.0.0.1"
    assert ray.get(ray.remote(ray.util.get_node_ip_address).remote()) == "127.0.0.1"


def test_what_is_free(cluster, folder):
    first = cluster.add_node(num_cpus=2)
    second = cluster.add_node(num_cpus=3)
    cluster.connect()
    gate = f"{folder}/gate"
    refs = [ray.remote(support.wait_for_file).remote(gate) for _ in range(2)]
    per_node = ray._private.state.available_resources_per_node

    def free(node):
        return per_node()[node.node_id].get("CPU", 0)

    assert support.wait_until(lambda: free(first) + free(second) == 3)
    assert ray.available_resources()["CPU"] == 3
    assert support.wait_until(lambda: " 2.0/5.0 CPU\n" in drivers.command("status").stdout)
    words = drivers.command("status").stdout
    active = words[words.index("Active:") : words.index("Idle:")]
    assert f"node_{first.node_id}" in active and first.node_id not in words[words.index("Idle:") :]
    support.touch(gate)
    ray.get(refs)
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 5)
    assert ray._private.state.total_resources_per_node()[second.node_id]["CPU"] == 3


# ---- which node a program joins ----


def session_of(**env):
    code = "import ray; print(ray.init(**{!r})['session_dir'])".format(env.pop("init", {}))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=drivers.LIMIT,
        env=drivers.environment(env),
    )
    return done.stdout.strip() or done.stderr


def test_which_of_several_nodes_here_is_joined():
    other = head()
    first = head()
    second, third = join(first), join(first)
    await_all(first, second, third)
    assert session_of() == first.folder  # the oldest of the newest cluster
    assert session_of(init={"address": "auto"}) == first.folder
    assert session_of(init={"address": second.address}) == second.folder
    assert session_of(init={"address": second.folder}) == second.folder
    assert session_of(RAY_ADDRESS=third.address) == third.folder
    assert session_of(RAY_NODE_ID=third.node_id) == third.folder
    assert session_of(RAY_NODE_ID=third.node_id, RAY_ADDRESS=first.address) == third.folder
    assert session_of(RAY_ADDRESS=other.address) == other.folder
    wrong = session_of(RAY_NODE_ID=other.node_id, RAY_ADDRESS=first.address)
    assert "ConnectionError" in wrong and other.node_id in wrong
    wrong = session_of(RAY_NODE_ID="0123456789abcdef")
    assert "RAY_NODE_ID" in wrong and "0123456789abcdef" in wrong


def test_an_address_of_a_node_elsewhere(folder):
    """As on another machine: the head's folder is under another RAY_TMPDIR."""
    first = head()
    elsewhere = {"RAY_TMPDIR": folder}
    wrong = session_of(init={"address": first.address}, **elsewhere)
    assert "ConnectionError" in wrong and f"ray start --address={first.address}" in wrong
    result = drivers.command("start", f"--address={first.address}", env=elsewhere)
    assert result.returncode == 0, result.stderr
    joined = session_of(init={"address": first.address}, **elsewhere)
    assert joined.startswith(folder + os.sep)
    assert session_of(init={"address": "auto"}, **elsewhere) == joined
    by_name = first.address.replace("127.0.0.1", "localhost")
    assert session_of(init={"address": by_name}, **elsewhere) == joined
    assert session_of(init={"address": first.folder}, **elsewhere) == first.folder
    stopped = drivers.command("stop", env=elsewhere)
    assert stopped.returncode == 0 and "Stopped all" in stopped.stdout
    await_all(first)


def test_clients_are_refused():
    with pytest.raises(NotImplementedError, match="ray.init"):
        ray.init("ray://127.0.0.1:10001")
