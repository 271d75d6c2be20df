"""All tests, part by part. Every part runs, whatever became of the one before it; at the end stand
the names of the tests that failed. Used by `make test`.

The parts are the unit tests, the Python tests, both again with everything through the daemon (the
unit tests that start a whole system, and of the Python tests those that are not marked one_path:
see tests/python/conftest.py), and the seeds' programs, if they are there, two of them also on a
`ray start` node.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MESON_LOG = ROOT / "build" / "meson-logs" / "testlog.json"
THROUGH_DAEMON = {"MOBULA_FAST_PATH": "0"}
# A name, with what it was called with in brackets, and what was wrong.
FAILED_BY_PYTEST = r"^(?:FAILED|ERROR) ([^\[\n]+?(?:\[.*?\])?)(?: - .*)?$"
ON_A_NODE = ("manual_ray", "book_fib_pi")  # of the seeds' programs
PASSED_BY_MESON = ("OK", "SKIP", "EXPECTEDFAIL")


def run(command, **environment):
    """Runs a command, whose output goes through; its exit status and its output."""
    # meson looks for ninja on the path.
    path = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, **environment}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        output = b""
        while piece := os.read(process.stdout.fileno(), 1 << 16):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            output += piece
    return process.returncode, output.decode(errors="replace")


def unit_tests(*options, **environment):
    MESON_LOG.unlink(missing_ok=True)
    command = ["meson", "test", "-C", "build", "--print-errorlogs", *options]
    status, _ = run(command, **environment)
    lines = MESON_LOG.read_text().splitlines() if MESON_LOG.exists() else []
    ran = [json.loads(line) for line in lines]
    failed = [row["name"] for row in ran if row["result"] not in PASSED_BY_MESON]
    return status, [name.rpartition(":")[2] for name in failed]


def python_tests(pytest, *options, **environment):
    status, output = run([*pytest, "-rfE", *options], **environment)
    return status, re.findall(FAILED_BY_PYTEST, output, re.MULTILINE)


def seeds(program, *names, python=sys.executable, **environment):
    command = [sys.executable, program, "--python", python, *names]
    status, output = run(command, **environment)
    return status, re.findall(r"^FAIL +(\S+)", output, re.MULTILINE)


def seeds_on_a_node(program):
    """They join a node of their own, which other programs of this user do not find."""
    ray = str(ROOT / ".venv" / "bin" / "ray")
    with tempfile.TemporaryDirectory(prefix="mobula-seeds-") as folder:
        environment = {"RAY_TMPDIR": folder, "RAY_ADDRESS": "auto"}
        status, _ = run([ray, "start", "--head", "--port=0"], **environment)
        if status:
            return status, []
        try:
            status, failed = seeds(program, *ON_A_NODE, **environment)
        finally:
            stopped, output = run([ray, "stop"], **environment)  # all that this folder has
        if stopped or "Stopped all" not in output:
            return 1, [*failed, "ray stop, which leaves nothing behind"]
        return status, failed


def parts(pytest, seeds_program):
    yield "unit tests", lambda: unit_tests()
    yield "Python tests", lambda: python_tests(pytest)
    yield (
        "unit tests through the daemon",
        lambda: unit_tests("--suite", "system", **THROUGH_DAEMON),
    )
    yield (
        "Python tests through the daemon",
        lambda: python_tests(pytest, "-m", "not one_path", **THROUGH_DAEMON),
    )
    if os.path.exists(seeds_program):
        yield "seeds' programs", lambda: seeds(seeds_program)
        yield "seeds' programs on a started node", lambda: seeds_on_a_node(seeds_program)
    else:
        print(f"The seeds' programs are not run: {seeds_program} is not there.", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    arguments.add_argument("--pytest", required=True, type=shlex.split, help="its command")
    arguments.add_argument("--seeds", required=True, help="the program that runs the seeds'")
    given = arguments.parse_args()
    run_all(parts(given.pytest, given.seeds))


def run_all(parts):
    """Runs the parts, (title, function) each, says what failed, and ends the process."""
    ended = []
    for title, part in parts:
        print(f"==== {title} ====", flush=True)
        begin = time.monotonic()
        status, failed = part()
        ended.append((title, status, failed, time.monotonic() - begin))
    print()
    for title, status, _, seconds in ended:
        print(f"{'failed' if status else 'passed'}  {seconds:4.0f} s  {title}")
    for title, status, failed, _ in ended:
        for name in failed or [f"no test by name: the whole ended with {status}"] * bool(status):
            print(f"FAILED  {title}: {name}")
    sys.exit(any(status for _, status, _, _ in ended))


if __name__ == "__main__":
    main()
