"""The `ray` command, and what is installed."""

import importlib.metadata
import os
import re
import subprocess
import sys

import pytest
import support

import ray

pytestmark = pytest.mark.one_path("the command line, from outside of a session")

RAY = os.path.join(os.path.dirname(sys.executable), "ray")


def run(*args, timeout=50):
    return subprocess.run([RAY, *args], capture_output=True, text=True, timeout=timeout)


def test_version():
    result = run("--version")
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout == f"ray, version {ray.__version__}\n"


def test_help():
    for args in ([], ["--help"], ["-h"]):
        result = run(*args)
        assert result.returncode == 0 and "microbenchmark" in result.stdout


@pytest.mark.parametrize("command", ["memory", "microbenchmark", "c-flags"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_a_command(command, flag):
    result = run(command, flag)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: ray {command} ")
    assert support.processes() == []


@pytest.mark.parametrize("command", ["memory", "microbenchmark", "c-flags"])
def test_unknown_arguments_of_a_command(command):
    result = run(command, "--fly")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"usage: ray {command} " in result.stderr and "--fly" in result.stderr
    assert support.processes() == []


def test_a_microbenchmark_that_there_is_none_of():
    result = run("microbenchmark", "no such row")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no row has 'no such row' in its name" in result.stderr
    assert support.wait_until(lambda: not support.processes(), 5)


def test_c_flags_name_what_is_there():
    result = run("c-flags")
    assert result.returncode == 0 and result.stderr == ""
    for found in re.findall(r'-I(\S+)|="([^"]+)"|(\S+\.a)', result.stdout):
        assert os.path.exists("".join(found))
    assert os.path.basename(run("c-flags", "--compile").stdout.split()[0]) == "include"
    assert ".a" not in run("c-flags", "--compile").stdout.split()
    assert run("c-flags", "--other").returncode == 2


def test_unknown_commands():
    result = run("fly")
    assert result.returncode == 2 and "fly" in result.stderr and result.stdout == ""


@pytest.mark.parametrize("command", ["timeline", "list", "job", "attach"])
def test_commands_that_come_later_say_so(command):
    result = run(command)
    assert result.returncode == 2 and "not in Mobula yet" in result.stderr


@pytest.mark.parametrize(
    "command, instead", [("debug", "ray replay"), ("symmetric-run", "ray start --head")]
)
def test_commands_that_will_not_come_say_what_to_do(command, instead):
    result = run(command)
    assert result.returncode == 2 and f"ray {command} is not in Mobula: " in result.stderr
    assert instead in result.stderr


def test_one_row_of_the_microbenchmark():
    result = run("microbenchmark", "single client put calls")
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    name, mean = re.fullmatch(r"(.+) per second ([\d.]+) \+- [\d.]+", line).groups()
    assert name.startswith("single client put calls") and float(mean) > 100
    assert support.wait_until(lambda: not support.processes())


def test_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "ray.scripts.main", "--version"], capture_output=True, text=True
    )
    assert result.stdout == f"ray, version {ray.__version__}\n"


def test_version_text():
    assert re.fullmatch(r"2\.60\.0\+mobula\.\d+\.\d+\.\d+", ray.__version__)
    assert ray.__version__.endswith(importlib.metadata.version("mobula-ray"))
    # As libraries take it apart.
    assert tuple(int(part) for part in ray.__version__.split(".")) == (2, 60, 0)
    assert ray.__version__.split("+")[0] == "2.60.0" and ray.__version__.split(".", 1)[0] == "2"


def test_package_metadata():
    metadata = importlib.metadata.metadata("mobula-ray")
    assert metadata["Name"] == "mobula-ray"
    assert metadata["License-Expression"] == "Apache-2.0" or "Apache" in str(metadata["License"])
    assert any(
        requirement.startswith("cloudpickle")
        for requirement in importlib.metadata.requires("mobula-ray")
    )
    (script,) = [
        e for e in importlib.metadata.entry_points(group="console_scripts") if e.name == "ray"
    ]
    assert script.value == "ray.scripts.main:main"


def test_one_distribution_alone_has_the_package():
    assert set(importlib.metadata.packages_distributions()["ray"]) == {"mobula-ray"}


def site(folder, name, files=("ray/__init__.py,,",)):
    """A folder with this package, and another distribution's metadata beside it."""
    os.symlink(os.path.dirname(ray.__file__), os.path.join(folder, "ray"))
    metadata = os.path.join(folder, name)
    os.mkdir(metadata)
    if files is not None:
        support.script(
            metadata, "".join(f"{line}\n" for line in (*files, f"{name}/RECORD,,")), "RECORD"
        )


def import_from(*folders):
    """What a new process says that imports ray from the first of these that has it."""
    code = f"import sys; sys.path[:0] = {folders!r}; import ray; print(ray.__file__)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)


@pytest.mark.parametrize(
    "name, files",
    [
        ("ray-2.60.0.dist-info", ("ray/__init__.py,,", "ray/_raylet.so,,")),
        ("ray-2.9.3.egg-info", None),
    ],
)
def test_ray_itself_in_the_same_folder_is_told_at_import(folder, name, files):
    site(folder, name, files)
    result = import_from(folder)
    assert result.returncode == 1 and result.stdout == ""
    _, _, words = result.stderr.partition("\nImportError: ")
    version = name[4:].rpartition(".")[0]
    assert words.startswith(f"Ray {version} is installed in {folder}, where Mobula")
    assert "pip uninstall -y ray mobula-ray\n" in words and "pip install mobula-ray" in words


@pytest.mark.parametrize(
    "name, files",
    [
        ("ray_cpp-2.60.0.dist-info", ("ray/cpp/lib.so,,",)),
        ("ray-2.60.0.dist-info", ()),  # made by hand, for those who ask for it
        ("mobula_ray-0.1.0.dist-info", ("ray/__init__.py,,",)),
    ],
)
def test_other_distributions_in_the_same_folder_do_not_matter(folder, name, files):
    site(folder, name, files)
    result = import_from(folder)
    assert result.stdout.strip() == os.path.join(folder, "ray", "__init__.py"), result.stderr


def test_ray_itself_in_another_folder_does_not_matter(folder):
    ours, other = os.path.join(folder, "ours"), os.path.join(folder, "other")
    os.mkdir(ours)
    os.mkdir(other)
    site(other, "ray-2.60.0.dist-info")
    os.symlink(os.path.dirname(ray.__file__), os.path.join(ours, "ray"))
    result = import_from(ours, other)
    assert result.stdout.strip() == os.path.join(ours, "ray", "__init__.py"), result.stderr


def test_the_daemon_is_in_the_package():
    daemon = os.path.join(os.path.dirname(ray.__file__), "bin", "mobulad")
    assert os.access(daemon, os.X_OK)
    result = subprocess.run([daemon, "--version"], capture_output=True, text=True, timeout=20)
    assert result.stdout.strip().endswith(importlib.metadata.version("mobula-ray"))


def test_the_daemon_started_by_hand_says_what_it_is_for():
    daemon = os.path.join(os.path.dirname(ray.__file__), "bin", "mobulad")
    result = subprocess.run(
        [daemon], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
    )
    assert result.returncode != 0 and "ray.init" in result.stderr


def test_the_header_is_in_the_package():
    header = os.path.join(os.path.dirname(ray.__file__), "include", "mobula.h")
    with open(header) as file:
        assert "mob_init" in file.read()


def test_help_texts():
    for thing in (
        ray.init,
        ray.get,
        ray.put,
        ray.wait,
        ray.remote,
        ray.kill,
        ray.shutdown,
        ray.timeline,
        ray.nodes,
    ):
        assert thing.__doc__ and len(thing.__doc__) > 20
