"""Strangers at a node's port, and garbage in the cluster's Redis: the daemon lives, goes on with its
work, and has no more memory or descriptors than before.
"""

import contextlib
import os
import random
import resource
import socket
import threading
import time

import clusters
import diallers
import drivers
import pytest
import support
from diallers import LIMIT, Dialler, identity

import ray
from ray._private import redis_server, sessions

pytestmark = [
    pytest.mark.one_path("the port and Redis; tasks only show that a node lives"),
    pytest.mark.skipif(
        not support.has_redis(), reason="there is no redis-server (scripts/setup.sh installs it)"
    ),
]
STRANGERS = 256  # at a time, src/net/port.h
PATIENCE = 5  # seconds, src/net/port.h
SPARE = 3 << 20  # bytes by which memory may differ


@pytest.fixture(scope="module")
def first():
    """A head, with a program of its own: this one."""
    assert sessions.live_nodes() == []
    node = clusters.head("--num-cpus=2")
    ray.init(address=node.address)
    yield node
    clusters.end_all()


def memory(node) -> int:
    with open(f"/proc/{node.pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def descriptors(node) -> int:
    return len(os.listdir(f"/proc/{node.pid}/fd"))


def lives(node):
    """Its program's tasks run, and it knows the nodes."""
    assert support.alive(node.pid)
    assert ray.get(support.echo.remote(7), timeout=20) == 7
    assert [row["NodeID"] for row in ray.nodes() if row["Alive"]] == [node.node_id]


def joins(node):
    """Another node comes, and goes again."""
    began = time.monotonic()
    other = clusters.join(node)
    assert time.monotonic() - began < 20
    clusters.await_all(node, other)
    assert drivers.command("stop", "--address", other.folder).returncode == 0
    clusters.await_all(node)


def survives(node, attack):
    """The attack, once to reach what it costs at most, and again for what it leaves behind."""
    attack()
    lives(node)
    quiet = descriptors(node)
    before = memory(node)
    attack()
    lives(node)
    assert support.wait_until(lambda: descriptors(node) <= quiet), os.listdir(
        f"/proc/{node.pid}/fd"
    )
    if not support.sanitized():
        assert memory(node) - before < SPARE
    joins(node)


def is_hung_up(node, bytes_, **how) -> bool:
    with Dialler(node, **how) as one:
        with contextlib.suppress(OSError):
            one.say(bytes_)
        return one.is_shut()


# ---- connections ----


def test_half_open_connections_by_the_thousand(first):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(3000, soft - 200)
    quiet = descriptors(first)

    def attack():
        with contextlib.ExitStack() as open_:
            for _ in range(count):
                open_.enter_context(Dialler(first))
            assert support.wait_until(lambda: descriptors(first) <= quiet + STRANGERS + 8)
            lives(first)
            joins(first)

    survives(first, attack)


def test_slow_strangers(first):
    """A byte now and then keeps nobody's place."""

    def attack():
        with contextlib.ExitStack() as open_:
            slow = [open_.enter_context(Dialler(first)) for _ in range(100)]
            began, bytes_ = time.monotonic(), diallers.greeting()
            for i in range(2 * PATIENCE):
                for one in slow:
                    with contextlib.suppress(OSError):
                        one.say(bytes_[i : i + 1])
                time.sleep(0.7)
            assert all(one.is_shut() for one in slow)
            assert time.monotonic() - began < 4 * PATIENCE

    survives(first, attack)


def test_those_who_come_and_go(first):
    def attack():
        for _ in range(2000):
            Dialler(first).close()

    survives(first, attack)


# ---- what they say ----


def test_garbage_of_all_sizes(first):
    rng = random.Random(7)

    def attack():
        for size in [1, 7, 8, 47, 48, 49, 127, 128, 176, 1000, 65536, 1 << 20]:
            with Dialler(first) as one:
                with contextlib.suppress(OSError):
                    one.say(rng.randbytes(size))
                    one.socket.shutdown(socket.SHUT_WR)
                assert one.hear(1) == b""  # a stranger hears nothing

    survives(first, attack)


def test_greetings_of_every_length(first):
    def attack():
        for size in range(2 * diallers.GREETING):
            with Dialler(first) as one:
                one.say((diallers.greeting() * 2)[:size])
                one.socket.shutdown(socket.SHUT_WR)
                heard = one.hear(diallers.GREETING + 1)
                assert len(heard) == (diallers.GREETING if size >= diallers.GREETING else 0)

    survives(first, attack)


def test_other_protocols(first):
    def attack():
        for words in [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".ljust(64, b"x"),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".ljust(64, b"\0"),
            b"*1\r\n$4\r\nPING\r\n".ljust(64, b"\n"),
            b"MOBULA\r\n".ljust(48, b"\xff"),
        ]:
            with Dialler(first) as one:
                one.say(words)
                assert len(one.hear(100)) in (0, diallers.GREETING)  # one of another version

    survives(first, attack)


# ---- proofs ----


def test_who_knows_the_token_is_let_in_and_others_are_not(first):
    with Dialler(first) as one:
        assert one.shake()[0] == diallers.WELCOME
    token = os.environ["RAY_AUTH_TOKEN"].encode()
    wrong = [b"", b"x", token[:-1], token + b"x", token + b"\0", token.upper(), b"x" * (1 << 20)]

    def attack():
        for other in wrong:
            with Dialler(first, token=other) as one:
                verdict, answer = one.shake()
                assert verdict == diallers.WRONG_TOKEN
                assert answer[4:] == bytes(len(answer) - 4)  # it has nothing to guess from
                assert one.is_shut()

    survives(first, attack)


def test_a_token_of_a_megabyte_in_a_file(first, folder):
    path = f"{folder}/token"
    with open(path, "w") as file:
        file.write("x" * (1 << 20))
    os.chmod(path, 0o600)
    env = {"RAY_AUTH_TOKEN": None, "RAY_AUTH_TOKEN_PATH": path}
    words = clusters.refused(f"--address={first.address}", **env)
    assert path in words and "xxxx" not in words
    lives(first)


def test_the_right_token_of_somebody_else(first):
    """Another version, cluster or node; each is told which."""
    cases = [
        (identity(version="0.0.0"), diallers.WRONG_VERSION),
        (identity(version="x" * 40), diallers.WRONG_VERSION),
        (identity(python=(2, 7)), diallers.WRONG_VERSION),
        (identity(purpose=0), diallers.WRONG_VERSION),
        (identity(purpose=255), diallers.WRONG_VERSION),
        (identity(cluster=12345), diallers.WRONG_CLUSTER),
        (identity(wanted=12345), diallers.WRONG_NODE),
        (identity(incarnation=0), diallers.WRONG_NODE),
        (identity(incarnation=int(first.node_id[:16], 16)), None),
    ]

    def attack():
        for who, verdict in cases:
            with Dialler(first) as one:
                found = one.shake(who)[0]
                assert verdict is None or found == verdict
                assert found == diallers.WELCOME or one.is_shut()
        for version in (0, 2, 1 << 31):
            with Dialler(first) as one:
                one.greet(diallers.greeting(version))
                assert one.is_shut()

    survives(first, attack)


def test_who_was_let_in_says_garbage(first):
    """Records without a right tag, or of a wrong size; and nothing at all."""
    rng = random.Random(8)

    def attack():
        for purpose in (diallers.FRAMES, diallers.BULK, diallers.JOIN):
            for size in (1, 20, 21, 1000, 70000):
                with Dialler(first) as one:
                    one.shake(identity(purpose=purpose, incarnation=rng.getrandbits(63)))
                    with contextlib.suppress(OSError):
                        one.say(rng.randbytes(size))
                        one.socket.shutdown(socket.SHUT_WR)
                    one.hear(100000)

    survives(first, attack)


# ---- what was heard of others ----


class Between:
    """Stands between a dialler and a node, and notes what the dialler says."""

    def __init__(self, node):
        self.node = node
        self.said = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.threads = [threading.Thread(target=self._run, daemon=True)]
        self.threads[0].start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                here, _ = self.server.accept()
                there = socket.create_connection(diallers.address_of(self.node))
                said = bytearray()
                self.said.append(said)
                for args in ((here, there, said), (there, here, None)):
                    self.threads.append(threading.Thread(target=self._pass, args=args, daemon=True))
                    self.threads[-1].start()

    def _pass(self, source, sink, noted):
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                if noted is not None:
                    noted += part
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()


def recorded(node) -> bytes:
    """What a node that joins says to this one until it is let in."""
    with Between(node) as between:
        other = clusters.start(f"--address={between.address}")
        clusters.await_all(node, other)
        assert drivers.command("stop", "--address", other.folder).returncode == 0
        clusters.await_all(node)
    return bytes(between.said[0])


def test_a_handshake_that_is_said_again(first):
    said = recorded(first)
    assert said.startswith(diallers.MAGIC) and len(said) >= diallers.GREETING + diallers.CLAIM

    def attack():
        for _ in range(50):
            with Dialler(first) as one:
                one.say(said)
                heard = one.hear(diallers.GREETING + diallers.ANSWER)[diallers.GREETING :]
                assert heard in (b"", heard[:1] + bytes(len(heard[1:])))
                assert heard[:1] in (b"", bytes([diallers.WRONG_TOKEN]))
                assert one.is_shut()

    survives(first, attack)


def test_a_handshake_that_is_cut_anywhere(first):
    said = recorded(first)[: diallers.GREETING + diallers.CLAIM]

    def attack():
        for size in range(len(said)):
            with Dialler(first) as one:
                one.say(said[:size])
                one.socket.shutdown(socket.SHUT_WR)
                assert one.hear(1000)[diallers.GREETING :] == b""

    survives(first, attack)


def test_a_proof_on_another_connection(first):
    """Even with the same greeting of the dialler's."""
    own, who = diallers.greeting(), identity()

    def attack():
        with Dialler(first) as one, Dialler(first) as other:
            proved = diallers.proof(one.secret, "dialler", one.greet(own), who)
            assert other.shake(who, proved, own)[0] == diallers.WRONG_TOKEN
            one.say(who + proved)
            assert len(one.hear(diallers.ANSWER)) == diallers.ANSWER

    survives(first, attack)


def test_what_the_node_says_sent_back_to_it(first):
    """Its greeting, and the proof of an acceptor as a dialler's."""

    def attack():
        with Dialler(first) as one, Dialler(first) as other:
            greetings = one.greet()
            assert other.shake(own=greetings[diallers.GREETING :])[0] == diallers.WELCOME
            who = identity()
            label = diallers.proof(one.secret, "acceptor", greetings, who)
            one.say(who + label)
            assert one.hear(4) == bytes([diallers.WRONG_TOKEN, 0, 0, 0])
        with Dialler(first) as one, Dialler(first) as other:
            # one's answer as other's claim
            _, answer = one.shake()
            assert other.shake(answer[4:-32], answer[-32:])[0] == diallers.WRONG_TOKEN

    survives(first, attack)


def test_changed_claims(first):
    """One bit of it is another."""
    rng = random.Random(9)

    def attack():
        for _ in range(300):
            with Dialler(first) as one:
                greetings, who = one.greet(), identity()
                claim = bytearray(who + diallers.proof(one.secret, "dialler", greetings, who))
                bit = rng.randrange(8 * len(claim))
                claim[bit // 8] ^= 1 << bit % 8
                one.say(claim)
                assert one.hear(1) == bytes([diallers.WRONG_TOKEN])

    survives(first, attack)


# ---- garbage in Redis ----


class Redis:
    """The cluster's, by whoever knows its password."""

    def __init__(self, node):
        server = redis_server.of_cluster(node.cluster)
        self._link = socket.create_connection((server.host, server.port), timeout=LIMIT)
        self._answers = self._link.makefile("rb")
        self.ask("AUTH", server.password)

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        said = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self._link.sendall(b"*%d\r\n" % len(words) + said)
        return self._answer()

    def _answer(self):
        line = self._answers.readline()
        if line[:1] == b"$":
            size = int(line[1:])
            return None if size < 0 else self._answers.read(size + 2)[:-2]
        if line[:1] == b"*":
            return [self._answer() for _ in range(int(line[1:]))]
        assert line[:1] != b"-", line
        return line[1:-2]

    def keys(self, what) -> list:
        return [key.decode() for key in self.ask("KEYS", f"*:{what}*")]

    def close(self):
        self._answers.close()
        self._link.close()


@pytest.fixture
def two(first):
    """Another node beside it, and their Redis."""
    other = clusters.join(first)
    clusters.await_all(first, other)
    with contextlib.closing(Redis(first)) as redis:
        yield other, redis
    drivers.command("stop", "--address", other.folder)
    clusters.await_all(first)


def noted(word, *nodes) -> bool:
    """In the file cluster.log of one of them."""
    for node in nodes:
        with open(f"{node.folder}/cluster.log") as file:
            if word in file.read():
                return True
    return False


SIZES = [0, 1, 7, 9, 100, 5000, 1 << 20]


def both_live(*nodes):
    assert all(support.alive(node.pid) for node in nodes)
    assert ray.get(support.echo.remote(7), timeout=20) == 7


@pytest.mark.parametrize("what", ["m/count", "m/era", "m/fence", "m/lead"])
def test_garbage_in_what_membership_keeps(first, two, what):
    other, redis = two
    (key,) = redis.keys(what)
    rng = random.Random(11)
    for size in SIZES:
        redis.ask("SET", key, rng.randbytes(size))
        time.sleep(0.3)
        both_live(first, other)
    assert support.wait_until(lambda: noted(f"the value of {what}", first, other))
    redis.ask("DEL", key)
    clusters.await_all(first, other)
    redis.ask("DEL", key)
    redis.ask("LPUSH", key, "a list")
    assert support.wait_until(lambda: noted(f"the key {key}", first, other))
    both_live(first, other)
    redis.ask("DEL", key)
    clusters.await_all(first, other)
    third = clusters.join(first)
    clusters.await_all(first, other, third)
    assert drivers.command("stop", "--address", third.folder).returncode == 0


def test_garbage_in_what_a_node_is(first, two):
    """The node goes on when its record is as it was: without one it would end."""
    other, redis = two
    (key,) = redis.keys(f"m/n/{other.node_id}")
    record = redis.ask("GET", key)
    for size in SIZES:
        redis.ask("SET", key, os.urandom(size))
        time.sleep(0.3)
        both_live(first, other)
    assert support.wait_until(lambda: noted(f"the value of m/n/{other.node_id}", first, other))
    redis.ask("SET", key, record)
    third = clusters.join(first)
    clusters.await_all(first, other, third)
    assert drivers.command("stop", "--address", third.folder).returncode == 0


@ray.remote
class Named:
    def where(self):
        return ray.get_runtime_context().get_node_id()


def test_garbage_in_names_and_copies(first, two):
    other, redis = two
    actor = Named.options(name="named", lifetime="detached").remote()
    assert ray.get(actor.where.remote())
    spread = ray.remote(lambda size: bytes(size)).options(scheduling_strategy="SPREAD")
    refs = [spread.remote(1 << 20) for _ in range(6)]
    ray.wait(refs, num_returns=len(refs))
    keys = redis.keys("an/")
    assert keys
    keys += redis.keys("pull") + redis.keys("m/l/")
    for size in SIZES:
        for key in keys:
            redis.ask("SET", key, os.urandom(size))
        time.sleep(0.6)
        both_live(first, other)
        assert ray.get(ray.get_actor("named").where.remote(), timeout=20)
        assert all(len(value) == 1 << 20 for value in ray.get(refs, timeout=20))
    for key in keys:
        redis.ask("DEL", key)
    clusters.await_all(first, other)
    ray.kill(actor)
