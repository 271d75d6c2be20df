"""The example in C does what it says.

Usage: test_c_example.py DRIVER LIBRARY FOLDER_OF_ITS_PYTHON_MODULE
"""

import os
import subprocess
import sys

EXPECTED = """40 + 2 = 42
40 + "two": task: argument 1 is a str, and an int is needed
0 + ... + 99, by a hundred tasks of a task: 4950
the sum of a million halves, in place: 500000.0
a counter in C: 10 11 13
json.dumps: [1;2.5;"three"]
math.sqrt(-1): task: ValueError: math domain error
a counter in Python: 10 11 13
the sum of a million halves, in place: 500000.0
"""


def main(driver, library, folder):
    ran = subprocess.run(
        [driver, library],
        env={**os.environ, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if ran.returncode == 0 and ran.stdout == EXPECTED:
        return
    said = f"--- output:\n{ran.stdout}--- errors:\n{ran.stderr}--- expected:\n{EXPECTED}"
    sys.exit(f"status {ran.returncode}\n{said}")


if __name__ == "__main__":
    main(*sys.argv[1:])
