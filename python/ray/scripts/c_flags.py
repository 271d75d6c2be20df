"""`ray c-flags`: what a C compiler must be told to build programs with Mobula's C API.

cc driver.c $(ray c-flags) -o driver
cc -shared -fPIC tasks.c $(ray c-flags --compile) -o libtasks.so
"""

import argparse
import os
import sys


def main(argv) -> int:
    """Prints the flags: all of them for a driver, without the library for what is loaded into a
    worker.
    """
    parser = argparse.ArgumentParser(
        "ray c-flags", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--compile", action="store_true", help="without the library: for what a worker loads"
    )
    options = parser.parse_args(argv)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    programs = {
        "MOB_DAEMON": os.path.join(package, "bin", "mobulad"),
        "MOB_WORKER": os.path.join(package, "bin", "mobula-worker"),
        "MOB_PYTHON": sys.executable,
    }
    if any(character.isspace() for path in (package, sys.executable) for character in path):
        print(
            f"ray c-flags: a shell would take {package} or {sys.executable} apart", file=sys.stderr
        )
        return 1
    flags = [
        "-I" + os.path.join(package, "include"),
        *(f'-D{name}="{path}"' for name, path in programs.items()),
    ]
    if not options.compile:
        flags += [os.path.join(package, "lib", "libmobula.a"), "-lpthread", "-ldl"]
    print(" ".join(flags))
    return 0
