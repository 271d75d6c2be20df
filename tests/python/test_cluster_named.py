"""Names of actors while Redis, which has them, is away: who waits, and who goes on."""

import threading

import clusters
import pytest
import support

import ray
from ray.cluster_utils import Cluster
from ray.exceptions import GetTimeoutError

pytestmark = [
    pytest.mark.one_path("the daemon is asked for names in any case"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
LIMIT = 60


no_nodes = clusters.none_left


@pytest.fixture
def cluster():
    made = Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 2})
    yield made
    ray.shutdown()
    made.shutdown()


@ray.remote(num_cpus=0)
class Actor:
    def one(self):
        return 1


@ray.remote
def echo(x):
    return x


class Busy(threading.Thread):
    """Uses the session, over and over, until it is told to end."""

    def __init__(self):
        super().__init__()
        self.rounds = 0
        self.goes = True

    def run(self):
        while self.goes:
            assert ray.get(echo.remote(ray.put(self.rounds)), timeout=LIMIT) == self.rounds
            self.rounds += 1


@pytest.fixture
def busy():
    thread = Busy()
    thread.start()
    yield thread
    thread.goes = False
    thread.join()


@pytest.mark.parametrize("what", ["make", "find"])
def test_other_threads_go_on(cluster, busy, what):
    ask = {
        "make": lambda: Actor.options(name="one").remote(),
        "find": lambda: ray.get_actor("one"),
    }[what]
    assert support.wait_until(lambda: busy.rounds > 10)
    cluster.head_node.kill_gcs_server()
    before = busy.rounds
    with pytest.raises(GetTimeoutError, match="Redis"):
        ask()
    assert busy.rounds > before + 100, "it went on for the five seconds"
    cluster.head_node.start_gcs_server()


def test_the_name_is_had_when_redis_is_back(cluster, busy):
    cluster.head_node.kill_gcs_server()
    made = []
    maker = threading.Thread(target=lambda: made.append(Actor.options(name="one").remote()))
    maker.start()
    before = busy.rounds
    assert support.wait_until(lambda: busy.rounds > before + 20)
    assert not made
    cluster.head_node.start_gcs_server()
    maker.join(LIMIT)
    assert ray.get(made[0].one.remote(), timeout=LIMIT) == 1
    assert ray.get(ray.get_actor("one").one.remote(), timeout=LIMIT) == 1


def test_many_threads_want_one_name(cluster):
    def make():
        try:
            made.append(Actor.options(name="one").remote())
        except ValueError as error:
            refused.append(str(error))

    made, refused = [], []
    makers = [threading.Thread(target=make) for _ in range(20)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(LIMIT)
    assert len(made) == 1 and len(refused) == 19
    assert ray.get(ray.get_actor("one").one.remote(), timeout=LIMIT) == 1
