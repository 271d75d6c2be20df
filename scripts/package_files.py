"""Lists the files of the Python package, one a line, relative to the folder that holds it; the
build asks for it.
"""

import os
import sys


def main(folder):
    found = []
    for path, folders, names in os.walk(os.path.join(folder, "ray")):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [
            os.path.join(path, name) for name in names if not name.endswith((".pyc", ".so", "~"))
        ]
    print("\n".join(sorted(os.path.relpath(name, folder) for name in found)))


if __name__ == "__main__":
    main(sys.argv[1])
