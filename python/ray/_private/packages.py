"""Folders that travel to workers: a zip file each, named by a hash of what is in it.

They lie in the session's folder, and go with it. A package is never changed, so a process that finds
one has all of it.
"""

import hashlib
import os
import re
import shutil
import tempfile
import zipfile

from ray import _core
from ray._private import services, session

_MOST_BYTES = 512 << 20
_LEFT_OUT = [".git/", "__pycache__/", ".venv/", "venv/"]
_DATE = (1980, 1, 1, 0, 0, 0)  # the same folder is the same package at any time

_OURS = re.compile(r"[0-9a-f]{40}\.zip")

_known: dict = {}  # what was packed in this session already


def of_folder(path: str, excludes, inside: bool) -> str:
    """The package of a folder or file, as workers find it: a path or an address.

    `inside`: what is in the folder, not the folder itself.
    """
    if "://" in path or path.startswith(kept_in() + os.sep):
        return path
    key = (session.epoch, path, tuple(excludes), inside)
    if key not in _known:
        _known[key] = _pack(path, excludes, inside)
    return _known[key]


def kept_in() -> str:
    """Where this session's packages are."""
    return os.path.join(_core.session()["session_dir"], "packages")


def _pack(path, excludes, inside):
    os.makedirs(kept_in(), mode=0o700, exist_ok=True)
    if os.path.isfile(path) and path.endswith((".zip", ".whl")):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha1") if hasattr(hashlib, "file_digest") else None
            if digest is None:  # Python 3.10
                digest = hashlib.sha1(file.read())
        name = f"{digest.hexdigest()}.{os.path.basename(path)}"
        return _placed(name, lambda made: shutil.copyfile(path, made) and name)
    files = _files(path, excludes)
    above = os.path.dirname(path) if os.path.isfile(path) or not inside else path
    return _placed(_digest(files, above) + ".zip", lambda made: _write(made, files, above))


def _digest(files, above):
    digest = hashlib.sha1()
    for each in files:
        digest.update(_about(each, above))
        if each[-1] != "/":
            with open(each, "rb") as file:
                digest.update(hashlib.sha1(file.read()).digest())
    return digest.hexdigest()


def _about(each, above):
    return f"{_name(each, above)}\0{os.stat(each).st_mode & 0o111}\0".encode()


def _name(each, above):
    return os.path.relpath(each, above) + ("/" if each[-1] == "/" else "")


def _placed(name, write):
    """Writes the package under a name of its own first: another process may do the same. `write`
    returns the name of what it wrote, which is another if the folder has changed meanwhile.
    """
    path = os.path.join(kept_in(), name)
    if not os.path.exists(path):
        handle, made = tempfile.mkstemp(dir=kept_in())
        os.close(handle)
        try:
            path = os.path.join(kept_in(), write(made))
            os.rename(made, path)
        except BaseException:
            os.unlink(made)
            raise
    return path


def _write(made, files, above) -> str:
    """Writes the zip file; its name, by what is in it."""
    digest = hashlib.sha1()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
        for each in files:
            info = zipfile.ZipInfo(_name(each, above), _DATE)
            info.external_attr = (os.stat(each).st_mode & 0xFFFF) << 16
            digest.update(_about(each, above))
            if each[-1] == "/":
                package.writestr(info, b"")
                continue
            info.compress_type = zipfile.ZIP_DEFLATED
            with open(each, "rb") as source:
                data = source.read()
            digest.update(hashlib.sha1(data).digest())
            package.writestr(info, data)
    return digest.hexdigest() + ".zip"


def _files(path, excludes) -> list:
    """The files of a folder that are not left out, in order, and folders with nothing in them, which
    end with a slash. Links are what they lead to.
    """
    if os.path.isfile(path):
        return [path]
    import pathspec

    found, size = [], 0
    top = [("", pathspec.GitIgnoreSpec.from_lines([*_LEFT_OUT, *excludes]))]
    obeys = os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE") != "1"
    waiting = [("", top, (os.path.realpath(path),))]
    while waiting:
        inner, rules, above = waiting.pop()
        folder = os.path.join(path, inner)
        ignore = os.path.join(folder, ".gitignore")
        if obeys and os.path.isfile(ignore):
            with open(ignore, encoding="utf-8", errors="replace") as file:
                rules = [*rules, (inner, pathspec.GitIgnoreSpec.from_lines(file))]
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        if inner and not entries:
            found.append(folder + "/")
        for entry in entries:
            name = os.path.join(inner, entry.name)
            is_folder = entry.is_dir()
            if _is_left_out(name + ("/" if is_folder else ""), rules):
                continue
            if is_folder:
                real = os.path.realpath(entry.path)
                if real not in above:  # a link to where it is itself has no end
                    waiting.append((name, rules, (*above, real)))
            elif entry.is_file():  # what a link leads to, too; a pipe or socket can't travel
                found.append(entry.path)
                size += entry.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(
            f"the folder {path} of a runtime_env has {size >> 20} MiB, and may have "
            f"{_MOST_BYTES >> 20}: leave files out by 'excludes' or a .gitignore, or put them where "
            "workers can read them"
        )
    return sorted(found)


def _is_left_out(name, rules):
    for base, spec in rules:
        if spec.match_file(os.path.relpath(name, base or ".") + ("/" if name[-1] == "/" else "")):
            return True
    return False


# ---- where workers are prepared ----


def unpacked(package: str, folder: str, deadline) -> str:
    """The folder with what is in a package; made once."""
    path = fetched(package, folder, deadline)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    folder = os.path.join(folder, os.path.basename(path) + _version(path, folder) + ".files")
    if not os.path.isdir(folder):
        made = tempfile.mkdtemp(dir=os.path.dirname(folder))
        try:
            _extract(path, made)
            os.rename(made, folder)
        except BaseException as error:
            shutil.rmtree(made, ignore_errors=True)
            # another process may have been faster
            if not isinstance(error, OSError) or not os.path.isdir(folder):
                raise
    inner = os.listdir(folder)
    # A zip file of the user's often has all of it in one folder, which is then what is meant.
    if not _OURS.fullmatch(os.path.basename(path)) and len(inner) == 1:
        only = os.path.join(folder, inner[0])
        return only if os.path.isdir(only) else folder
    return folder


def _version(path, folder):
    """Tells apart what a user's own file was at times; a package of the session stays as it is."""
    if os.path.dirname(path) == folder:
        return ""
    now = os.stat(path)
    text = f"{path}\0{now.st_mtime_ns}\0{now.st_size}\0{now.st_ino}"
    return "." + hashlib.sha1(text.encode()).hexdigest()


def _extract(path, made):
    with zipfile.ZipFile(path) as package:
        for info in package.infolist():
            target = package.extract(info, made)
            mode = info.external_attr >> 16 & 0o777
            if mode and not info.is_dir():
                os.chmod(target, mode)


def _on_this_node(path, folder, deadline):
    """A package of another node's session is brought from there."""
    here = os.path.join(folder, os.path.basename(path))
    if os.path.exists(path) or "MOBULA_GUEST" not in os.environ:
        return path
    if not os.path.exists(here):
        left = deadline.left()
        why = _core.fetch(os.path.basename(path), -1 if left is None else int(left * 1000) + 1)
        if why is not None:
            raise FileNotFoundError(
                f"{path}, which lies on the node of the driver, could not be brought to this one "
                f"({services.get_node_ip_address()}): {why}"
            )
    return here


def fetched(package: str, folder: str, deadline) -> str:
    """The file of a package: itself, or what its address leads to, kept in `folder`."""
    if package.startswith("file://"):
        return package.removeprefix("file://")
    if "://" not in package:
        return _on_this_node(package, folder, deadline)
    import urllib.request

    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = hashlib.sha1(package.encode()).hexdigest() + "." + package.rpartition("/")[2]
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        handle, made = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as copy:
                with urllib.request.urlopen(package, timeout=deadline.left()) as source:
                    shutil.copyfileobj(source, copy)
            os.rename(made, path)
        except BaseException:
            os.unlink(made)
            raise
    return path
