"""Sessions of this user on this machine, seen from outside."""

import os


def find_socket(address=None) -> str:
    """The socket of a session: of the one in the folder `address`; of this process's own; else of
    the newest.
    """
    from ray import _core

    if address in (None, "auto", "local"):
        if _core.is_connected():
            return _core.session()["socket"]
        for folder in live_sessions():
            return os.path.join(folder, "socket")
        raise ConnectionError(
            "no session of this user is running here. If one was started with another _temp_dir "
            "or RAY_TMPDIR, set RAY_TMPDIR to that"
        )
    path = os.path.join(os.fspath(address), "socket")
    if not os.path.exists(path):
        raise ConnectionError(f"{address!r} is not the folder of a session")
    return path


def live_sessions() -> list:
    """The folders of sessions whose daemon lives, newest first."""
    from ray._private.services import temp_folder

    parent = os.path.join(temp_folder(None), f"mobula-{os.geteuid()}")
    try:
        folders = [
            os.path.join(parent, name) for name in os.listdir(parent) if name.startswith("session_")
        ]
    except OSError:
        return []
    return sorted(
        filter(_lives, folders),
        key=lambda folder: os.path.basename(folder).split("_")[1],
        reverse=True,
    )


def _lives(folder) -> bool:
    import fcntl

    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:  # its daemon holds it
        return True
    finally:
        os.close(fd)
