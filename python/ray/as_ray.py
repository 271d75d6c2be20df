"""Lets pip know that this environment has Ray's API: libraries that require a distribution called
`ray` can then be installed as they are, and pip does not fetch Ray itself.

    python -m ray.as_ray          # pip now lists `ray` beside `mobula-ray`
    python -m pip install "modin[ray]"
    python -m ray.as_ray --undo   # `pip uninstall ray` does the same

What is added is a folder of metadata, `ray-<version>.dist-info`, next to the package, whose INSTALLER
reads "mobula-ray". There is no code in it. Extras of Ray that Mobula does not have (`ray[data]`, say)
are not promised: pip warns of them, and goes on.
"""

import argparse
import base64
import hashlib
import os
import shutil
import sys
import tempfile
from importlib import metadata

INSTALLER = "mobula-ray"

_METADATA = """\
Metadata-Version: 2.1
Name: ray
Version: {version}
Summary: Stands for Ray's API, which the distribution mobula-ray has in this environment
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: mobula-ray
Provides-Extra: default

This distribution holds nothing but these lines. `python -m ray.as_ray` of mobula-ray made them, so
that libraries which require `ray` can be installed; `python -m ray.as_ray --undo` removes them.
"""


class RayIsInstalled(Exception):
    """The environment has a distribution `ray` that is not ours."""


def give(folder: str) -> "str | None":
    """Adds the metadata to `folder`, which holds the package, and returns where; None if they are
    there already, for this version. Those of another version of Mobula are replaced.

        ray.as_ray.give(os.path.dirname(ray.__path__[0]))

    Raises RayIsInstalled where Python finds Ray itself, in that folder or elsewhere.
    """
    from ray import __version__ as version

    target = os.path.join(folder, f"ray-{version}.dist-info")
    ours, foreign = _distributions(folder)
    if foreign:
        raise RayIsInstalled(
            f"Ray {foreign[0].version} is installed in {foreign[0].locate_file('')}. pip knows "
            "it as `ray`; to have Mobula under that name, uninstall Ray first:\n"
            "    python -m pip uninstall -y ray mobula-ray\n"
            "    python -m pip install mobula-ray"
        )
    if ours == [target]:
        return None
    # Made aside, then put into place by one rename: pip never sees half of it.
    made = tempfile.mkdtemp(prefix=".ray-metadata-", dir=folder)
    try:
        _write(made, os.path.basename(target), version)
        for old in ours:
            shutil.rmtree(old)
        os.rename(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return target


def take_back(folder: str) -> "list[str]":
    """Removes what `give` has added to `folder`, of whichever version, and returns what that was.
    Ray's own metadata are never touched.

        ray.as_ray.take_back(os.path.dirname(ray.__path__[0]))
    """
    ours, _ = _distributions(folder)
    for path in ours:
        shutil.rmtree(path)
    return ours


def _distributions(folder):
    """The folders in `folder` that `give` made, and every other distribution `ray` that Python
    finds, there or on its path.
    """
    ours, foreign = [], []
    for found in metadata.distributions(name="ray", path=[folder, *sys.path]):
        if (found.read_text("INSTALLER") or "").strip() != INSTALLER:
            foreign.append(found)
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.startswith("ray-") and name.endswith(".dist-info") and _is_ours(path):
            ours.append(path)
    return ours, foreign


def _is_ours(path):
    try:
        with open(os.path.join(path, "INSTALLER"), encoding="utf-8") as file:
            return file.read().strip() == INSTALLER
    except OSError:
        return False


def _write(made, name, version):
    os.chmod(made, 0o755)  # a temporary folder is its owner's alone
    contents = {"METADATA": _METADATA.format(version=version), "INSTALLER": INSTALLER + "\n"}
    record = [
        f"{name}/{file},sha256={_digest(text)},{len(text.encode())}"
        for file, text in contents.items()
    ]
    contents["RECORD"] = "\n".join([*record, f"{name}/RECORD,,", ""])
    for file, text in contents.items():
        with open(os.path.join(made, file), "w", encoding="utf-8") as out:
            out.write(text)


def _digest(text):
    """As RECORD has it: base64 for URLs, without the padding."""
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def main(arguments: "list[str] | None" = None) -> int:
    """The command `python -m ray.as_ray`; returns its exit status."""
    import ray

    parser = argparse.ArgumentParser(
        prog="python -m ray.as_ray", description="Lets pip take Mobula for the distribution `ray`."
    )
    parser.add_argument("--undo", action="store_true", help="remove that again")
    undo = parser.parse_args(arguments).undo
    folder = os.path.dirname(os.path.abspath(ray.__path__[0]))
    try:
        if undo:
            removed = take_back(folder)
            for path in removed:
                print(f"Removed {path}: pip knows no `ray` here any more.")
            if not removed:
                print(f"Nothing to undo: {folder} has no metadata of ours called `ray`.")
        else:
            made = give(folder)
            if made:
                print(f"Made {made}: pip now knows Mobula as `ray` {ray.__version__}.")
                print("`python -m ray.as_ray --undo` removes it.")
            else:
                print(f"pip knows Mobula as `ray` {ray.__version__} already.")
    except (RayIsInstalled, OSError) as error:
        print(f"python -m ray.as_ray: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
