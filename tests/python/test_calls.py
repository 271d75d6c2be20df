"""Calls go straight from caller to actor: their order holds and none is lost, whoever comes, goes
or dies.
"""

import os
import signal
import threading
import time

import pytest
import support

import ray
from ray.exceptions import ActorDiedError, WorkerCrashedError

INIT = {"num_cpus": 4}
pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote(num_cpus=0)
class Log:
    def __init__(self):
        self.seen = []

    def add(self, *what):
        self.seen.append(what)

    def take(self):
        seen, self.seen = self.seen, []
        return seen

    def slowly(self, x, seconds=0.02):
        time.sleep(seconds)
        return x

    def pid(self):
        return os.getpid()


@ray.remote(num_cpus=0)
class Caller:
    def keep(self, handles):
        self.handle = handles[0]

    def drop(self):
        self.handle = None

    def add(self, *what):
        ray.get(self.handle.add.remote(*what))

    def slowly(self, seconds):
        self.ref = self.handle.slowly.remote(1, seconds)


def test_calls_made_before_the_actor_is_there():
    log = Log.remote()
    for i in range(2000):
        log.add.remote(i)
    assert ray.get(log.take.remote()) == [(i,) for i in range(2000)]


def test_who_drops_its_handle_and_gets_another_does_not_wait_for_the_others():
    """Its queue has to be ended first, which the actor must say although it always has something
    else to do.
    """
    log = Log.remote()
    box = [ray.put([log])]
    ending, fed = threading.Event(), []

    def feed():
        waiting = [log.slowly.remote(0, 0.01) for _ in range(10)]
        while not ending.is_set():
            waiting.append(log.slowly.remote(0, 0.01))
            fed.append(ray.get(waiting.pop(0)))
        ray.get(waiting)

    @ray.remote(num_cpus=4)
    def call(box):
        return ray.get(ray.get(box[0])[0].pid.remote())

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        assert support.wait_until(lambda: fed)
        assert len({ray.get(call.remote(box), timeout=20) for _ in range(4)}) == 1
    finally:
        ending.set()
        feeder.join()


def test_several_callers_each_in_its_order():
    log = Log.remote()

    @ray.remote
    def call(handle, name):
        for i in range(500):
            handle.add.remote(name, i)
        return ray.get(handle.add.remote(name, 500))

    ray.get([call.remote(log, name) for name in range(6)])
    seen = ray.get(log.take.remote())
    for name in range(6):
        assert [i for n, i in seen if n == name] == list(range(501))


def test_threads_that_share_a_handle():
    log = Log.remote()

    def call(name):
        for i in range(300):
            log.add.remote(name, i)

    threads = [threading.Thread(target=call, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = ray.get(log.take.remote())
    assert all([i for n, i in seen if n == name] == list(range(300)) for name in range(4))


def test_a_call_waits_for_its_argument_and_later_ones_for_it(folder):
    log = Log.remote()

    @ray.remote
    def late():
        support.wait_for_file(f"{folder}/open")
        return "late"

    log.add.remote(late.remote())
    log.add.remote("after")

    @ray.remote
    def other(handle):
        return ray.get(handle.take.remote())

    assert ray.get(other.remote(log)) == []  # another caller is not held up
    support.touch(f"{folder}/open")
    assert ray.get(log.take.remote()) == [("late",), ("after",)]


def test_handles_that_come_and_go():
    log = Log.remote()
    ray.get(log.add.remote("first"))
    callers = [Caller.remote() for _ in range(3)]
    for _ in range(5):
        ray.get([caller.keep.remote([log]) for caller in callers])
        ray.get([caller.add.remote(1) for caller in callers])
        ray.get(callers[2].slowly.remote(0.2))
        ray.get([caller.drop.remote() for caller in callers])
    assert support.wait_until(lambda: ray.get(log.slowly.remote(7, 0)) == 7)
    ray.get([caller.keep.remote([log]) for caller in callers])
    ray.get([caller.add.remote(2) for caller in callers], timeout=20)
    assert len(ray.get(log.take.remote())) == 1 + 15 + 3


def test_a_dead_callers_calls_keep_their_order():
    log = Log.remote()
    ray.get(log.take.remote())

    @ray.remote(max_retries=0)
    def call(handles, count):
        for i in range(count):
            handles[0].add.remote(i)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(10):
        with pytest.raises(WorkerCrashedError):
            ray.get(call.remote([log], 5000))
        seen = []

        def all_there(seen=seen):
            seen += ray.get(log.take.remote())
            return len(seen) == 5000

        assert support.wait_until(all_there)
        assert seen == [(i,) for i in range(5000)]


@pytest.mark.parametrize("dropped", [False, True])
def test_calls_of_a_dead_caller_are_run(dropped):
    log = Log.remote()
    ray.get(log.take.remote())

    @ray.remote(max_retries=0)
    def call(handles):
        return os.getpid(), [handles[0].slowly.remote(i) for i in range(30)]

    pid, refs = ray.get(call.remote([log]))
    if dropped:
        del log  # it ends after the calls that it has
    os.kill(pid, signal.SIGKILL)
    assert ray.get(refs, timeout=40) == list(range(30))


def test_an_actor_without_handles_runs_what_it_has():
    refs = [Log.remote().slowly.remote(i, 0.01) for i in range(8)]
    log = Log.remote()
    more = [log.slowly.remote(i, 0.001) for i in range(50)]
    pid = ray.get(log.pid.remote())
    del log
    assert ray.get(refs + more) == [*range(8), *range(50)]
    assert support.wait_until(lambda: not support.alive(pid))


def test_killed_in_the_middle_of_a_stream():
    @ray.remote
    def stream(handle, count):
        refs = [handle.slowly.remote(i, 0) for i in range(count)]
        results = []
        for ref in refs:
            try:
                results.append(ray.get(ref))
            except ActorDiedError:
                results.append(None)
        return results

    for _ in range(5):
        log = Log.remote()
        ray.get(log.take.remote())
        streams = [stream.remote(log, 3000) for _ in range(3)]
        mine = [log.slowly.remote(i, 0) for i in range(500)]
        ray.kill(log)
        with pytest.raises(ActorDiedError):
            ray.get(log.take.remote())  # after kill has returned, it is dead for everybody
        for results in ray.get(streams):
            alive = [r for r in results if r is not None]
            assert alive == list(range(len(alive))), "what was run is the beginning"
        ray.wait(mine, num_returns=len(mine), timeout=20)


def test_many_actors_in_turn():
    """More than there are queues for at a time would be needed if those of the dead were not used
    again.
    """

    @ray.remote
    def call(handle):
        return ray.get(handle.slowly.remote(1, 0))

    for _ in range(60):
        logs = [Log.remote() for _ in range(4)]
        assert (
            ray.get([log.slowly.remote(2, 0) for log in logs] + [call.remote(log) for log in logs])
            == [2] * 4 + [1] * 4
        )


def test_actors_that_call_each_other():
    @ray.remote(num_cpus=0)
    class Pong:
        def meet(self, others):
            self.others = others

        def play(self, left):
            if left == 0:
                return "done"
            return ray.get(self.others[left % len(self.others)].play.remote(left - 1))

    players = [Pong.remote() for _ in range(12)]
    ray.get([player.meet.remote(players[i + 1 :]) for i, player in enumerate(players)])
    assert ray.get(players[0].play.remote(1)) == "done"


def test_references_among_the_arguments_live_until_the_call_is_done():
    log = Log.remote()
    refs = [log.slowly.remote([ray.put("x" * 1000 + str(i))], 0.001) for i in range(100)]
    values = [ray.get(ray.get(ref)[0])[1000:] for ref in refs]
    assert values == [str(i) for i in range(100)]


def number():
    """Of this process among the session's clients."""
    return ray._private.worker._core.session()["number"]


WAITER_BITS = 48  # in the word of an object: who has none is woken by the daemon, with all others


def test_two_hundred_actors_come_and_go_and_calls_stay_as_short():
    @ray.remote(num_cpus=0)
    class Nested:
        def __init__(self, log):
            self.log = log

        def number(self):
            return number()

        def run(self, count):
            return [ray.get(self.log.slowly.remote(i, 0)) for i in range(count)]

    log = Log.remote()
    first = Nested.remote(log)
    assert ray.get(first.run.remote(50)) == list(range(50))
    for _ in range(20):
        brief = [Log.remote() for _ in range(10)]
        ray.get([each.pid.remote() for each in brief])
        for each in brief:
            ray.kill(each)
    last = Nested.remote(log)
    assert ray.get(first.number.remote()) <= WAITER_BITS
    assert ray.get(last.number.remote()) <= WAITER_BITS
    assert ray.get(last.run.remote(50)) == ray.get(first.run.remote(50)) == list(range(50))


def test_callers_come_and_go_with_calls_on_their_way():
    """The next one with a number of theirs gets its own results, and nothing of theirs is lost."""

    @ray.remote(num_cpus=0)
    class Brief:
        def send(self, log, turn):
            return number(), [log.slowly.remote((turn, i), 0) for i in range(30)]

    log = Log.remote()
    numbers = []
    for turn in range(40):
        brief = Brief.remote()
        mine, refs = ray.get(brief.send.remote(log, turn))
        numbers.append(mine)
        if turn % 2:
            ray.kill(brief)
        del brief
        assert ray.get(refs, timeout=60) == [(turn, i) for i in range(30)]
    assert len(set(numbers)) < 40  # or nothing was tried
