"""What ps and top show of the processes of a session."""

import os

import pytest
import support

import ray

pytestmark = pytest.mark.usefixtures("cluster")
INIT = {"num_cpus": 2}


def title(pid) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().rstrip(b"\0").decode()


def short(pid) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read().rstrip()


def becomes(pid, text) -> bool:
    return support.wait_until(lambda: title(pid) == text) or title(pid)


def look():
    return os.getpid(), title(os.getpid())


def wait(folder):
    support.touch(f"{folder}/{os.getpid()}")
    support.wait_for_file(f"{folder}/go")


def test_a_task(folder):
    pid, own = ray.get(ray.remote(look).remote())
    assert own == "ray::look" and short(pid) == "ray::worker"
    assert becomes(pid, "ray::IDLE") is True
    assert ray.get(ray.remote(look).options(name="another").remote())[1] == "ray::another"
    ref = ray.remote(wait).remote(folder)
    assert support.wait_until(lambda: os.listdir(folder))
    assert title(os.listdir(folder)[0]) == "ray::wait"
    support.touch(f"{folder}/go")
    ray.get(ref)


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 3}])
def test_an_actor(folder, options):
    @ray.remote(num_cpus=0, **options)
    class Model:
        def __init__(self):
            self.first = look()[1]

        def begin(self):
            return self.first

        def look(self):
            return look()

        def wait(self):
            wait(folder)

    model = Model.remote()
    assert ray.get(model.begin.remote()).endswith("Model.__init__")
    pid, own = ray.get(model.look.remote())
    name = own.removesuffix(".look")
    assert own == f"{name}.look" and name.startswith("ray::") and name.endswith("Model")
    assert becomes(pid, name) is True and short(pid) == name[:15]
    ref = model.wait.remote()
    assert becomes(pid, f"{name}.wait") is True
    support.touch(f"{folder}/go")
    ray.get(ref)
    assert becomes(pid, name) is True


def test_an_async_actor():
    @ray.remote(num_cpus=0)
    class Loop:
        async def look(self, seconds):
            import asyncio

            await asyncio.sleep(seconds)
            return look()

    loop = Loop.remote()
    for seconds in (0, 0.2):  # the loop has gone to rest while the second one waits
        pid, own = ray.get(loop.look.remote(seconds))
        assert own.endswith("Loop.look")
        assert becomes(pid, own.removesuffix(".look")) is True


def test_the_daemon_and_the_zygote():
    daemon = support.daemon_pid()
    assert short(daemon) == "mobulad" and "mobulad" in title(daemon)
    with open(f"/proc/{daemon}/task/{daemon}/children") as file:
        children = file.read().split()
    assert "ray::zygote" in [title(pid) for pid in children]


def test_the_environment_stays_readable():
    @ray.remote
    def environment():
        with open("/proc/self/environ", "rb") as file:
            return file.read()

    assert f"MOBULA_TEST_RUN={support.run_folder()}".encode() in ray.get(environment.remote())


def test_names_of_any_kind():
    for name in ("ä" * 5000, "with space", "a\nb", "-"):
        own = ray.get(ray.remote(look).options(name=name).remote())[1]
        assert own.startswith("ray::") and name.startswith(own[5:])
