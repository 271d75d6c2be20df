"""A client that writes rubbish into shared memory harms itself, perhaps its user's other clients,
never the daemon.

The layout is that of src/shm/node.h and src/shm/ring.h: two rings in a segment of each client's
own, and what all have.
"""

import random
import re
from pathlib import Path

import pytest
import support
from support import Counter, echo

import ray
from ray.exceptions import WorkerCrashedError

pytestmark = pytest.mark.usefixtures("cluster")

SOURCE = Path(__file__).resolve().parents[2] / "src"


def kinds_of_messages() -> dict:
    """Number and name of every message from a client to the daemon."""
    lines = (SOURCE / "wire" / "message.h").read_text().partition("/* client to daemon */")[2]
    names = re.findall(
        r"^    WIRE_(\w+)(?: = 1)?,", lines.partition("/* daemon to client */")[0], re.MULTILINE
    )
    assert names[0] == "SUBMIT" and names[-1] == "UP_END"
    return dict(enumerate(names, 1))


NAMES = kinds_of_messages()
# Anybody may kill an actor who can name it. 0 and UP_END are no message.
KINDS = [0, *(kind for kind, name in NAMES.items() if name != "KILL")]
RING = int(re.search(r"SHM_UP_MESSAGES = (\d+)", (SOURCE / "shm" / "node.h").read_text())[1])


@ray.remote
def say(text):
    print(text)


@pytest.fixture(autouse=True)
def unharmed(cluster, capsys):
    daemon = support.daemon_pid()
    counter, ref, big = Counter.remote(), ray.put([1]), ray.put(b"x" * 1_000_000)
    nested = ray.put([ref])
    assert ray.get(counter.add.remote()) == 1
    yield
    assert support.alive(daemon)
    assert ray.get(counter.add.remote(), timeout=30) == 2
    assert ray.get(echo.remote(ref), timeout=30) == [1]
    assert ray.get(ray.get(nested)[0]) == [1]
    assert ray.get(echo.remote(big), timeout=30) == b"x" * 1_000_000
    assert support.wait_until(lambda: ray.available_resources().get("CPU") == 4)
    # The daemon tells of every client that it closes. Once this is here, all of that is here, and
    # in this test's hands.
    ray.get(say.remote("the end of it"), timeout=30)
    assert support.wait_until(lambda: "the end of it" in capsys.readouterr().out)


@ray.remote(max_retries=0)
def attack(messages, tail=None, head=None, patience=0.01, ring_size=RING):
    """Pushes these messages (kind, a, b, c, d) to the daemon, moves the indices if asked to, rings,
    and dies.
    """
    import ctypes
    import os
    import struct
    import time

    import ray

    places = {}
    with open("/proc/self/maps") as file:
        for line in file:
            if "memfd:mobula-" in line and " rw-s " in line:
                places[line.split("mobula-")[1].split()[0]] = int(line.split("-")[0], 16)
    ring, node = places["client"], places["node"]
    ring_head = ctypes.c_uint64.from_address(ring)
    ring_tail = ctypes.c_uint64.from_address(ring + 64)
    for message in messages:
        data = struct.pack("<IIQQQ", *message)
        ctypes.memmove(ring + 128 + ring_tail.value % ring_size * 32, data, 32)
        ring_tail.value += 1
    if tail is not None:
        ring_tail.value = tail
    if head is not None:
        ring_head.value = head
    number = ray._private.worker._core.session()["number"]
    word = ctypes.c_uint64.from_address(node + 64 + number // 64 * 8)
    word.value |= 1 << number % 64
    for fd in os.listdir("/proc/self/fd"):
        try:
            if "eventfd" in os.readlink(f"/proc/self/fd/{fd}"):
                os.write(int(fd), struct.pack("<Q", 1))
        except OSError:
            pass
    time.sleep(patience)
    os._exit(0)


def expect_death(ref):
    with pytest.raises(WorkerCrashedError):
        ray.get(ref, timeout=40)


def test_the_attack_is_noticed_and_told():
    with pytest.raises(WorkerCrashedError, match="killed because"):
        ray.get(attack.remote([(4711, 1, 1, 1, 1)], patience=30), timeout=40)


def some_number(generator, bits):
    """Mostly such as might name something, sometimes such as never could."""
    high = (1 << bits) - 1
    return generator.choice(
        [
            0,
            1,
            generator.randrange(2, 64),
            generator.randrange(2, 5000),
            1 << generator.randrange(bits),
            high,
            high - generator.randrange(100),
            generator.getrandbits(bits),
        ]
    )


def some_message(generator):
    kind = generator.choice(KINDS) if generator.random() < 0.95 else generator.getrandbits(32)
    return (kind, some_number(generator, 32), *(some_number(generator, 64) for _ in range(3)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: NAMES.get(kind, str(kind)))
def test_every_kind_of_message_with_senseless_numbers(kind):
    generator = random.Random(kind)
    for a in (0, 5, 0xFFFFFFFF):
        expect_death(attack.remote([(kind, a, *(some_number(generator, 64) for _ in range(3)))]))


@pytest.mark.parametrize("seed", range(8))
def test_random_messages(seed):
    generator = random.Random(seed)
    refs = [
        attack.remote([some_message(generator) for _ in range(generator.randrange(1, 40))])
        for _ in range(10)
    ]
    for ref in refs:
        expect_death(ref)


@pytest.mark.parametrize("tail", [0, 1, RING + 1000, 1 << 32, (1 << 63), (1 << 64) - 1])
def test_impossible_indices(tail):
    expect_death(attack.remote([], tail=tail))
    expect_death(attack.remote([], head=tail))
    expect_death(attack.remote([(6, 1, 1, 0, 0)] * 10, tail=tail, head=tail))


ASKED = [
    "NEED_SLOTS",
    "NEED_RECORDS",
    "NEED_EXTENT",
    "QUERY",
    "SHAPE",
    "SITE",
    "NEED_CALLS",
    "RESTORE",
]


@pytest.mark.parametrize(
    "kind", [kind for kind, name in NAMES.items() if name in ASKED], ids=NAMES.get
)
def test_more_requests_than_there_is_room_for_answers(kind):
    expect_death(attack.remote([(kind, 1, 4096, 0, 64)] * 2000))


SCRIBBLE = """
import ctypes, os, random, ray, signal, sys, time
ray.init(num_cpus=2)
daemon = ray._private.worker._core.session()["daemon_pid"]
@ray.remote
def quick(x): return x
kept = [ray.put([ray.put(i)]) for i in range(50)] + [quick.remote(i) for i in range(50)]
ray.get(kept)
@ray.remote(max_retries=0)
def scribble(seed, names):
    generator = random.Random(seed)
    for line in open("/proc/self/maps"):
        if " rw-s " in line and any("mobula-" + name in line for name in names):
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            size = min(end - begin, 1 << 16)
            for _ in range(2000):
                odd = [0, 1, 2, 3, 12, 255, 1 << 31, (1 << 64) - 1, generator.getrandbits(64)]
                value = generator.choice(odd)
                ctypes.c_uint64.from_address(begin + generator.randrange(size // 8) * 8).value = value
    time.sleep(0.05)
    os._exit(0)
ref = scribble.remote(int(sys.argv[1]), sys.argv[2].split(","))
time.sleep(0.4)
signal.alarm(3)
for _ in range(20):  # whatever this one does now, and even if it dies of it, is its own business
    try:
        ray.wait([quick.remote(1)], timeout=0.02)
        kept.pop()
    except Exception:
        pass
state = open("/proc/%d/stat" % daemon).read().rpartition(")")[2].split()[0]
os.write(1, ("daemon " + state).encode())
os._exit(0)
"""


@pytest.mark.parametrize(
    "names",
    [
        "slots",
        "records",
        "extents",
        "arena",
        "queues",
        "node",
        "slots,records,extents,arena,queues,client",
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_rubbish_all_over_the_shared_tables(folder, names, seed):
    path = support.script(folder, SCRIBBLE)
    result = support.run_driver(path, seed, names)
    # The driver may have died of it, or have been disconnected for what it then said; the daemon
    # must not have died: it says so, or it has cleaned up after that driver.
    if result.returncode == 0 and "it was disconnected" not in result.stderr:
        assert result.stdout.startswith("daemon ") and result.stdout[-1] not in "ZX", result.stderr
    assert support.wait_until(lambda: not support.strangers())
    assert support.wait_until(lambda: len(support.sessions()) == 1), (
        "the daemon died without cleaning up"
    )
