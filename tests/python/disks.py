"""Disks that tests make for themselves."""

import contextlib
import os
import subprocess

import pytest


@contextlib.contextmanager
def mounted(path, *options, device="none"):
    """A file system at `path`, which is made; the test is skipped where nothing can be mounted."""
    os.mkdir(path)
    made = subprocess.run(["mount", *options, device, path], capture_output=True)
    if made.returncode != 0:
        pytest.skip("nothing can be mounted here: " + made.stderr.decode().strip())
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
