"""What runs nodes as services: `ray start --block` for it, and the files of examples/cluster."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import clusters
import drivers
import pytest
import support

from ray._private import sessions
from ray.scripts import start

FILES = Path(__file__).resolve().parents[2] / "examples" / "cluster"
pytestmark = pytest.mark.one_path("nodes and their commands; no task runs in it")
needs_redis = pytest.mark.skipif(
    not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
)


no_nodes = clusters.none_left


@contextlib.contextmanager
def blocked(*options, **env):
    """A `ray start --block`, and its node."""
    before = {node.node_id for node in sessions.live_nodes()}
    with subprocess.Popen(
        [drivers.RAY, "start", "--num-cpus=1", *options, "--block"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=drivers.environment(env),
    ) as process:
        try:
            next(line for line in process.stdout if "--block" in line)
            (node,) = [node for node in sessions.live_nodes() if node.node_id not in before]
            yield process, node
        finally:
            process.terminate()


# ---- ray start --block ----


@pytest.mark.parametrize("is_abstract", [False, True])
def test_block_says_when_the_node_is_there(folder, is_abstract):
    path = f"{folder}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + path if is_abstract else path)
        systemd.settimeout(drivers.LIMIT)
        said = "@" + path if is_abstract else path
        with blocked("--head", "--port=0", NOTIFY_SOCKET=said) as (_, node):
            assert systemd.recv(100) == b"READY=1"
            assert support.alive(node.pid)


def test_block_tells_which_signal_killed_the_daemon():
    with blocked("--head", "--port=0") as (process, node):
        os.kill(node.pid, signal.SIGKILL)
        assert process.wait(drivers.LIMIT) == 1
        assert "killed by signal 9" in process.stderr.read()


@needs_redis
def test_block_tells_why_the_cluster_put_its_node_out():
    head = clusters.head()
    with blocked(f"--address={head.address}") as (process, node):
        clusters.await_all(head, node)
        os.kill(node.pid, signal.SIGSTOP)
        try:
            clusters.await_all(head)
        finally:
            os.kill(node.pid, signal.SIGCONT)
        assert process.wait(drivers.LIMIT) == 1
        assert "the cluster took it for dead" in process.stderr.read()


# ---- names of machines ----


@needs_redis
def test_a_node_joins_by_the_name_of_a_machine():
    head = clusters.head()
    port = head.address.rpartition(":")[2]
    clusters.await_all(head, clusters.start(f"--address=localhost:{port}"))


@pytest.mark.parametrize(
    "options",
    [
        ["--address=nowhere.invalid:1"],
        ["--head", "--redis=nowhere.invalid:1"],
        ["--head", "--redis-sentinel=ours@127.0.0.1:1,nowhere.invalid:1"],
    ],
    ids=" ".join,
)
def test_a_name_of_no_machine(options):
    words = clusters.refused(*options)
    assert "nowhere.invalid, of nowhere.invalid:1, is no name of a machine" in words


# ---- the files ----


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_the_units_of_systemd(folder):
    """As they are, but for the path of `ray`, which has to be there."""
    units = sorted(FILES.glob("*.service"))
    assert len(units) == 2
    for unit in units:
        path = Path(folder) / unit.name
        path.write_text(unit.read_text().replace("/opt/mobula/bin/ray", drivers.RAY))
        done = subprocess.run(
            ["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_of_slurm_is_one_of_bash():
    done = subprocess.run(
        ["bash", "-n", FILES / "slurm.sh"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_of_slurm_finds_the_address_that_the_head_prints():
    """The same words of sed, on what `ray start --head` says."""
    (command,) = [
        line.split("(", 1)[1].split(" <<<")[0]
        for line in (FILES / "slurm.sh").read_text().split("\n")
        if line.startswith("RAY_ADDRESS=$(sed")
    ]
    head = drivers.command("start", "--head", "--port=0", "--num-cpus=1")
    (node,) = sessions.live_nodes()
    done = subprocess.run(command, shell=True, input=head.stdout, capture_output=True, text=True)
    assert done.stdout.strip() == (node.address if node.cluster else ""), head.stdout


# ---- the manifest of Kubernetes ----


@pytest.fixture
def manifest():
    """Its objects, by kind and name."""
    yaml = pytest.importorskip("yaml")  # dask brings it
    found = list(yaml.safe_load_all((FILES / "kubernetes.yaml").read_text()))
    assert len(found) > 5
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def _named(manifest, kind):
    return {name: each for (its_kind, name), each in manifest.items() if its_kind == kind}


def _containers(manifest):
    for each in _named(manifest, "StatefulSet").values():
        yield from each["spec"]["template"]["spec"]["containers"]


def test_the_manifest_fits_the_schema(manifest):
    validate = pytest.importorskip("kubernetes_validate")
    for each in manifest.values():
        validate.validate(each, validate.latest_version(), strict=True)


def test_the_commands_of_the_manifest_are_commands_of_ours(manifest):
    commands = [each["command"] for each in _containers(manifest) if each["name"] == "node"]
    assert len(commands) == 2
    for program, what, *options in commands:
        assert (program, what) == ("ray", "start")
        parsed = start._parser().parse_args(options)
        assert start._problem(parsed) is None and parsed.block


def test_what_the_manifest_names_is_there(manifest):
    """Services that are called, volumes and secrets that are used, pods that are selected."""
    services = _named(manifest, "Service")
    called = {"mobula"} | {f"mobula-redis-{i}" for i in range(3)}
    assert called <= set(services)
    options = " ".join(
        word for each in _containers(manifest) for word in each["command"] if "=" in word
    )
    assert {name for name in called if f"{name}:" in options} == called
    for each in _named(manifest, "StatefulSet").values():
        spec, pod = each["spec"], each["spec"]["template"]
        assert spec["serviceName"] in services
        assert spec["selector"]["matchLabels"] == pod["metadata"]["labels"]
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        for container in pod["spec"]["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            for variable in container["env"]:
                secret = variable["valueFrom"].get("secretKeyRef", {"name": "mobula"})
                assert secret["name"] == "mobula"
                assert secret.get("key", "token") in ("token", "redis-password")


def test_the_script_of_the_manifest_is_one_of_the_shell(manifest):
    script = manifest["ConfigMap", "mobula-redis"]["data"]["start"]
    done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
