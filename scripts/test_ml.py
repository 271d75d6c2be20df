"""The tests that need other libraries, each in the environment that has them; those environments
that are not there are left out, with a word. Used by `make test-ml`, which makes all of them, and
by .ci/run, which makes none.

    .venv-tf       TensorFlow: the seeds' programs that need it, and what carries Keras' weights
    .venv-torch    torch and torchvision: tensors, modules, the image pipeline
    .venv-clients  programs and libraries that know nothing of Mobula, in their newest versions
"""

import argparse
import os
import subprocess
from functools import partial

from test import ROOT, python_tests, run_all, seeds

# Which of tests/python each environment runs. A test that needs a library which is not there says
# so, and is left out; so a library that is in two environments is tested in both.
TESTS = {
    "tf": ("test_carry_*.py", "test_weights_*.py", "test_docs_examples_ml.py"),
    "torch": (
        "test_carry_*.py",
        "test_weights_*.py",
        "test_docs_examples_ml.py",
        "test_image_pipeline.py",
        "test_collective.py",
    ),
    "clients": ("test_carry_*.py", "test_client_*.py"),
}
OF_TENSORFLOW = ("ex11", "lenet", "tf_weights", "tf_average", "tf_gradients")  # of the seeds


def parts(seeds_program):
    for name, patterns in TESTS.items():
        environment = ROOT / f".venv-{name}"
        if not (environment / "bin" / "python").exists():
            print(
                f"Left out: {environment.name} is not there; `make test-ml` makes it.", flush=True
            )
            continue
        subprocess.run([ROOT / "scripts" / "install_into.sh", environment], check=True)
        python = str(environment / "bin" / "python")
        files = sorted(
            str(path) for pattern in patterns for path in (ROOT / "tests" / "python").glob(pattern)
        )
        pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        yield f"{environment.name}: tests", partial(python_tests, pytest, *files)
        if name == "tf" and os.path.exists(seeds_program):
            yield (
                f"{environment.name}: the seeds' programs",
                partial(seeds, seeds_program, *OF_TENSORFLOW, python=python),
            )
        elif name == "tf":
            print(f"The seeds' programs are not run: {seeds_program} is not there.", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    arguments.add_argument("--seeds", required=True, help="the program that runs the seeds'")
    run_all(parts(arguments.parse_args().seeds))


if __name__ == "__main__":
    main()
