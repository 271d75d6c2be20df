"""Runtime environments: variables, folders, modules, packages, interpreters and hooks of tasks and
actors.
"""

import contextlib
import json
import os
import subprocess
import sys
import zipfile

import pytest
import support

import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig


@pytest.fixture(scope="module", autouse=True)
def session():
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


@ray.remote
def variable(name):
    return os.environ.get(name)


@ray.remote
def pid():
    return os.getpid()


@ray.remote
def evaluate(text):
    return eval(text, {"os": os, "sys": sys, "ray": ray})


def within(env, text="os.getcwd()"):
    return ray.get(evaluate.options(runtime_env=env).remote(text), timeout=60)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


# ---- variables ----


def test_variables_of_tasks_and_actors():
    @ray.remote
    class Actor:
        def variable(self, name):
            return os.environ.get(name)

    one = {"env_vars": {"LEVEL": "1"}}
    assert ray.get(variable.options(runtime_env=one).remote("LEVEL")) == "1"
    assert (
        ray.get(variable.options(runtime_env={"env_vars": {"LEVEL": "2"}}).remote("LEVEL")) == "2"
    )
    assert ray.get(variable.remote("LEVEL")) is None
    assert ray.get(Actor.options(runtime_env=one).remote().variable.remote("LEVEL")) == "1"
    assert within(one, "os.popen('echo $LEVEL').read()") == "1\n"


def test_the_decorators_environment():
    @ray.remote(runtime_env={"env_vars": {"LEVEL": "3"}})
    def level():
        return os.environ["LEVEL"]

    assert ray.get([level.remote() for _ in range(50)]) == ["3"] * 50


def test_variables_expand(monkeypatch):
    monkeypatch.setenv("BEFORE", "/before")
    env = {"env_vars": {"BEFORE": "/mine:${BEFORE}:${NO_SUCH_VARIABLE}"}}
    assert within(env, "os.environ['BEFORE']") == "/mine:/before:"


def test_variables_that_only_a_start_reads():
    assert within({"env_vars": {"PYTHONHASHSEED": "7"}}, "hash('x')") == within(
        {"env_vars": {"PYTHONHASHSEED": "7", "OTHER": "1"}}, "hash('x')"
    )
    assert within({"env_vars": {"PYTHONOPTIMIZE": "1"}}, "sys.flags.optimize") == 1


def test_nested_tasks_are_in_it_too_and_merge():
    @ray.remote
    def outer():
        inner = variable.options(runtime_env={"env_vars": {"B": "inner"}})
        return ray.get([variable.remote("A"), inner.remote("A"), inner.remote("B")])

    env = {"env_vars": {"A": "outer", "B": "outer"}}
    assert ray.get(outer.options(runtime_env=env).remote()) == ["outer", "outer", "inner"]


def test_an_environment_has_workers_of_its_own():
    one, other = ({"env_vars": {"WHO": name}} for name in "ab")
    first = ray.get([pid.options(runtime_env=one).remote() for _ in range(20)])
    second = ray.get([pid.options(runtime_env=other).remote() for _ in range(20)])
    plain = ray.get([pid.remote() for _ in range(20)])
    assert not set(first) & set(second) and not set(plain) & set(first + second)


def test_its_worker_is_used_again():
    env = {"env_vars": {"AGAIN": "1"}}
    assert within(env, "os.getpid()") == within(dict(env), "os.getpid()")


def test_many_environments_at_once():
    refs = [
        variable.options(runtime_env={"env_vars": {"I": str(i)}}, num_cpus=0.1).remote("I")
        for i in range(30)
    ]
    assert ray.get(refs, timeout=60) == [str(i) for i in range(30)]


def test_its_processes_do_not_pile_up():
    for i in range(20):
        assert within({"env_vars": {"PILE": str(i)}}, "os.environ['PILE']") == str(i)
    assert support.wait_until(
        lambda: len([c for _, c in support.processes() if "ray::IDLE" in c]) <= 6, 20
    )


def test_the_context_tells():
    env = {"env_vars": {"SHOWN": "1"}}
    assert within(env, "dict(ray.get_runtime_context().runtime_env)") == env
    text = within(env, "ray.get_runtime_context().get_runtime_env_string()")
    assert json.loads(text) == env
    assert ray.get_runtime_context().runtime_env == {}


# ---- folders and modules ----


def test_working_dir(tmp_path):
    write(f"{tmp_path}/module_there.py", "VALUE = 42\n")
    write(f"{tmp_path}/inner/data.txt", "data")
    os.chmod(f"{tmp_path}/module_there.py", 0o755)
    env = {"working_dir": str(tmp_path)}
    assert within(env, "__import__('module_there').VALUE") == 42
    assert within(env, "open('inner/data.txt').read()") == "data"
    assert within(env, "os.access('module_there.py', os.X_OK)")
    assert within(env) != str(tmp_path)  # a copy
    assert within(env, "os.popen(sys.executable + ' -c \"import module_there\"').close()") is None
    within(env, "open('written', 'w').close()")
    assert not os.path.exists(f"{tmp_path}/written")


def test_working_dir_is_what_it_was(tmp_path):
    write(f"{tmp_path}/state", "old")
    reads = evaluate.options(runtime_env={"working_dir": str(tmp_path)})
    assert ray.get(reads.remote("open('state').read()")) == "old"
    write(f"{tmp_path}/state", "new")
    assert ray.get(reads.remote("open('state').read()")) == "old"


def test_what_is_left_out(tmp_path):
    for name in ("kept", "big.bin", "logs/a", "deep/secret", "deep/kept", ".git/objects"):
        write(f"{tmp_path}/{name}", "x")
    write(f"{tmp_path}/.gitignore", "*.bin\nlogs/\n")
    write(f"{tmp_path}/deep/.gitignore", "secret\n")
    found = within(
        {"working_dir": str(tmp_path), "excludes": ["/kept"]},
        "sorted(os.path.join(d, f)[2:] for d, _, fs in os.walk('.') for f in fs)",
    )
    assert found == [".gitignore", "deep/.gitignore", "deep/kept"]


def test_a_zip_file(tmp_path):
    with zipfile.ZipFile(f"{tmp_path}/code.zip", "w") as package:
        package.writestr("top/zipped.py", "VALUE = 7\n")
    assert within({"working_dir": f"{tmp_path}/code.zip"}, "__import__('zipped').VALUE") == 7
    assert (
        within({"working_dir": f"file://{tmp_path}/code.zip"}, "os.path.basename(os.getcwd())")
        == "top"
    )


def test_a_zip_file_by_its_address(tmp_path):
    address = f"file://{tmp_path}/code.zip"
    for value in ("1", "2"):
        with zipfile.ZipFile(f"{tmp_path}/code.zip", "w") as package:
            package.writestr("value", value)
            package.writestr("../../outside", value)
        env = {"working_dir": address, "env_vars": {"VALUE": value}}
        assert within(env, "open('value').read()") == value
        assert within(env, "os.path.exists('../../outside')") is False
    assert os.listdir(tmp_path) == ["code.zip"]  # nothing is written beside it


def test_links_and_folders_without_files(tmp_path):
    write(f"{tmp_path}/elsewhere/inner/file", "linked")
    write(f"{tmp_path}/code/own", "own")
    os.makedirs(f"{tmp_path}/code/nothing/in/it")
    os.symlink(f"{tmp_path}/elsewhere", f"{tmp_path}/code/link")
    os.symlink("..", f"{tmp_path}/code/nothing/loop")
    os.symlink("own", f"{tmp_path}/code/also")
    os.symlink("/no/such/file", f"{tmp_path}/code/broken")
    env = {"working_dir": f"{tmp_path}/code"}
    assert within(env, "open('link/inner/file').read()") == "linked"
    assert within(env, "open('also').read()") == "own"
    assert within(env, "os.listdir('nothing/in/it')") == []
    assert within(env, "sorted(os.listdir('.'))") == ["also", "link", "nothing", "own"]
    assert within(env, "os.path.exists('nothing/loop')") is False


def test_py_modules(tmp_path):
    write(f"{tmp_path}/package_there/__init__.py", "from package_there.inner import VALUE\n")
    write(f"{tmp_path}/package_there/inner.py", "VALUE = 'package'\n")
    write(f"{tmp_path}/single_there.py", "VALUE = 'file'\n")
    env = {"py_modules": [f"{tmp_path}/package_there", f"{tmp_path}/single_there.py"]}
    assert within(env, "__import__('package_there').VALUE") == "package"
    assert within(env, "__import__('single_there').VALUE") == "file"
    assert within({"py_modules": [support]}, "__import__('support').__file__") != support.__file__


def test_nothing_is_left(tmp_path):
    write(f"{tmp_path}/a/b/c/d/e", "deep")
    code = f"""
import ray
ray.init(num_cpus=1, runtime_env={{"working_dir": {str(tmp_path)!r}}})
@ray.remote
def f(): return open("a/b/c/d/e").read()
print(ray.get(f.remote()), ray._core.session()["session_dir"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    word, folder = done.stdout.split()
    assert word == "deep" and not os.path.exists(folder)


def test_the_jobs_environment(tmp_path):
    write(f"{tmp_path}/job_module.py", "VALUE = 1\n")
    code = f"""
import os, ray
from ray.runtime_env import RuntimeEnv
ray.init(num_cpus=2, runtime_env=RuntimeEnv(working_dir={str(tmp_path)!r}, env_vars={{"J": "job"}}))
@ray.remote
def f():
    import job_module
    return os.environ["J"], os.environ.get("T"), ray.get_runtime_context().runtime_env["env_vars"]
@ray.remote
class A:
    def f(self):
        return ray.get(f.remote())
print(ray.get(f.remote()))
print(ray.get(f.options(runtime_env={{"env_vars": {{"T": "task"}}}}).remote()))
print(ray.get(A.remote().f.remote()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "('job', None, {'J': 'job'})",
        "('job', 'task', {'J': 'job', 'T': 'task'})",
        "('job', None, {'J': 'job'})",
    ], done.stderr


def test_it_is_set_up_before_a_task_needs_it(tmp_path):
    write(f"{tmp_path}/data", "x")
    code = f"""
import glob, time, ray
ray.init(num_cpus=1, runtime_env={{"working_dir": {str(tmp_path)!r}}})
folder = ray._core.session()["session_dir"]
end = time.monotonic() + 30
while not glob.glob(folder + "/packages/*.files/data") and time.monotonic() < end:
    time.sleep(0.01)
print(bool(glob.glob(folder + "/packages/*.files/data")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


# ---- hooks ----


def test_a_hook_runs_once_in_each_worker():
    def hook():
        os.environ["HOOKED"] = os.environ.get("HOOKED", "") + "x"

    env = {"worker_process_setup_hook": hook}
    assert within(env, "os.environ['HOOKED']") == "x"
    assert within(env, "os.environ['HOOKED']") == "x"
    assert (
        within({"worker_process_setup_hook": "gc.disable"}, "__import__('gc').isenabled()") is False
    )


def test_a_hook_that_raises():
    def hook():
        raise ValueError("no good")

    @ray.remote
    class Actor:
        def f(self):
            pass

    env = {"worker_process_setup_hook": hook}
    for _ in range(2):
        with pytest.raises(RuntimeEnvSetupError, match="no good"):
            within(env)
    with pytest.raises(RuntimeEnvSetupError, match="no good"):
        ray.get(Actor.options(runtime_env=env).remote().f.remote(), timeout=60)
    with pytest.raises(RuntimeEnvSetupError, match="no_such_module"):
        within({"worker_process_setup_hook": "no_such_module.f"})
    assert ray.get(variable.remote("HOME")) == os.environ.get("HOME")


# ---- packages and interpreters ----


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A package of our own, so that nothing comes from elsewhere."""
    folder = tmp_path_factory.mktemp("wheel")
    path = f"{folder}/mobula_probe-1.0-py3-none-any.whl"
    about = "mobula_probe-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("mobula_probe.py", "VALUE = 'from the wheel'\n")
        made.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: mobula-probe\nVersion: 1.0\n"
        )
        made.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """Before the session begins: workers are prepared with the driver's variables."""
    folder = str(tmp_path_factory.mktemp("cache"))
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    yield folder
    os.environ.pop("XDG_CACHE_HOME")
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before


PIP = {"pip_install_options": ["--no-index", "--no-deps", "--disable-pip-version-check"]}


@pytest.fixture(scope="module")
def cached(session, cache):
    return {"XDG_CACHE_HOME": cache}


def test_pip(wheel, cached):
    env = {"pip": {"packages": [wheel], **PIP}, "env_vars": cached}
    assert within(env, "__import__('mobula_probe').VALUE") == "from the wheel"
    prefix = within(env, "sys.prefix")
    assert prefix.startswith(cached["XDG_CACHE_HOME"]) and prefix != sys.prefix
    assert within(env, "os.popen('python -c \"import mobula_probe, cloudpickle\"').close()") is None
    other = {**env, "env_vars": {**cached, "OTHER": "1"}}
    made = os.stat(f"{prefix}/pyvenv.cfg")
    assert within(other, "sys.prefix") == prefix
    assert os.path.samestat(os.stat(f"{prefix}/pyvenv.cfg"), made)  # built once
    with pytest.raises(ray.exceptions.RayTaskError):
        within({"env_vars": cached}, "__import__('mobula_probe')")
    assert within({"py_modules": [wheel]}, "__import__('mobula_probe').VALUE") == "from the wheel"


def test_pip_in_its_own_words(cached):
    env = {"pip": {"packages": ["no-such-package-of-mobula"], **PIP}, "env_vars": cached}
    with pytest.raises(RuntimeEnvSetupError, match="No matching distribution found"):
        within(env)


def test_setting_up_may_take_only_so_long(cached, tmp_path):
    write(
        f"{tmp_path}/slow/pyproject.toml",
        '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n',
    )
    write(f"{tmp_path}/slow/slow.py", "import time\ntime.sleep(60)\n")
    env = {
        "pip": {"packages": [f"{tmp_path}/slow"], **PIP},
        "env_vars": cached,
        "config": RuntimeEnvConfig(setup_timeout_seconds=4),
    }
    with pytest.raises(RuntimeEnvSetupError, match="setup_timeout_seconds, 4 s"):
        within(env)


def test_py_executable(tmp_path):
    write(f"{tmp_path}/python", f'#!/bin/sh\nexport THROUGH=it\nexec {sys.executable} "$@"\n')
    os.chmod(f"{tmp_path}/python", 0o755)
    assert within({"py_executable": f"{tmp_path}/python"}, "os.environ['THROUGH']") == "it"
    assert within({"py_executable": f"{sys.executable} -X dev"}, "sys.flags.dev_mode")
    with pytest.raises(RuntimeEnvSetupError, match="no/such/python"):
        within({"py_executable": "/no/such/python"})


def test_py_executable_that_ends(tmp_path):
    with pytest.raises(RuntimeEnvSetupError, match="/bin/false"):
        within({"py_executable": "/bin/false"})


# ---- kills ----


def test_a_worker_in_it_that_is_killed():
    env = {"env_vars": {"KILLED": "1"}}

    @ray.remote(max_retries=1, runtime_env=env)
    def once(folder):
        path = f"{folder}/ran"
        if not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), 9)
        return os.environ["KILLED"]

    folder = os.environ["XDG_CACHE_HOME"]
    assert ray.get(once.remote(folder), timeout=60) == "1"


def test_an_actor_in_it_is_restarted_in_it():
    @ray.remote(max_restarts=1, max_task_retries=1, runtime_env={"env_vars": {"LIVES": "2"}})
    class Actor:
        def end(self):
            if not ray.get_runtime_context().was_current_actor_reconstructed:
                os.kill(os.getpid(), 9)
            return os.environ["LIVES"]

    assert ray.get(Actor.remote().end.remote(), timeout=60) == "2"


def test_its_zygote_is_killed():
    env = {"env_vars": {"ZYGOTE": "1"}}
    first = within(env, "os.getpid()")
    for number, title in support.processes():
        if "ray::zygote" in title or "ray::mother" in title:
            with contextlib.suppress(ProcessLookupError):  # some end by themselves
                os.kill(number, 9)
    os.kill(first, 9)
    assert within(env, "os.environ['ZYGOTE']") == "1"
    assert ray.get(variable.remote("ZYGOTE")) is None


# ---- what makes no sense ----


@pytest.mark.parametrize(
    "env, error",
    [
        ("text", TypeError),
        ({"no_such_field": 1}, ValueError),
        ({"env_vars": {"A": 1}}, TypeError),
        ({"env_vars": ["A"]}, TypeError),
        ({"env_vars": {"A=B": "1"}}, ValueError),
        ({"working_dir": "/no/such/folder"}, ValueError),
        ({"working_dir": 7}, TypeError),
        ({"working_dir": "s3://bucket/code.zip"}, NotImplementedError),
        ({"py_modules": "text"}, TypeError),
        ({"py_modules": ["/no/such/module"]}, ValueError),
        ({"excludes": "text"}, TypeError),
        ({"pip": 7}, TypeError),
        ({"pip": ["a"], "uv": ["b"]}, ValueError),
        ({"pip": {"packages": ["a"], "no_such": 1}}, ValueError),
        ({"pip": "/no/such/requirements.txt"}, ValueError),
        ({"conda": "env"}, NotImplementedError),
        ({"worker_process_setup_hook": 7}, TypeError),
        ({"config": {"setup_timeout_seconds": "x"}}, TypeError),
        ({"config": {"setup_timeout_seconds": 0}}, ValueError),
        ({"config": {"no_such": 1}}, ValueError),
        ({"config": {"log_files": ["x"]}}, NotImplementedError),
        ({"pip": {"packages": ["a"], "pip_version": "==22"}}, NotImplementedError),
    ],
)
def test_what_makes_no_sense(env, error):
    with pytest.raises(error):
        pid.options(runtime_env=env)
    if isinstance(env, dict):
        with pytest.raises(error):
            RuntimeEnv(**env)


def test_nothing_is_nothing():
    for env in (None, {}, RuntimeEnv(), {"env_vars": {}}, {"pip": []}, {"conda": None}):
        assert ray.get(pid.options(runtime_env=env).remote()) > 0


def test_a_runtime_env_is_a_dict():
    env = RuntimeEnv(env_vars={"A": "1"}, config=RuntimeEnvConfig(setup_timeout_seconds=10))
    assert env["env_vars"] == {"A": "1"} and env["config"]["setup_timeout_seconds"] == 10
    assert RuntimeEnv.deserialize(env.serialize()) == env.to_dict()
