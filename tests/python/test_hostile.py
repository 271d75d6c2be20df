"""Rubbish on the daemon's socket closes that connection only; everybody else's work goes on."""

import array
import os
import random
import socket
import struct
import time

import pytest
import support
from support import Counter, echo

import ray

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.one_path("the socket of the daemon, before anybody is its client"),
]

MAGIC, VERSION = 0x4D4F4255, 2
HELLO, WELCOME, FORK, READY, ASK = 1, 2, 6, 8, 10
DRIVER, WORKER, ZYGOTE, OBSERVER = 1, 2, 3, 4


@pytest.fixture(autouse=True)
def unharmed(cluster):
    """State from before the attack is there after it, and the daemon is the same process."""
    daemon = support.daemon_pid()
    counter, ref = Counter.remote(), ray.put([1])
    assert ray.get(counter.add.remote()) == 1
    yield
    assert support.alive(daemon)
    assert ray.get(counter.add.remote(), timeout=30) == 2
    assert ray.get(echo.remote(ref), timeout=30) == [1]


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # before the timeout: without one, it waits for its turn
    connection.connect(ray.nodes()[0]["RayletSocketName"])
    connection.settimeout(20)
    return connection


def is_closed(connection):
    """Whether the daemon has closed it; what it said before does not matter."""
    try:
        while connection.recv(1 << 17):
            pass
    except (ConnectionError, BrokenPipeError):
        pass
    except TimeoutError:
        return False
    return True


def hello(version=VERSION, role=DRIVER, token=0, magic=MAGIC, kind=HELLO):
    return support.hello(role, token, magic, kind, version)


RUBBISH = {
    "nothing but a byte": b"\0",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "long": b"A" * 65536,
    "wrong magic": hello(magic=MAGIC ^ 1),
    "wrong version": hello(version=999),
    "wrong role": hello(role=77),
    "wrong kind": hello(kind=4711),
    "welcome to the daemon": hello(kind=WELCOME),
    "fork": hello(kind=FORK),
    "a worker nobody asked for": hello(role=WORKER, token=12345),
    "a zygote nobody asked for": hello(role=ZYGOTE, token=12345),
    "short hello": hello()[:12],
    "long hello": hello(role=WORKER) + b"x" * 1000,
    "frame only": struct.pack("<II", MAGIC, HELLO),
}


@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_as_the_first_word(name):
    connection = connect()
    try:
        connection.send(RUBBISH[name])
    except BrokenPipeError:
        pass
    assert is_closed(connection), "the daemon keeps a client that it can not understand"
    connection.close()


def test_random_bytes():
    generator = random.Random(5)
    for _ in range(200):
        connection = connect()
        try:
            for _ in range(generator.randrange(1, 4)):
                data = generator.randbytes(generator.randrange(1, 300))
                if generator.random() < 0.5:
                    data = struct.pack("<II", MAGIC, generator.randrange(0, 12)) + data
                connection.send(data)
        except (BrokenPipeError, ConnectionError):
            pass
        connection.close()


def ask(query, argument, kind=ASK, magic=MAGIC):
    return struct.pack("<IIIIQ", magic, kind, query, 0, argument)


@pytest.mark.parametrize(
    "frame",
    [
        b"x",
        bytes(24),
        ask(1, 0, kind=FORK),
        ask(1, 0, magic=7),
        ask(1, 0)[:20],
        ask(1, 0) + b"x",
        b"A" * 65536,
    ],
    ids=["byte", "zeros", "kind", "magic", "short", "long", "very long"],
)
def test_rubbish_from_one_who_only_looks(frame):
    connection = connect()
    connection.send(hello(role=OBSERVER))
    connection.send(frame)
    assert is_closed(connection)
    connection.close()


def test_questions_without_sense():
    generator = random.Random(6)
    for _ in range(300):
        connection = connect()
        connection.send(hello(role=OBSERVER))
        query = generator.choice([generator.randrange(20), generator.getrandbits(32)])
        connection.send(
            ask(query, generator.choice([0, 1, 7, generator.getrandbits(64), (1 << 64) - 1]))
        )
        if generator.random() < 0.7:  # else it is gone before its answer is
            assert connection.recv(1 << 17)
        connection.close()


def test_descriptors_that_nobody_asked_for():
    def count():
        return len(os.listdir(f"/proc/{support.daemon_pid()}/fd"))

    before = count()
    for _ in range(50):
        connection = connect()
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        try:
            connection.sendmsg([b"take these"], rights)
            connection.sendmsg([hello()], rights)
        except (BrokenPipeError, ConnectionError):
            pass
        for file in files:
            os.close(file)
        connection.close()
    assert support.wait_until(lambda: count() <= before + 5), (before, count())


def test_silent_connections():
    connections = [connect() for _ in range(100)]
    assert ray.get([echo.remote(i) for i in range(20)], timeout=30) == list(range(20))
    for connection in connections:
        connection.close()
    assert ray.get(echo.remote(1), timeout=30) == 1


def test_connections_that_go_at_once():
    for _ in range(300):
        connect().close()


def test_a_full_send_queue_of_a_client_that_never_reads():
    connection = connect()
    connection.setblocking(False)
    try:
        for _ in range(1000):
            connection.send(hello())
    except (BlockingIOError, BrokenPipeError, ConnectionError):
        pass
    assert ray.get(echo.remote(1), timeout=30) == 1
    connection.close()


def test_wrong_kinds_of_sockets():
    path = ray.nodes()[0]["RayletSocketName"]
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as connection, pytest.raises(OSError):
            connection.connect(path)


def test_the_socket_is_for_its_user_only():
    path = ray.nodes()[0]["RayletSocketName"]
    for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        assert os.stat(folder).st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_refused(folder):
    """Even if the folders were open, the daemon asks who is there."""
    path = ray.nodes()[0]["RayletSocketName"]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folders = [os.path.dirname(path), os.path.dirname(os.path.dirname(path)), support.run_folder()]
    modes = [(name, os.stat(name).st_mode & 0o7777) for name in [*folders, path]]
    try:
        for name, _ in modes:
            os.chmod(name, 0o777)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setuid(65534)
                connection.connect(path)
                connection.settimeout(20)
                try:
                    connection.send(hello())
                except ConnectionError:
                    pass
                data = b""
                try:
                    data = connection.recv(65536)
                except ConnectionError:
                    pass
                welcome = len(data) >= 8 and struct.unpack("<II", data[:8]) == (MAGIC, WELCOME)
                status = 2 if welcome else 0
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        for name, mode in modes:
            os.chmod(name, mode)
        connection.close()


def test_a_worker_that_closes_its_socket_is_dead_to_us():
    """A worker whose connection is gone may not go on: its task is run again elsewhere."""

    @ray.remote(max_retries=2)
    def disconnect(path):
        if not os.path.exists(path):
            support.touch(path)
            import stat

            for fd in range(3, 100):
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        os.close(fd)
                except OSError:
                    pass
            time.sleep(30)
        return "again"

    path = os.path.join(support.run_folder(), f"tried-{time.monotonic_ns()}")
    assert ray.get(disconnect.remote(path), timeout=40) == "again"
