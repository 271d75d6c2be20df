"""Runtime environments that are being set up when a task, a job, a driver or a process of the node
ends.
"""

import contextlib
import os
import signal
import time

import drivers
import pytest
import support

import ray
from ray.exceptions import GetTimeoutError, RuntimeEnvSetupError, TaskCancelledError


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with drivers.node(env={"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}) as started:
        yield started


@pytest.fixture
def driver(node, folder):
    with contextlib.ExitStack() as made:
        yield lambda **env: made.enter_context(
            drivers.Driver(
                folder, {"address": node.address}, env={"XDG_CACHE_HOME": f"{folder}/cache", **env}
            )
        )


@pytest.fixture
def slow(folder):
    """A package whose installation notes its process and then waits for ever, the first time."""
    os.makedirs(f"{folder}/slow")
    with open(f"{folder}/slow/pyproject.toml", "w") as file:
        file.write('[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n')
    with open(f"{folder}/slow/b.py", "w") as file:
        file.write(
            f"""
import os, time, zipfile
if not os.path.exists({folder + "/pid"!r}):
    with open({folder + "/pid.new"!r}, "w") as file: file.write(str(os.getpid()))
    os.rename({folder + "/pid.new"!r}, {folder + "/pid"!r})
    time.sleep(600)
def build_wheel(place, config_settings=None, metadata_directory=None):
    name, about = "slow_probe-1.0-py3-none-any.whl", "slow_probe-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(place, name), "w") as made:
        made.writestr("slow_probe.py", "VALUE = 1")
        made.writestr(f"{{about}}/METADATA", "Metadata-Version: 2.1\\nName: slow-probe\\nVersion: 1.0\\n")
        made.writestr(f"{{about}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr(f"{{about}}/RECORD", "")
    return name
"""
        )
    return f"{folder}/slow"


def packages(path):
    options = ["--no-index", "--no-deps", "--disable-pip-version-check"]
    return {"pip": {"packages": [path], "pip_install_options": options}}


def installing(folder):
    """The process that installs, once it is there."""
    assert support.wait_until(lambda: os.path.exists(f"{folder}/pid"), 60)
    with open(f"{folder}/pid") as file:
        return int(file.read())


def is_gone(pid):
    return support.wait_until(lambda: not support.alive(pid), 20)


def value(path):
    @ray.remote(runtime_env=packages(path))
    def there():
        import slow_probe

        return slow_probe.VALUE

    return ray.get(there.remote())


def cancelled(path, folder):
    @ray.remote(runtime_env=packages(path), max_retries=0)
    def there():
        pass

    ref, other = there.remote(), there.remote()
    pid = installing(folder)
    for form in ({}, {"force": True}):
        with pytest.raises(GetTimeoutError):
            ray.get(ref, timeout=0.2)
        ray.cancel(ref, **form)
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=20)
        ref = other
    return pid


def test_a_task_that_waits_for_it_is_cancelled(driver, slow, folder):
    each = driver()
    pid = each.call(cancelled, slow, folder)
    assert each.end() == 0
    assert is_gone(pid)


def test_a_job_that_ends(driver, slow, folder):
    each = driver()
    each.begin(value, slow)
    pid = installing(folder)
    each.kill()
    assert is_gone(pid)
    assert driver().call(value, slow) == 1  # of what was half done nothing is left


def test_two_jobs_that_want_the_same(driver, slow, folder):
    first, other = driver(), driver()
    first.begin(value, slow)
    pid = installing(folder)
    other.begin(value, slow)
    time.sleep(0.5)
    first.kill()
    assert is_gone(pid)
    assert other.result() == 1


def test_its_process_is_killed_while_it_installs(driver, slow, folder):
    each = driver()
    each.begin(value, slow)
    pid = installing(folder)
    for number, title in support.processes():
        if "ray::zygote" in title:
            with contextlib.suppress(ProcessLookupError):  # some end by themselves
                os.kill(number, signal.SIGKILL)
    assert is_gone(pid)
    assert each.result() == 1


def number(value):
    @ray.remote(runtime_env={"env_vars": {"NUMBER": value}})
    def there():
        return os.environ["NUMBER"]

    return ray.get(there.remote())


def test_a_mother_that_stands_still(driver):
    before = driver()
    assert before.call(number, "1") == "1"
    stopped = [pid for pid, title in support.processes() if "ray::mother" in title]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    assert before.call(number, "2") == "2"
    assert driver().call(number, "3") == "3"  # it joins, and has environments
    assert all(is_gone(pid) for pid in stopped)


def many(count):
    return [number(str(i)) for i in range(count)]


def test_processes_of_many_environments_end_soon(node, driver):
    each = driver()
    each.call(many, 60)

    def zygotes():
        return len([title for _, title in support.processes() if "ray::zygote" in title])

    assert support.wait_until(lambda: zygotes() < 24, 15), zygotes()


def wheel(folder, name):
    path, about = f"{folder}/{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    import zipfile

    with zipfile.ZipFile(path, "w") as made:
        made.writestr(f"{name}.py", "VALUE = 1")
        made.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        made.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{about}/RECORD", "")
    return path


def keep(path):
    @ray.remote(runtime_env=packages(path), lifetime="detached", name="keeper", namespace="n")
    class Keeper:
        def modules(self, env):
            @ray.remote
            def found():
                from importlib.util import find_spec

                return [name for name in ("one", "two") if find_spec(name)]

            return ray.get([found.remote(), found.options(runtime_env=env).remote()])

        def end(self):
            os.kill(os.getpid(), 9)

    ray.get(Keeper.options(max_restarts=1).remote().__ray_ready__.remote())


def ask(path):
    keeper = ray.get_actor("keeper", namespace="n")
    return ray.get(keeper.modules.remote(packages(path)), timeout=50)


def crash():
    keeper = ray.get_actor("keeper", namespace="n")
    with contextlib.suppress(ray.exceptions.RayActorError):
        ray.get(keeper.end.remote())


def test_a_detached_actor_in_one_has_tasks_in_another(driver, folder):
    maker = driver()
    maker.call(keep, wheel(folder, "one"))
    assert maker.end() == 0
    other = driver()
    path = wheel(folder, "two")
    assert other.call(ask, path) == [["one"], ["two"]]
    other.call(crash)
    assert other.call(ask, path) == [["one"], ["two"]]
    other.call(drop)


def drop():
    ray.kill(ray.get_actor("keeper", namespace="n"))


def fails(env):
    @ray.remote(runtime_env=env)
    def there():
        pass

    with pytest.raises(RuntimeEnvSetupError) as error:
        ray.get(there.remote())
    return str(error.value)


def test_an_environment_that_is_too_large_for_a_process(driver):
    each = driver()
    assert "Argument list too long" in each.call(
        fails, {"env_vars": {"PYTHON_LARGE": "x" * (1 << 20)}}
    )
    assert each.call(number, "1") == "1"
