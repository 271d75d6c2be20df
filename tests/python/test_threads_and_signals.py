"""A driver with several threads, and what Ctrl-C does."""

import signal
import threading
import time

import pytest
import support
from support import Counter

import ray


@ray.remote
def add(a, b):
    return a + b


def in_threads(count, work):
    """Runs work(i) in so many threads; raises what any of them raised."""
    results, errors = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_calls_from_many_threads(start):
    start(num_cpus=2)

    def work(i):
        total = 0
        for j in range(100):
            total += ray.get(add.remote(i, j))
            ref = ray.put([i, j])
            assert ray.get(ref) == [i, j]
        ready, rest = ray.wait([add.remote(i, 1) for _ in range(10)], num_returns=10)
        assert len(ready) == 10 and rest == []
        return total

    assert in_threads(8, work) == [100 * i + sum(range(100)) for i in range(8)]


def test_one_ref_got_by_many_threads(start, folder):
    start(num_cpus=2)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return [1]

    ref = late.remote()
    timer = threading.Timer(0.1, support.touch, (f"{folder}/go",))
    timer.start()
    assert in_threads(10, lambda i: ray.get(ref)) == [[1]] * 10
    timer.join()


def test_one_actor_called_by_many_threads(start):
    start(num_cpus=2)
    counter = Counter.remote()
    in_threads(6, lambda i: [ray.get(counter.add.remote()) for _ in range(50)])
    assert ray.get(counter.add.remote()) == 301


def test_the_first_calls_come_from_many_threads(start):
    """Nobody has called init, and each thread wants the system at once."""

    @ray.remote
    def fresh(i):
        return i

    assert in_threads(8, lambda i: ray.get(fresh.remote(i))) == list(range(8))
    assert len(ray.nodes()) == 1


def test_a_blocked_get_leaves_the_other_threads_alone(start, folder):
    start(num_cpus=2)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return 1

    ref = late.remote()
    found = []
    thread = threading.Thread(target=lambda: found.append(ray.get(ref)))
    thread.start()
    count = sum(1 for _ in range(1000))
    assert ray.get(add.remote(1, count)) == 1001
    support.touch(f"{folder}/go")
    thread.join(30)
    assert found == [1]


OTHER_THREADS = """
import ray, sys, threading, time
ray.init(num_cpus=1)
@ray.remote
def endless():
    time.sleep(1000)
@ray.remote
def quick(x):
    return x
ref = endless.remote()
def wait(call):
    try:
        while True:
            call()
    except ray.exceptions.RayError as error:
        ended.append(error)
    except (RuntimeError, ValueError) as error:
        ended.append(error)
ended = []
free = quick.options(num_cpus=0)
calls = [lambda: ray.get(ref), lambda: ray.wait([ref]), lambda: free.remote([1]), lambda: ray.put([1])]
threads = [threading.Thread(target=wait, args=(call,), daemon=True) for call in calls[%s]]
for thread in threads:
    thread.start()
time.sleep(0.3)
%s
"""


@pytest.mark.parametrize("calls", ["0:1", "1:2", "0:2"], ids=["get", "wait", "both"])
def test_a_shutdown_ends_a_get_in_another_thread(folder, calls):
    end = (
        "ray.shutdown()\nfor thread in threads: thread.join(20)\nprint(len(ended) == len(threads))"
    )
    result = support.run_driver(support.script(folder, OTHER_THREADS % (calls, end)))
    assert (result.returncode, result.stdout) == (0, "True\n"), result.stderr


@pytest.mark.parametrize("calls", ["0:2", "3:4", "2:4"], ids=["waiting", "putting", "calling"])
def test_a_driver_may_end_while_threads_are_in_calls(folder, calls):
    result = support.run_driver(support.script(folder, OTHER_THREADS % (calls, "print('end')")))
    assert (result.returncode, result.stdout) == (0, "end\n"), result.stderr
    assert "Fatal" not in result.stderr


def test_a_daemon_thread_in_get_says_nothing_at_the_end(folder):
    code = """
import ray, threading, time
ray.init(num_cpus=1)
@ray.remote
def endless():
    time.sleep(1000)
ref = endless.remote()
threads = [threading.Thread(target=call, args=([ref],), daemon=True) for call in (ray.get, ray.wait)]
for thread in threads:
    thread.start()
time.sleep(0.3)  # both are in their calls, or just about to be: the end is the same
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_dropping_refs_in_other_threads(start):
    start(num_cpus=1, object_store_memory=128 << 20)
    before = support.store_free()
    refs = [ray.put(b"x" * 1_000_000) for _ in range(40)]
    batches = [refs[i::4] for i in range(4)]
    del refs
    in_threads(4, lambda i: batches[i].clear())
    assert support.wait_until(lambda: support.store_free() >= before - (4 << 20))


BLOCKED = """
import ray, sys, time
ray.init(num_cpus=2)
@ray.remote
def endless():
    time.sleep(1000)
@ray.remote
def quick(x):
    return x
ref = endless.remote()
ray.get(quick.remote(1))
try:
    print("ready", flush=True)
    %s
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(ray.get(quick.remote(2), timeout=30), flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "ray.get(ref)",
        "ray.get([quick.remote(1), ref])",
        "ray.wait([ref])",
        "ray.wait([ref], timeout=900)",
    ],
    ids=["get", "get list", "wait", "wait timeout"],
)
def test_ctrl_c_interrupts_at_once(folder, call):
    driver = support.start_driver(support.script(folder, BLOCKED % call))
    try:
        assert driver.stdout.readline() == "ready\n"
        time.sleep(0.3)
        begin = time.monotonic()
        driver.send_signal(signal.SIGINT)
        assert driver.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < 15
        assert driver.stdout.readline() == "2\n"  # and the session is as good as before
        out, err = driver.communicate(timeout=20)
        assert driver.returncode == 0, err
    finally:
        driver.kill()
        driver.communicate()


def test_ctrl_c_in_the_terminal_reaches_the_driver_only(folder):
    """A terminal sends SIGINT to the whole group: workers and daemon must not take it as theirs."""
    code = """
import os, ray, signal, sys, time
ray.init(num_cpus=2)
@ray.remote
class Counter:
    def __init__(self): self.value = 0
    def add(self): self.value += 1; return self.value
@ray.remote
def slow():
    time.sleep(1)
    return "whole"
counter = Counter.remote()
ray.get(counter.add.remote())
ref = slow.remote()
time.sleep(0.2)
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    pass
print(ray.get(ref, timeout=30), ray.get(counter.add.remote(), timeout=30))
"""
    driver = support.start_driver(support.script(folder, code), start_new_session=True)
    out, err = driver.communicate(timeout=40)
    assert out.split() == ["whole", "2"], err
    assert err == ""


def test_uncaught_ctrl_c_ends_everything(folder):
    driver = support.start_driver(
        support.script(
            folder, BLOCKED.partition("try:")[0] + "print('ready', flush=True)\nray.get(ref)\n"
        )
    )
    try:
        assert driver.stdout.readline() == "ready\n"
        time.sleep(0.2)
        driver.send_signal(signal.SIGINT)
        _, err = driver.communicate(timeout=20)
        assert "KeyboardInterrupt" in err and driver.returncode != 0
    finally:
        driver.kill()
        driver.communicate()
    assert support.wait_until(lambda: not support.processes())


def test_signal_handlers_of_the_driver_run_during_get(start, folder):
    start(num_cpus=1)

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/go")
        return 5

    ran = []

    def handler(number, frame):
        ran.append(number)
        support.touch(f"{folder}/go")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        timer = threading.Timer(
            0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        )
        timer.start()
        # a handler that returns does not end the wait
        assert ray.get(late.remote(), timeout=40) == 5
        timer.join()
        assert ran == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signals_do_not_shorten_a_timeout(start):
    start(num_cpus=1)

    @ray.remote
    def endless():
        time.sleep(1000)

    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        timers = [
            threading.Timer(
                t / 20, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            )
            for t in range(1, 6)
        ]
        for timer in timers:
            timer.start()
        begin = time.monotonic()
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(endless.remote(), timeout=0.6)
        assert 0.59 <= time.monotonic() - begin < 10
        for timer in timers:
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_init_leaves_the_drivers_signals_alone(start):
    before = [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    ]
    start(num_cpus=1)
    ray.get(add.remote(1, 1))
    assert [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    ] == before


def test_tasks_have_ordinary_signals(start):
    start(num_cpus=1)

    @ray.remote
    def own_alarm():
        import signal

        rang = []
        signal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(0.5)
        return len(rang), signal.pthread_sigmask(signal.SIG_BLOCK, [])

    assert ray.get(own_alarm.remote()) == (1, set())


@pytest.mark.parametrize("size", [0, 20_000, 3_000_000])
def test_the_session_ends_while_a_thread_unpickles(folder, size):
    code = f"""
import os, threading, time
import ray

class Reduced:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call

reading, writing = os.pipe()
ray.init(num_cpus=1)
told = Reduced(os.write, (writing, b"x"))
ref = ray.put([told, Reduced(time.sleep, (0.4,)), "x" * {size}, Reduced(int, ())])
thread = threading.Thread(target=lambda: print(len(ray.get(ref))))
thread.start()
os.read(reading, 1)  # it has begun
ray.shutdown()
thread.join()
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.returncode) == ("4\n", 0), result.stderr


def test_the_program_ends_while_a_thread_unpickles(folder):
    code = """
import threading
from fractions import Fraction
import ray
ray.init(num_cpus=1)
ref = ray.put([Fraction(i, 7) for i in range(20_000)])
begun = threading.Event()

def load():
    while True:
        ray.get(ref)
        begun.set()

threading.Thread(target=load, daemon=True).start()
begun.wait()
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.returncode, result.stderr) == (0, ""), result.stderr


def test_a_thread_that_calls_at_the_end_lets_its_locks_go(folder):
    """Exit functions that were registered before ours wait for them: logging's does."""
    code = """
import logging, threading, time
import ray
ray.init(num_cpus=1)

@ray.remote
class Sink:
    def log(self, text):
        return len(text)

sink = Sink.remote()

class Handler(logging.Handler):
    def emit(self, record):
        ray.get(sink.log.remote(record.getMessage()))
        said.set()

said = threading.Event()
log = logging.getLogger("sink")
log.addHandler(Handler())
log.setLevel("INFO")
log.propagate = False

def work():
    while True:
        log.info("hello")

threading.Thread(target=work, daemon=True).start()
said.wait()
print("done")
"""
    result = support.run_driver(support.script(folder, code), timeout=30)
    assert (result.stdout, result.returncode, result.stderr) == ("done\n", 0, ""), result.stderr


def test_a_handler_that_ends_the_session_while_a_put_waits_for_room(folder):
    code = """
import signal
import numpy as np
import ray
ray.init(num_cpus=1, object_store_memory=80 << 20)
views = [ray.get(ray.put(np.zeros(8 << 20, "u1"))) for _ in range(8)]  # in use: they can't go to disk
signal.signal(signal.SIGALRM, lambda number, frame: ray.shutdown())
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    ray.put(np.zeros(30 << 20, "u1"))
except ray.exceptions.RaySystemError as error:
    print("ended" in str(error))
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.returncode) == ("True\n", 0), result.stderr


def test_a_handler_that_starts_another_session_while_a_get_waits(folder):
    """The new session's objects have the same numbers."""
    code = """
import signal, time
import ray
ray.init(num_cpus=1)

@ray.remote
def old():
    time.sleep(30)
    return "old"

@ray.remote
def new():
    return "new"

kept = []

def restart(number, frame):
    ray.shutdown()
    ray.init(num_cpus=1)
    kept.extend(new.remote() for _ in range(5))

signal.signal(signal.SIGALRM, restart)
for get in (lambda ref: ray.get(ref), lambda ref: ray.get([ref])):
    ref = old.remote()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        print(get(ref))
    except ray.exceptions.RaySystemError as error:
        print("ended" in str(error))
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.returncode) == ("True\nTrue\n", 0), result.stderr


def test_an_event_loop_of_another_thread_at_the_programs_end(folder):
    """Its tasks are left where they are, without a word."""
    code = """
import asyncio, threading, time
import ray
ray.init(num_cpus=1)

@ray.remote
def one():
    return 1

async def work():
    while True:
        await one.remote()

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(work(), loop)
time.sleep(0.3)
print("done")
"""
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.returncode, result.stderr) == ("done\n", 0, ""), result.stderr
