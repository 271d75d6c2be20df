"""`python -m ray.as_ray`: a distribution called `ray` for pip, in an environment that has Mobula."""

import glob
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

import ray

pytestmark = pytest.mark.one_path("no task runs in it")


@pytest.fixture
def site(folder):
    """A folder that pip and Python take for installed packages, with Mobula in it."""
    package = ray.__path__[0]
    beside = os.path.dirname(package)
    made = os.path.join(folder, "site")
    shutil.copytree(package, os.path.join(made, "ray"))
    for name in os.listdir(beside):
        if name.startswith("mobula_ray-"):
            shutil.copytree(os.path.join(beside, name), os.path.join(made, name))
    return made


def python(site, *arguments, beside=()):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([site, *beside]),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=site or None,
        capture_output=True,
        text=True,
    )


def as_ray(site, *arguments, beside=()):
    return python(site, "-m", "ray.as_ray", *arguments, beside=beside)


def metadata_in(site):
    return [name for name in os.listdir(site) if name.startswith("ray-")]


def make_wheel(folder, requirement):
    """A library that requires `requirement` and has nothing else."""
    path = os.path.join(folder, "wants_ray-1.0-py3-none-any.whl")
    info = "wants_ray-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: wants-ray\nVersion: 1.0\nRequires-Dist: {requirement}\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def test_pip_is_content_with_libraries_that_require_ray(site, folder):
    wheel = make_wheel(folder, "ray[default]>=2.10.0,<3,!=2.5.0")
    install = ("-m", "pip", "install", "--no-index", "--dry-run", wheel)
    assert python(site, *install).returncode != 0
    done = as_ray(site)
    assert done.returncode == 0 and ray.__version__ in done.stdout, done.stderr
    found = python(site, *install)
    assert found.returncode == 0, found.stderr
    assert "WARNING" not in found.stderr
    listed = json.loads(python(site, "-m", "pip", "list", "--path", site, "--format=json").stdout)
    assert {"name": "ray", "version": ray.__version__} in listed


def test_the_package_works_beside_it_and_says_whose_it_is(site):
    as_ray(site)
    code = (
        "import importlib.metadata as m, ray\n"
        "found = m.distribution('ray')\n"
        "print(found.read_text('INSTALLER').strip(), found.version == ray.__version__)\n"
        "print(all(file.locate().exists() for file in found.files), len(found.files))"
    )
    assert python(site, "-c", code).stdout.split() == ["mobula-ray", "True", "True", "3"]


def test_an_extra_that_is_not_there_is_not_promised(site, folder):
    as_ray(site)
    wheel = make_wheel(folder, "ray[data]")
    found = python(site, "-m", "pip", "install", "--no-index", "--dry-run", wheel)
    assert found.returncode == 0 and "does not provide the extra 'data'" in found.stderr


def test_a_second_time_changes_nothing_and_another_version_is_replaced(site):
    as_ray(site)
    (name,) = metadata_in(site)
    again = as_ray(site)
    assert again.returncode == 0 and "already" in again.stdout
    os.rename(os.path.join(site, name), os.path.join(site, "ray-2.0.0+mobula.0.dist-info"))
    assert "Made" in as_ray(site).stdout
    assert metadata_in(site) == [name]


def test_undo(site):
    nothing = as_ray(site, "--undo")
    assert nothing.returncode == 0 and "Nothing to undo" in nothing.stdout
    before = sorted(os.listdir(site))
    as_ray(site)
    undone = as_ray(site, "--undo")
    assert undone.returncode == 0 and "Removed" in undone.stdout
    assert sorted(set(os.listdir(site)) - {"__pycache__"}) == before


def test_pip_can_undo_it_too(site, folder):
    # pip uninstalls only what is in an environment of its own.
    environment = os.path.join(folder, "environment")
    venv.create(environment, symlinks=True)
    (packages,) = glob.glob(os.path.join(environment, "lib", "python*", "site-packages"))
    shutil.copytree(site, packages, dirs_exist_ok=True)
    as_ray(packages)
    assert len(metadata_in(packages)) == 1
    here = os.path.join(environment, "bin", "python")
    found = python("", "-m", "pip", "--python", here, "uninstall", "-y", "ray")
    assert found.returncode == 0 and metadata_in(packages) == [], found.stderr
    assert python(packages, "-c", "import ray; ray.put").returncode == 0


def put_ray_into(site):
    """The metadata that Ray itself has."""
    info = os.path.join(site, "ray-2.60.0.dist-info")
    os.makedirs(info)
    for name, text in {
        "METADATA": "Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\n",
        "INSTALLER": "pip\n",
        "RECORD": "ray/__init__.py,,\n",
    }.items():
        with open(os.path.join(info, name), "w") as file:
            file.write(text)
    return info


def test_it_refuses_where_ray_itself_is_installed(site):
    info = put_ray_into(site)
    for arguments in [(), ("--undo",)]:
        found = as_ray(site, *arguments)
        assert found.returncode == 1 and "Ray 2.60.0 is installed" in found.stderr
    assert metadata_in(site) == [os.path.basename(info)] and len(os.listdir(info)) == 3


def test_it_refuses_where_ray_itself_is_further_down_the_path(site, folder):
    elsewhere = os.path.join(folder, "elsewhere")
    info = put_ray_into(elsewhere)
    found = as_ray(site, beside=[elsewhere])
    assert found.returncode == 1 and f"Ray 2.60.0 is installed in {elsewhere}" in found.stderr
    assert "Nothing to undo" in as_ray(site, "--undo", beside=[elsewhere]).stdout
    assert metadata_in(site) == [] and len(os.listdir(info)) == 3
