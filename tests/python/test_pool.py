"""ray.util.multiprocessing.Pool."""

import itertools
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
import support

import ray
from ray.util.multiprocessing import Pool, TimeoutError
from ray.util.multiprocessing.pool import AsyncResult, PoolTaskError

INIT = {"num_cpus": 4}


@pytest.fixture(autouse=True)
def cluster_of_module():
    """A session for all tests; one of them ends it."""
    if not ray.is_initialized():
        ray.init(**INIT)


@pytest.fixture(scope="module", autouse=True)
def ended():
    yield
    ray.shutdown()


@pytest.fixture
def pool():
    made = Pool(2)
    yield made
    made.terminate()
    made.join()


def square(x):
    return x * x


def power(x, y=2):
    return x**y


def pid_of(_):
    return os.getpid()


def inverse(x):
    return 1 / x


def until(path):
    while not os.path.exists(path):
        time.sleep(0.005)
    return path


def test_map(pool):
    assert pool.map(square, range(1000)) == [x * x for x in range(1000)]
    assert pool.map(square, (x for x in range(7)), chunksize=2) == [x * x for x in range(7)]
    assert pool.map(square, []) == []
    offset = 5
    assert pool.map(lambda x: x + offset, [1, 2]) == [6, 7]


def test_starmap(pool):
    assert pool.starmap(power, [(2, 3), (3,)]) == [8, 9]
    assert pool.starmap_async(power, [(2, 3)]).get() == [8]


def test_apply(pool):
    assert pool.apply(power, (2,), {"y": 5}) == 32
    assert pool.apply(os.getpid) != os.getpid()
    assert [r.get() for r in [pool.apply_async(square, (x,)) for x in range(50)]] == [
        x * x for x in range(50)
    ]


def test_closures_are_pickled_anew_for_each_call(pool):
    count = 1

    def counted():
        return count

    assert pool.apply(counted) == 1
    count = 2
    assert pool.apply(counted) == 2


def test_imap(pool):
    assert list(pool.imap(square, range(100))) == [x * x for x in range(100)]
    assert list(pool.imap(square, range(100), chunksize=7)) == [x * x for x in range(100)]
    assert sorted(pool.imap_unordered(square, range(100), 3)) == [x * x for x in range(100)]
    assert list(pool.imap(square, [])) == []


def test_imap_reads_an_endless_iterable_as_it_goes(pool):
    found = pool.imap(square, itertools.count())
    assert [next(found) for _ in range(500)] == [x * x for x in range(500)]


def test_imap_goes_on_after_close(pool):
    found = pool.imap(square, (x for x in range(300)))
    pool.close()
    assert list(found) == [x * x for x in range(300)]
    pool.join()


def test_join_does_all_of_an_imap(pool):
    found = pool.imap(square, (x for x in range(300)))
    pool.close()
    pool.join()
    assert list(found) == [x * x for x in range(300)]


def test_an_imap_that_nobody_reads_does_not_stop_the_end(pool):
    found = pool.imap(square, itertools.count())
    next(found)
    del found
    pool.close()
    pool.join()


def test_imap_timeout(pool, folder):
    gate = os.path.join(folder, "gate")
    found = pool.imap(until, [gate])
    with pytest.raises(TimeoutError):
        found.next(timeout=0.01)
    open(gate, "w").close()
    assert found.next(timeout=60) == gate


def test_what_comes_first_is_first(pool, folder):
    gate = os.path.join(folder, "gate")
    found = pool.imap_unordered(lambda x: until(gate) if x == 0 else x, range(5))
    assert sorted(next(found) for _ in range(4)) == [1, 2, 3, 4]
    open(gate, "w").close()
    assert next(found) == gate


def test_errors(pool):
    for call in (
        lambda: pool.map(inverse, [1, 0]),
        lambda: pool.starmap(inverse, [(0,)]),
        lambda: pool.apply(inverse, (0,)),
    ):
        with pytest.raises(ZeroDivisionError) as caught:
            call()
        assert type(caught.value) is ZeroDivisionError
        assert "in inverse" in str(caught.value.__cause__)


def test_an_error_of_an_item_leaves_the_others(pool):
    found = pool.imap(inverse, [1, 0, 2], chunksize=3)
    assert next(found) == 1
    with pytest.raises(ZeroDivisionError):
        next(found)
    assert next(found) == 0.5
    with pytest.raises(StopIteration):
        next(found)


def test_async_results(pool, folder):
    gate = os.path.join(folder, "gate")
    result = pool.apply_async(until, (gate,))
    assert isinstance(result, AsyncResult) and not result.ready()
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    with pytest.raises(TimeoutError):
        result.get(timeout=0.01)
    result.wait(0.01)
    open(gate, "w").close()
    result.wait()
    assert result.ready() and result.successful() and result.get() == gate
    failed = pool.map_async(inverse, [0])
    failed.wait()
    assert not failed.successful()


def test_callbacks(pool):
    called = []
    there = threading.Semaphore(0)

    def note(value):
        called.append(value)
        there.release()

    pool.apply_async(square, (3,), callback=note).get()
    pool.map_async(square, [1, 2], callback=note).get()
    pool.map_async(square, [], callback=note).get()
    assert called == [9, [1, 4], []]
    pool.apply_async(inverse, (0,), callback=note, error_callback=note).wait()
    assert type(called[3]) is ZeroDivisionError


def test_a_callback_that_raises_is_told_and_the_pool_goes_on(pool, capfd):
    assert pool.apply_async(square, (3,), callback=lambda _: 1 / 0).get() == 9
    assert pool.apply(square, (4,)) == 16
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_initializer_and_processes():
    def prepare(text):
        os.environ["PREPARED"] = text

    with Pool(3, initializer=prepare, initargs=("yes",)) as pool:
        assert pool.map(lambda _: os.environ["PREPARED"], range(9), chunksize=1) == ["yes"] * 9
        assert len(set(pool.map(pid_of, range(100), chunksize=1))) <= 3


def test_an_initializer_that_fails_is_told_at_once():
    with pytest.raises(ray.exceptions.RayActorError, match="division"):
        Pool(1, initializer=inverse, initargs=(0,))


def test_maxtasksperchild():
    with Pool(1, maxtasksperchild=2) as pool:
        pids = [pool.apply(os.getpid) for _ in range(6)]
    assert len(set(pids)) == 3 and pids[0] == pids[1] != pids[2]


def test_work_goes_to_whoever_is_free(pool, folder):
    gate = os.path.join(folder, "gate")
    held = pool.apply_async(until, (gate,))
    assert [pool.apply(square, (x,)) for x in range(20)] == [x * x for x in range(20)]
    open(gate, "w").close()
    assert held.get() == gate


def test_a_process_that_dies_is_replaced(pool):
    with pytest.raises(ray.exceptions.RayActorError):
        pool.apply(os._exit, (1,))
    assert pool.map(square, range(10), chunksize=1) == [x * x for x in range(10)]


def test_close_and_join_let_work_end():
    pool = Pool(2)
    result = pool.map_async(square, range(100), chunksize=1)
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    pool.join()
    assert result.get() == [x * x for x in range(100)]
    for call in (pool.apply, pool.map, pool.imap):
        with pytest.raises(ValueError, match="not running"):
            call(square, [1])
    with pytest.raises(ValueError, match="not running"), pool:
        pass


def test_terminate_fails_what_is_not_done(folder):
    pool = Pool(1)
    pids = pool.map(pid_of, [0])
    results = [pool.apply_async(until, (os.path.join(folder, "never"),)) for _ in range(3)]
    pool.terminate()
    pool.join()
    for result in results:
        with pytest.raises(PoolTaskError):
            result.get(timeout=60)
    assert support.wait_until(lambda: not support.alive(pids[0]))


def test_a_pool_that_nobody_holds_ends():
    pool = Pool(1)
    pid = pool.apply(os.getpid)
    del pool
    assert support.wait_until(lambda: not support.alive(pid))


def test_bad_input(pool):
    for arguments in ({"processes": 0}, {"processes": 1, "maxtasksperchild": 0}):
        with pytest.raises(ValueError):
            Pool(**arguments)
    with pytest.raises(TypeError):
        Pool(processes="2")
    with pytest.raises(TypeError):
        Pool(1, initializer=3)
    with pytest.raises(TypeError):
        pool.map(3, [1])
    with pytest.raises(ValueError):
        pool.map(square, [1], chunksize=0)
    with pytest.raises(NotImplementedError):
        pickle.dumps(pool)
    with pytest.raises(TypeError, match="pickle"):
        pool.apply(square, (threading.Lock(),))
    with pytest.warns(UserWarning, match="context"):
        Pool(1, context="spawn").terminate()


def test_ray_remote_args():
    with Pool(1, ray_remote_args={"num_cpus": 2}) as pool:
        resources = pool.apply(lambda: ray.get_runtime_context().get_assigned_resources())
        assert resources["CPU"] == 2


def test_a_pool_whose_session_has_ended(folder):
    pool = Pool(1)
    result = pool.apply_async(until, (os.path.join(folder, "never"),))
    ray.shutdown()
    with pytest.raises(ray.exceptions.RayError):
        result.get(timeout=60)
    ray.init(**INIT)
    with pytest.raises(ray.exceptions.RayError):
        pool.apply(square, (2,))
    pool.terminate()
    pool.join()
    with Pool(1) as another:
        assert another.apply(square, (2,)) == 4


def test_a_program_may_end_with_a_pool_at_work(folder):
    program = os.path.join(folder, "program.py")
    with open(program, "w") as file:
        file.write(
            "import time\n"
            "from ray.util.multiprocessing import Pool\n"
            "pool = Pool(2)\n"
            "pool.map_async(time.sleep, [1000, 1000], chunksize=1)\n"
            "pool.imap(time.sleep, [1000])\n"
        )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
