"""Disks that tests make for themselves."""

import contextlib
import ctypes
import mmap
import os
import subprocess

import numpy as np
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


def share_in_cache(paths) -> float:
    """How much of these files the kernel's page cache has, 0 to 1."""
    pages = there = 0
    for path in paths:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as whole:
            count = (len(whole) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
            found = (ctypes.c_ubyte * count)()
            view = np.frombuffer(whole, dtype=np.uint8)
            place = ctypes.c_void_p(view.ctypes.data)
            assert ctypes.CDLL(None).mincore(place, ctypes.c_size_t(len(whole)), found) == 0
            pages += count
            there += sum(byte & 1 for byte in found)
            del view
    return there / pages if pages else 0.0
