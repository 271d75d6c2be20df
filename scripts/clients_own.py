"""Another library's own tests on Mobula, counted. The tests are those of the library's source on
PyPI, in the version that .venv-own has; both are fetched by pip, and nothing else is.

    .venv/bin/python scripts/clients_own.py modin     Modin's tests on its ray engine
    .venv/bin/python scripts/clients_own.py dask      dask's tests through ray_dask_get

    --plain           without Mobula: on Modin's python engine, or dask's own schedulers
    --python PYTHON   in another environment, one with Ray itself say
    -- -k groupby     what follows goes to pytest; files are instead of those listed here

What fails is named, with the first line of its error; docs/clients.md has the reasons.
"""

import argparse
import collections
import os
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-own"
FOLDER = ROOT / "build" / "own"  # sources, and what pytest tells of a run

# What is run of each: minutes, on two cores.
FILES = {
    "modin": (
        "modin/tests/pandas/test_groupby.py",
        "modin/tests/pandas/dataframe/test_join_sort.py",
        "modin/tests/pandas/dataframe/test_udf.py",
        "modin/tests/pandas/dataframe/test_reduce.py",
        "modin/tests/pandas/test_general.py",
        "modin/tests/core",
        "modin/tests/test_partition_api.py",
        "modin/tests/test_utils.py",
        "modin/tests/pandas/test_concat.py",
        "modin/tests/pandas/test_reshape.py",
        "modin/tests/pandas/test_io.py::TestCsv",
        "modin/tests/experimental/test_pipeline.py",
        "modin/tests/pandas/dataframe/test_pickle.py",
        "modin/tests/pandas/dataframe/test_iter.py",
        "modin/tests/interchange",
        "modin/tests/pandas/test_repartition.py",
        "modin/tests/pandas/internals",
    ),
    "dask": (
        "dask/array/tests/test_array_core.py",
        "dask/bag/tests",
        "dask/dataframe/tests/test_shuffle.py",
        "dask/tests/test_base.py",
        "dask/tests/test_delayed.py",
        "dask/tests/test_graph_manipulation.py",
        "dask/tests/test_task_spec.py",
        "dask/array/tests/test_overlap.py",
        "dask/array/tests/test_slicing.py",
        "dask/dataframe/tests/test_multi.py",
    ),
}
# Left out: 24 naps of a minute each; and one that fails after it has closed the memory that pytest
# then wants to print, which ends the process.
LEFT_OUT = {
    "modin": "modin/tests/experimental/test_pipeline.py::TestPipelineRayEngine"
    "::test_pipeline_complex",
    "dask": "dask/array/tests/test_array_core.py::test_memmap",
}
# Without the options that measure coverage; the rest of their settings stays.
OPTIONS = {"modin": ["-m", "not exclude_by_default"], "dask": []}
PLUGINS = {"modin": [], "dask": ["-p", "dask_on_ray"]}
WORDS = ("passed", "failed", "skipped", "failed as the library expects")


def prepared():
    """The environment's Python, with this build of Mobula in it."""
    subprocess.run([ROOT / "scripts" / "setup.sh", "own"], check=True)
    subprocess.run([ROOT / "scripts" / "install_into.sh", ENVIRONMENT], check=True)
    return str(ENVIRONMENT / "bin" / "python")


def source_of(library, python):
    """The folder of the library's source, in the version that this Python has."""
    code = f"import importlib.metadata as m; print(m.version({library!r}))"
    version = subprocess.check_output([python, "-c", code], text=True).strip()
    folder = FOLDER / f"{library}-{version}"
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", library]
        subprocess.run([*command, "-d", FOLDER, f"{library}=={version}"], check=True)
        archive = FOLDER / f"{library}-{version}.tar.gz"
        subprocess.run(["tar", "-xzf", archive, "-C", FOLDER], check=True)
    return folder


def run(library, python, plain, options):
    """Runs the tests; the file that pytest has written of them."""
    source = source_of(library, python)
    told = FOLDER / f"{library}.xml"
    told.unlink(missing_ok=True)
    path = [str(source)]  # the workers import the library from there too
    plugins = []
    if not plain:
        path.append(str(ROOT / "scripts"))
        plugins = PLUGINS[library]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "MODIN_ENGINE": "python" if plain else "ray",
        "MODIN_CPUS": "2",
        "MODIN_MEMORY": str(1 << 30),
    }
    files = [] if any((source / option).exists() for option in options) else FILES[library]
    pytest = [python, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    pytest += ["-n", "2", "--dist", "loadfile", "--timeout", "300", "--disable-warnings"]
    pytest += ["--tb=no", "--junitxml", told, *plugins, *OPTIONS[library]]
    pytest += ["--deselect", LEFT_OUT[library]]
    subprocess.run([*pytest, *files, *options], cwd=source, env=environment)
    if not told.exists():
        sys.exit("pytest has told nothing of this run.")
    return told


def outcome_of(case):
    """What became of a test, and the first line of why."""
    for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            if found.get("type") == "pytest.xfail":
                word = "failed as the library expects"
            return word, (found.get("message") or "").strip().partition("\n")[0]
    return "passed", ""


def tell(told):
    counts, failed = collections.Counter(), []
    for case in xml.etree.ElementTree.parse(told).iter("testcase"):
        outcome, why = outcome_of(case)
        counts[outcome] += 1
        if outcome == "failed":
            failed.append(f"{case.get('classname')}::{case.get('name')}: {why}")
    print()
    for line in sorted(failed):
        print(f"FAILED  {line[:300]}")
    print(f"{sum(counts.values())} tests: " + ", ".join(f"{counts[w]} {w}" for w in WORDS))
    return bool(failed)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    arguments.add_argument("library", choices=FILES)
    arguments.add_argument("--plain", action="store_true", help="without Mobula")
    arguments.add_argument("--python", help="the Python of another environment")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given = arguments.parse_args(sys.argv[1:split])
    begin = time.monotonic()
    told = run(given.library, given.python or prepared(), given.plain, sys.argv[split + 1 :])
    failed = tell(told)
    print(f"{time.monotonic() - begin:.0f} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()
