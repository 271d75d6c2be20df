"""Runtime environments, where workers are prepared: the process that they are forked from makes true
what the fields say (runtime_env.py checks them).

Packages of pip and uv are installed into virtual environments that outlive the session, for an
installation takes longer than most programs: in the user's folder for caches, one for each different
list. They see what the driver's own environment has, too.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

from ray import _core
from ray._private import packages, services

_KEPT = 20  # virtual environments, those that were used last
_SHOWN = 6000  # of what an installer says


class Unfit(Exception):
    """Why the environment can't be had, in words for people."""


class Deadline:
    """When everything must be done."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._end = None if seconds == -1 else time.monotonic() + seconds

    def left(self) -> "float | None":
        """Seconds; None: as many as it takes."""
        return None if self._end is None else max(0.001, self._end - time.monotonic())


def prepare(words: dict):
    """Makes this process one whose children are in the environment. May go on as another program,
    which comes here again.
    """
    fields = words["runtime_env"]
    os.environ.update(fields.get("env_vars", {}))  # a node's own may have come before them
    deadline = Deadline(fields.get("config", {}).get("setup_timeout_seconds", 600))
    try:
        for tool in ("pip", "uv"):
            if tool in fields:
                _enter(tool, fields[tool], deadline)
        _find_modules(fields, _kept_in(words), deadline)
    except Unfit as error:
        return f"Failed to set up runtime environment.\n{error}"
    except Exception as error:
        return f"Failed to set up runtime environment.\n{type(error).__name__}: {error}"
    return None


def _kept_in(words):
    """Where this node keeps packages: the session that the words name may be another node's."""
    session = os.environ.get("MOBULA_GUEST")
    return os.path.join(session, "packages") if session else words["packages"]


def _find_modules(fields, folder, deadline):
    paths = []
    if "PYTHONPATH" in fields.get("env_vars", {}):
        paths += fields["env_vars"]["PYTHONPATH"].split(os.pathsep)
    if "working_dir" in fields:
        where = packages.unpacked(fields["working_dir"], folder, deadline)
        os.chdir(where)
        paths.append(where)
    for module in fields.get("py_modules", ()):
        paths.append(packages.unpacked(module, folder, deadline))  # a wheel is a zip file, too
    sys.path[:0] = [path for path in paths if path]
    if paths:
        _tell_subprocesses(paths)


def _tell_subprocesses(paths):
    """A Python that a worker starts finds the same modules."""
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    joined = list(dict.fromkeys([*paths, *before]))
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in joined if path)


# ---- packages that are installed ----


def _enter(tool, wanted, deadline):
    """Goes on as the interpreter of the virtual environment with these packages."""
    parents = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    if _is_in(tool, wanted):
        _put_before(parents)
        return
    about = {"tool": tool, "wanted": wanted, "python": sys.version, "where": sys.prefix}
    about["parents"] = parents
    text = json.dumps(about, sort_keys=True)
    place = os.path.join(_cache(), hashlib.sha1(text.encode()).hexdigest())
    _build_once(tool, wanted, place, parents, text, deadline)
    os.environ["VIRTUAL_ENV"] = place
    os.environ["PATH"] = os.path.join(place, "bin") + os.pathsep + os.environ.get("PATH", "")
    _core.become(services.zygote_command([os.path.join(place, "bin", "python")]))


def _is_in(tool, wanted) -> bool:
    """Whether this interpreter is that of the virtual environment. The driver's own may be one too,
    for a task can start programs.
    """
    try:
        with open(os.path.join(sys.prefix, "mobula.json"), encoding="utf-8") as file:
            about = json.load(file)
    except (OSError, ValueError):
        return False
    return about["tool"] == tool and about["wanted"] == wanted


def _put_before(parents):
    """The packages of this environment come before those of the driver's."""
    import sysconfig

    own = sysconfig.get_paths()["purelib"]
    at = sys.path.index(parents[0]) if parents else len(sys.path)
    sys.path.insert(at, own)


def _cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(base, "mobula", "environments")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def _build_once(tool, wanted, place, parents, text, deadline):
    """The environment is there and nobody removes it as long as this process's children live: they
    have a lock on it.
    """
    import fcntl

    lock = os.open(place + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(lock, True)  # also by the program that this one becomes
    done = os.path.join(place, "mobula.json")
    while True:
        _lock(lock, fcntl.LOCK_SH, deadline)
        if os.path.exists(done):
            break
        # between one lock and the other there is none: others may build it, or remove it
        _lock(lock, fcntl.LOCK_EX, deadline)
        if not os.path.exists(done):
            _build(tool, wanted, place, parents, deadline, lock)
            with open(done + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(done + ".new", done)
    os.utime(done)
    _forget_old()


def _lock(lock, how, deadline):
    import fcntl

    while True:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if deadline.left() is not None and deadline.left() <= 0.001:
                raise Unfit(
                    f"another process has been installing the same for {deadline.seconds} s"
                ) from None
            time.sleep(0.05)


def _build(tool, wanted, place, parents, deadline, lock):
    import shutil

    shutil.rmtree(place, ignore_errors=True)
    try:
        _run(
            [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", place],
            deadline,
            lock,
        )
        python = os.path.join(place, "bin", "python")
        found = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
            capture_output=True,
            text=True,
        ).stdout.strip()
        with open(os.path.join(found, "mobula_parents.pth"), "w", encoding="utf-8") as file:
            file.write("".join([f"{path}\n" for path in parents]))
        _run(_install(tool, wanted, python), deadline, lock)
        if wanted.get(f"{tool}_check"):
            check = (
                ["pip", "check", "--python", python]
                if tool == "uv"
                else ["--python", python, "check"]
            )
            _run([*_installer(tool), *check], deadline, lock)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _install(tool, wanted, python):
    given = wanted["packages"]
    if tool == "uv":
        options = wanted.get("uv_pip_install_options", ["--no-cache"])
        return [*_installer(tool), "pip", "install", "--python", python, *options, *_words(given)]
    options = wanted.get("pip_install_options", ["--disable-pip-version-check", "--no-cache-dir"])
    return [
        *_installer(tool),
        "--python",
        python,
        "install",
        "--no-input",
        *options,
        *_words(given),
    ]


def _words(lines):
    """A line of a requirements file may be an option with its value."""
    import shlex

    return [word for line in lines for word in (shlex.split(line) if line[:1] == "-" else [line])]


def _installer(tool):
    import shutil
    from importlib.util import find_spec

    if find_spec(tool) is not None:
        return [sys.executable, "-m", tool]
    if tool == "uv" and shutil.which("uv"):
        return ["uv"]
    raise Unfit(
        f"runtime_env has {tool}, which {sys.executable} does not have: install {tool} there "
        f"({'python -m ensurepip' if tool == 'pip' else 'pip install uv'})"
    )


def _run(command, deadline, lock):
    """Runs an installer. It has the lock, too: where this process is killed and it goes on, nobody
    builds in the same place. (The daemon kills it then, by the session that it shares with us.)
    """
    running = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")},
        pass_fds=(lock,),
        preexec_fn=os.setpgrp,
    )
    try:
        said, _ = running.communicate(timeout=deadline.left())
    except subprocess.TimeoutExpired as error:
        os.killpg(running.pid, signal.SIGKILL)  # and what it has started
        running.wait()
        said = error.stdout or b""
        said = said.decode(errors="replace") if isinstance(said, bytes) else said
        raise Unfit(
            f"it took longer than setup_timeout_seconds, {deadline.seconds} s: "
            f"{' '.join(command)}\n{said[-_SHOWN:]}"
        ) from None
    if running.returncode != 0:
        raise Unfit(
            f"{' '.join(command)} ended with status {running.returncode}, and said:\n"
            f"{said[-_SHOWN:]}"
        )


def _forget_old():
    """Removes environments that have not been used for longest, and that nobody is in."""
    import fcntl
    import shutil

    folder = _cache()
    marks = [os.path.join(folder, name, "mobula.json") for name in os.listdir(folder)]
    made = [
        (os.path.getmtime(mark), os.path.dirname(mark)) for mark in marks if os.path.exists(mark)
    ]
    for _, place in sorted(made)[:-_KEPT]:
        lock = os.open(place + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        except BlockingIOError:  # somebody is in it
            pass
        finally:
            os.close(lock)
