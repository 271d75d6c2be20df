"""Notices Ray itself in the folder of this package: both are the package `ray`, so pip has written
the files of one over those of the other.
"""

import os


def refuse_ray_beside(package: str):
    """Raises ImportError if Ray's files are in the folder that has `package`.

    Every import comes here, so all it costs is a listing of that folder: metadata is read only
    where there is some with Ray's name.
    """
    folder = os.path.dirname(package)
    try:
        names = os.listdir(folder)
    except OSError:  # no folder: an archive, say
        return
    for name in names:
        if (
            name.startswith("ray-")
            and name.endswith((".dist-info", ".egg-info"))
            and _may_have_files(os.path.join(folder, name))
        ):
            raise ImportError(
                f"Ray {name[4:].rpartition('.')[0]} is installed in {folder}, where "
                "Mobula (mobula-ray) is too. Both are the package `ray`: the files of one lie over "
                "those of the other, and neither is whole. Uninstall both, then install the one "
                "that is wanted:\n"
                "    python -m pip uninstall -y ray mobula-ray\n"
                "    python -m pip install mobula-ray"
            )


def _may_have_files(metadata) -> bool:
    """Whether a distribution has a package `ray`. Some are metadata only, made by hand to meet
    another's requirement.
    """
    try:
        with open(os.path.join(metadata, "RECORD"), encoding="utf-8") as file:
            return any(line.startswith("ray/__init__.py,") for line in file)
    except OSError:  # not all installers leave a list
        return True
