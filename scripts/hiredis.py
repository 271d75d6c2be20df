"""Fetches the C sources of hiredis, which the daemon speaks to Redis with, into build-hiredis/:
from the source distribution of the Python package that carries them. The build calls it; it does
nothing when they are there.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "3.5.0"
SHA256 = "c227592cc56b7df247abe4755c26723965be68972be2149fa441ac33d82131ba"
FOLDER = Path(__file__).resolve().parent.parent / "build-hiredis"


def fetch(folder):
    """The archive in the folder, checked."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        + ["--no-deps", "--no-binary", ":all:", f"hiredis=={VERSION}", "-d", folder],
        check=True,
    )
    archive = Path(folder) / f"hiredis-{VERSION}.tar.gz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{archive.name} is not what it was: nothing is built from it")
    return archive


def unpack(archive, folder):
    """The library's own sources, all in one folder, and its license."""
    inside = f"hiredis-{VERSION}/vendor/hiredis/"
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix(inside)
            if member.isfile() and name != member.name and "/" not in name:
                (folder / name).write_bytes(tar.extractfile(member).read())


def main():
    stamp = FOLDER / "VERSION"
    if stamp.exists() and stamp.read_text() == VERSION:
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch(folder)
        made = Path(folder) / "made"
        made.mkdir()
        unpack(archive, made)
        (made / "VERSION").write_text(VERSION)
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(made, FOLDER)


if __name__ == "__main__":
    main()
