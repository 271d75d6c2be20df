"""What checkers and editors make of the package: typical programs pass, and mistakes are found.

The checkers are in .venv-types, which `make test` makes: they are large.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ray
from ray._private import options

ROOT = Path(__file__).resolve().parents[2]
TYPED = ROOT / "tests" / "python" / "typed"
CHECKERS = ROOT / ".venv-types" / "bin"
pytestmark = pytest.mark.one_path("no task runs in it, but for a program of the other tests' kind")
PACKAGE = Path(ray.__file__).parent

needs_checkers = pytest.mark.skipif(
    not (CHECKERS / "mypy").exists(), reason="no .venv-types: `scripts/setup.sh types` makes it"
)


def _mypy(*files):
    """(line, message) of every complaint."""
    settings = ["--config-file", TYPED / "mypy.ini", "--python-executable", sys.executable]
    command = [CHECKERS / "mypy", "--no-incremental", *settings]
    done = _run(command + ["--no-error-summary", "--hide-error-context", *files])
    found = re.findall(r"^\S+?:(\d+): error: (.*)$", done.stdout, re.M)
    assert found or not done.stdout + done.stderr, done.stdout + done.stderr
    return [(int(line), message) for line, message in found]


def _basedpyright(*files):
    settings = ["--pythonpath", sys.executable, "--level", "error", "--outputjson"]
    done = _run([CHECKERS / "basedpyright", *settings, *files])
    assert done.stdout, done.stderr
    return [
        (found["range"]["start"]["line"] + 1, found["message"])
        for found in json.loads(done.stdout)["generalDiagnostics"]
    ]


def _run(command):
    # Without the folders of the tests, which are no part of a user's program.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=TYPED, env=clean, capture_output=True, text=True)


@needs_checkers
@pytest.mark.parametrize("check", [_mypy, _basedpyright])
def test_typical_programs_pass(check):
    assert check("right.py") == []


@needs_checkers
@pytest.mark.parametrize("check", [_mypy, _basedpyright])
def test_mistakes_are_found(check):
    lines = (TYPED / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {line for line, _ in check("wrong.py")} == marked


def test_the_typical_programs_run():
    pytest.importorskip("typing_extensions")
    done = _run([sys.executable, "right.py"])
    assert done.returncode == 0, done.stderr


def test_the_package_says_that_it_has_types():
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_core.pyi").exists()


def _names(stub):
    """What a stub defines or imports for others."""
    found = set()
    for node in ast.parse((PACKAGE / stub).read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize("module, stub", [(ray, "__init__.pyi"), (ray.util, "util/__init__.pyi")])
def test_stubs_have_what_their_modules_have(module, stub):
    told = {name for name in _names(stub) if not name.startswith("_")}
    assert set(module.__all__) - {"__version__"} <= told
    modules = {name for name in module._MODULES if not name.startswith("_")}
    assert modules - {"scripts"} <= told
    assert told <= set(dir(module)) | {"runtime_env"}


@pytest.mark.parametrize("name", ["ObjectRef", "ObjectRefGenerator"])
def test_the_stub_of_the_core_has_its_methods(name):
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    (told,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    methods = {node.name for node in told.body if not node.name.startswith("_")}
    there = {method for method in vars(getattr(ray, name)) if not method.startswith("_")}
    assert methods == {method for method in there if hasattr(getattr(ray, name), method)}


def test_the_options_of_the_stubs_are_those_that_are_checked():
    told = {}
    for node in ast.parse((PACKAGE / "_typing.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef):
            told[node.name] = {field.target.id for field in node.body}
    resources = told["_Resources"]
    assert resources | told["TaskOptions"] == set(options._TASK) - {"num_returns"}
    assert resources | told["ActorOptions"] == set(options._ACTOR)
    assert told["MethodOptions"] == set(options._METHOD)
