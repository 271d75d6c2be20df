"""ray.cluster_utils: clusters of several nodes on this machine, for tests."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import clusters
import pytest
import support
from clusters import NOTICED

import ray
from ray._private import roster, sessions
from ray.cluster_utils import Cluster

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


def test_a_cluster_as_ray_has_it():
    cluster = Cluster(
        initialize_head=True, connect=True, head_node_args={"num_cpus": 2, "node_name": "head"}
    )
    first = cluster.head_node
    assert cluster.connected and ray.is_initialized()
    assert cluster.address == cluster.gcs_address == first.address == first.gcs_address
    assert cluster.redis_address == first.redis_address
    assert cluster.list_all_nodes() == [first] and cluster.worker_nodes == set()
    assert ray.nodes()[0]["NodeName"] == "head" and first.head and first.is_head()
    assert os.environ["RAY_AUTH_TOKEN"] == cluster._token

    second = cluster.add_node(object_store_memory=80 << 20, env_vars={"A": "b"})
    assert cluster.worker_nodes == {second} and not second.head
    assert second.address == cluster.address and second.node_ip_address == "127.0.0.1"
    assert second.unique_id == second.node_id != first.node_id
    assert ray.cluster_resources()["CPU"] == 3
    assert second.session_name == os.path.basename(second.get_session_dir_path())
    assert second.get_logs_dir_path().startswith(second.get_session_dir_path())
    with open(f"/proc/{second.all_processes['raylet'][0].process.pid}/environ") as file:
        assert "\0A=b\0" in file.read()
    assert cluster.remaining_processes_alive() and second.any_processes_alive()
    assert {kind for kind, _ in first.live_processes()} == {"raylet", "gcs_server"}
    assert [kind for kind, _ in second.live_processes()] == ["raylet"]

    ray.shutdown()
    before = cluster._token_before
    cluster.shutdown()
    assert os.environ.get("RAY_AUTH_TOKEN") == before
    assert cluster.list_all_nodes() == [] and cluster.address is None
    assert support.processes() == [] and support.sessions() == []
    assert support.redis_processes() == []
    cluster.shutdown()


def test_nodes_of_a_cluster_come_and_go(cluster):
    first = cluster.add_node()
    second, third = cluster.add_node(wait=False), cluster.add_node(wait=False)
    cluster.wait_for_nodes()
    cluster.connect()
    assert ray.cluster_resources()["CPU"] == 3
    cluster.remove_node(second)
    cluster.wait_for_nodes()
    cluster.remove_node(third, allow_graceful=False)
    cluster.wait_for_nodes(timeout=NOTICED)
    assert ray.cluster_resources()["CPU"] == 1
    states = {node["NodeID"]: node["DeathReason"] for node in ray.nodes()}
    assert states == {first.node_id: 0, second.node_id: 1, third.node_id: 2}
    with pytest.raises(ValueError, match="in this cluster"):
        cluster.remove_node(third)
    with pytest.raises(ValueError, match="connected"):
        cluster.remove_node(first)
    assert not ray.is_initialized()


def test_a_node_whose_daemon_is_killed(cluster):
    first = cluster.add_node()
    second = cluster.add_node()
    second.kill_raylet()
    assert not second.any_processes_alive() and not second.remaining_processes_alive()
    assert not cluster.remaining_processes_alive()
    with pytest.raises(RuntimeError, match="ended already"):
        second.kill_raylet()
    with pytest.raises(ValueError, match="gcs_server"):
        second.kill_gcs_server()
    with pytest.raises(TimeoutError, match="nodes after"):
        cluster.wait_for_nodes(timeout=0.5)
    cluster.remove_node(second)
    cluster.wait_for_nodes(timeout=NOTICED)
    third = cluster.add_node()
    assert _seen(first) == {first.node_id, third.node_id}


def _seen(node):
    return {row.node_id for row in roster.seen_by(node.raylet_socket_name) if row.alive}


def test_redis_of_a_cluster_goes_and_comes_back(cluster):
    first, second = cluster.add_node(), cluster.add_node()
    cluster.connect()
    first.kill_gcs_server()
    assert not first.remaining_processes_alive() and first.any_processes_alive()
    assert ray.get(echo.remote(1)) == 1
    time.sleep(4)  # longer than a lease: nobody is dead for that
    assert _seen(first) == {first.node_id, second.node_id}
    first.start_gcs_server()
    assert first.remaining_processes_alive()
    third = cluster.add_node()
    assert _seen(second) == {first.node_id, second.node_id, third.node_id}
    ray.shutdown()


def test_bad_arguments_of_a_cluster(cluster):
    with pytest.raises(ValueError, match="initialize_head"):
        Cluster(head_node_args={"num_cpus": 1})
    with pytest.raises(RuntimeError, match="initialize_head"):
        Cluster(connect=True)
    with pytest.raises(TypeError, match="fly"):
        cluster.add_node(fly=1)
    with pytest.raises(RuntimeError, match="num_cpus"):
        cluster.add_node(num_cpus=-1)
    with pytest.raises(RuntimeError, match="no head"):
        cluster.connect()
    with pytest.raises(TypeError, match="health_check_period_ms.*'1'"):
        cluster.add_node(_system_config={"health_check_period_ms": "1"})
    with pytest.warns(UserWarning, match="no such settings: a"):
        cluster.add_node(_system_config={"a": 1}, min_worker_port=0)
    with pytest.raises(ValueError, match="for the head"):
        cluster.add_node(_system_config={"health_check_period_ms": 1})
    with pytest.raises(RuntimeError, match="token|refused"):
        Cluster.add_node(_stranger(cluster))


def _stranger(cluster):
    """One that has the address of a cluster, and another token."""
    other = Cluster()
    other.head_node = cluster.head_node
    return other


def test_a_program_that_ends_takes_its_cluster_along(folder):
    path = support.script(
        folder,
        """
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, connect=True)
cluster.add_node(num_cpus=2)
import ray
print(ray.cluster_resources()["CPU"])
""",
    )
    done = support.run_driver(path)
    assert done.returncode == 0 and done.stdout == "3.0\n", done.stderr
    assert support.processes() == [] and support.sessions() == []
    assert support.redis_processes() == []


KILLED = """
import os, signal, sys, time
import ray
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
if sys.argv[1] == "connects":
    cluster.connect()
    ray.get(ray.remote(lambda: 1).remote())
if sys.argv[1] == "forks" and os.fork() == 0:
    time.sleep(300)
    os._exit(0)
if sys.argv[1] == "headless":
    cluster.head_node.kill_raylet()
print("there", flush=True)
if sys.argv[1] == "starts":
    cluster.add_node(num_cpus=1)
time.sleep(300)
"""


@pytest.mark.parametrize("how", ["waits", "connects", "forks", "headless", "starts"])
def test_nothing_is_left_of_a_program_that_is_killed(how):
    program = subprocess.Popen(
        [sys.executable, "-c", KILLED, how],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert program.stdout.readline() == "there\n"
        assert len(sessions.live_nodes()) == (1 if how == "headless" else 2)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        assert support.wait_until(
            lambda: (
                sessions.live_nodes() == []
                and support.sessions() == []
                and support.redis_processes() == []
                and support.redis_folders() == []
            ),
            60,
        )
    finally:
        with contextlib.suppress(ProcessLookupError):  # the process that it has forked
            os.killpg(program.pid, signal.SIGKILL)
        program.stdout.close()


def test_nodes_that_are_to_stay_do():
    code = KILLED.replace("Cluster(", "Cluster(shutdown_at_exit=False, ")
    program = subprocess.Popen(
        [sys.executable, "-c", code, "waits"], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout.readline() == "there\n"
    program.kill()
    program.wait()
    program.stdout.close()
    assert len(sessions.live_nodes()) == 2
