#!/bin/sh
# Installs wheel $2 into a fresh environment of interpreter $1, in an empty folder, and runs a program
# there with nothing but that environment's programs on the path: no compiler, and nothing of this
# folder.
set -eu
python=$1
wheel=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$python" -m venv env

clean() {
    env -i HOME="$folder" TMPDIR="$folder" PATH="$folder/env/bin" "$@"
}

if clean "$(command -v sh)" -c 'command -v cc || command -v gcc || command -v clang'; then
    echo "there is a compiler on the path" >&2
    exit 1
fi
clean env/bin/python -m pip install -q --disable-pip-version-check --only-binary :all: "$wheel"
mkdir empty
cd empty
cat >../program.py <<'PYTHON'
import os

import ray


@ray.remote
def square(x):
    return x * x


@ray.remote
def count(n):
    yield from range(n)


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n += k
        return self.n


assert ray.get([square.remote(i) for i in range(100)]) == [i * i for i in range(100)]
counter = Counter.remote()
assert ray.get([counter.add.remote(1) for _ in range(100)]) == list(range(1, 101))
assert [ray.get(ref) for ref in count.remote(3)] == [0, 1, 2]
assert bytes(ray.get(ray.put(bytearray(1 << 20)))) == bytes(1 << 20)
assert os.path.dirname(ray.__file__).startswith(os.environ["HOME"])
ray.shutdown()
print(f"  ray {ray.__version__}: tasks, generators, actors and objects work")
PYTHON
clean ../env/bin/python ../program.py
clean ../env/bin/ray --version >/dev/null
