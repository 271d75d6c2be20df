#!/bin/sh
# Builds a wheel for each CPython from 3.10 to 3.13 that is on this machine, on the path or with
# pyenv, has auditwheel tag it for manylinux, and tries each in an environment of its own
# (try_wheel.sh). They are in dist/ then, with as much debug information as gdb needs for names and
# lines.
set -eu
cd "$(dirname "$0")/.."
most=$((5 * 1024 * 1024)) # bytes of a wheel

# The interpreter of version $1 that can build: with its headers.
python_of() {
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$python" - 2>/dev/null <<'PYTHON'; then
import os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PYTHON
            "$python" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

rm -rf build-wheel dist
mkdir -p build-wheel dist
tried=
absent=
for version in 3.10 3.11 3.12 3.13; do
    python=$(python_of $version)
    if [ -z "$python" ]; then
        absent="$absent $version"
        continue
    fi
    echo "CPython $version: $python"
    "$python" -m venv "build-wheel/$version"
    "build-wheel/$version/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps \
        -w "build-wheel/raw-$version" --config-settings "build-dir=build-wheel/meson-$version" \
        --config-settings setup-args=-Dtests=disabled --config-settings setup-args=-Dc_args=-g1 .
    told=build-wheel/auditwheel-$version.log
    PATH=$PWD/.venv-wheel/bin:$PATH .venv-wheel/bin/auditwheel repair -w "build-wheel/$version" \
        "build-wheel/raw-$version"/*.whl >"$told" 2>&1 || {
        cat "$told" >&2
        exit 1
    }
    wheel=$(echo "build-wheel/$version"/*.whl)
    mv "$wheel" dist/
    wheel=dist/$(basename "$wheel")
    size=$(stat -c %s "$wheel")
    echo "  $wheel: $((size / 1024)) KiB"
    if [ "$size" -gt $most ]; then
        echo "  that is more than $((most / 1024)) KiB" >&2
        exit 1
    fi
    scripts/try_wheel.sh "$python" "$wheel"
    tried="$tried $version"
done
if [ -z "$tried" ]; then
    echo "No CPython from 3.10 to 3.13 with its headers is on this machine." >&2
    exit 1
fi
echo "Built and tried:$tried.${absent:+ Not on this machine:$absent.}"
