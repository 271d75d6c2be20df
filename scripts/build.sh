#!/bin/sh
# Builds the wheel in folder $1 and installs it: into .venv, or, where $2 is given, into that folder
# by itself. Further arguments go to `meson setup`. Does nothing when nothing changed since the last
# time.
set -eu
cd "$(dirname "$0")/.."
build=$1
target=${2-}
shift
[ $# = 0 ] || shift

# meson-python, without a build environment of its own, takes meson and ninja from the path.
PATH=$PWD/.venv/bin:$PATH
export PATH

# Two makes at once take turns.
exec 9>.venv/.lock
flock 9

stamp=$build/.installed
inputs="src include python examples/c bench/c tests/meson.build tests/unit meson.build meson.options
        pyproject.toml LICENSE README.md scripts .venv/.ready"
if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$target $*" ]; then
    # Folders count too: their time tells of a file that went away.
    # shellcheck disable=SC2086 # a list of words
    if [ -z "$(find $inputs -newer "$stamp" -print -quit)" ]; then exit 0; fi
fi

started=$(mktemp)
trap 'rm -f "$started"' EXIT
echo "$target $*" >"$started"
set -- "$@" -Dwerror=true -Dtests=enabled

# Compiled here first, so that the compiler's messages do not come wrapped in pip's.
if ! [ -e "$build/build.ninja" ]; then
    meson setup "$build" "$@" >/dev/null 2>&1 || meson setup "$build" "$@"
fi
ninja -C "$build" --quiet

for setting in "$@"; do
    set -- "$@" --config-settings "setup-args=$setting"
    shift
done
python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
    --force-reinstall ${target:+--target "$target" --upgrade} \
    --config-settings "build-dir=$build" "$@" .
# The stamp carries the time at which the build began: what was saved during it is built the next
# time.
mv "$started" "$stamp"
