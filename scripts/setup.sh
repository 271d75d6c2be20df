#!/bin/sh
# Makes a machine ready for every make target: Debian packages, then .venv with the build and test
# tools. Does nothing, quickly, when all is there. `setup.sh bench` also makes .venv-bench, which
# holds Ray for comparison, and installs iperf3; `setup.sh plots` makes .venv-plots, which holds
# matplotlib; `setup.sh types` makes .venv-types, which holds what checks types; `setup.sh wheel`
# makes .venv-wheel, which holds auditwheel; `setup.sh own` makes .venv-own, for
# scripts/clients_own.py; `setup.sh ml` makes the environments of `make test-ml`: .venv-tf,
# .venv-torch and .venv-clients.
set -eu
cd "$(dirname "$0")/.."

# Prints those of the given Debian packages that are not installed.
missing_of() {
    for package in "$@"; do
        case $installed in
        *" $package "*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

# The `python3` on the path has what a build needs: version, venv, headers.
python_is_complete() {
    python3 - 2>/dev/null <<'PYTHON'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 10) and os.path.exists(header)))
PYTHON
}

install_packages() {
    packages=$1
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        echo "Some system packages are missing. Run this, then make again:" >&2
        echo "  sudo apt-get update && sudo apt-get install -y $packages" >&2
        exit 1
    fi
    echo "Installing: $packages"
    $as_root apt-get update -qq
    # shellcheck disable=SC2086 # both are lists of words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $packages >/dev/null
}

# Makes environment $1 with what the requirements file $2 lists; $3, where it is given, makes an empty
# one. The copy kept inside says for which list it is ready.
make_environment() {
    if [ -x "$1/bin/python" ] && cmp -s "$2" "$1/.ready"; then return; fi
    echo "Preparing $1"
    # shellcheck disable=SC2086 # a command of several words
    [ -x "$1/bin/python" ] || ${3:-python3 -m venv} --clear "$1"
    "$1/bin/python" -m pip install -q --disable-pip-version-check -r "$2"
    cp "$2" "$1/.ready"
}

# torch is Debian's: PyPI's brings 3 GB of CUDA with it. So the environment is one of Debian's Python.
make_torch_environment() {
    if [ -z "${installed-}" ]; then
        echo "No .venv-torch: this is not Debian, whose python3-torch it would use." >&2
        return
    fi
    missing=$(missing_of python3-torch python3-torchvision python3-venv)
    if [ -n "$missing" ]; then install_packages "$missing"; fi
    make_environment .venv-torch scripts/requirements-torch.txt \
        "/usr/bin/python3 -m venv --system-site-packages"
}

if command -v dpkg-query >/dev/null; then
    installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
        sed -n 's/^installed //p' | tr '\n' ' ')"
    missing=$(missing_of build-essential libuv1-dev libmbedtls-dev libxxhash-dev libcmocka-dev \
        clang-format openssl redis-server iproute2)
    [ -x .venv/bin/python ] || python_is_complete ||
        missing="$missing$(missing_of python3 python3-venv python3-dev)"
    if [ -n "$missing" ]; then install_packages "$missing"; fi
fi

if ! [ -x .venv/bin/python ] && ! python_is_complete; then
    echo "The python3 on the path ($(command -v python3 || echo none)) must be 3.10 or newer," >&2
    echo "with venv and its headers." >&2
    exit 1
fi

make_environment .venv scripts/requirements.txt
case ${1-} in
bench)
    if [ -n "${installed-}" ]; then
        missing=$(missing_of iperf3)
        if [ -n "$missing" ]; then install_packages "$missing"; fi
    fi
    make_environment .venv-bench scripts/requirements-bench.txt
    ;;
own | plots | types | wheel) make_environment ".venv-$1" "scripts/requirements-$1.txt" ;;
ml)
    make_environment .venv-tf scripts/requirements-tf.txt
    make_torch_environment
    make_environment .venv-clients scripts/requirements-clients.txt
    ;;
esac
