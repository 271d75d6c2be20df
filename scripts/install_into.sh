#!/bin/sh
# Puts Mobula into the environments given, each a folder: the wheel of .venv's build, which must be
# there, or for another version of Python one that is compiled for it. Does nothing where that
# environment has this build already.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH # meson and ninja
export PATH

abi_of() {
    "$1" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))'
}

wheel=
for environment in "$@"; do
    if [ "$environment/.mobula" -nt build/.installed ]; then continue; fi
    echo "Putting Mobula into $environment"
    if [ "$(abi_of "$environment/bin/python")" = "$(abi_of .venv/bin/python)" ]; then
        if [ -z "$wheel" ]; then
            rm -rf build/wheel
            .venv/bin/python -m pip wheel -q --disable-pip-version-check --no-build-isolation \
                --no-deps -w build/wheel --config-settings build-dir=build .
            wheel=$(echo build/wheel/*.whl)
        fi
        what=$wheel
    else
        what="--config-settings build-dir=build-$(basename "$environment") ."
    fi
    # shellcheck disable=SC2086 # options and a folder
    "$environment/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
        --force-reinstall $what
    touch "$environment/.mobula"
done
