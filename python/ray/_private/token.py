"""The cluster's token: whoever knows it may do everything. The same rules as src/net/token.c, which
the daemon reads it by: RAY_AUTH_TOKEN, else the file that RAY_AUTH_TOKEN_PATH names, else
~/.ray/auth_token.
"""

import contextlib
import errno
import hashlib
import hmac
import os
import stat

MIN, MAX = 8, 4096  # characters
_SPACE = " \t\n\v\f\r"


class TokenError(OSError):
    """Why there is no token that could be used; it names the place, never the token."""


def find() -> "str | None":
    """The token; None: there is none anywhere."""
    value, path = os.environ.get("RAY_AUTH_TOKEN"), os.environ.get("RAY_AUTH_TOKEN_PATH")
    if value:
        return _checked(value, "RAY_AUTH_TOKEN")
    if path:
        found = _read(path)
        if found is None:
            raise TokenError(f"RAY_AUTH_TOKEN_PATH names {path}, and there is no such file")
        return found
    return _read(_own_path())


def make() -> str:
    """The same, and makes ~/.ray/auth_token if there is none. Of two that make it at once, both get
    the same.
    """
    found = find()
    if found is None:
        _write(_own_path())
        found = find()
    return found


def place() -> str:
    """Where it is, for people."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    return os.environ.get("RAY_AUTH_TOKEN_PATH") or _own_path()


def derived(token: str, purpose: str) -> str:
    """A secret of 64 hex digits that all who know the token can make, and nobody else."""
    return hmac.new(os.fsencode(token), f"mobula {purpose}".encode(), hashlib.sha256).hexdigest()


def read_secret(path, what: str) -> "str | None":
    """The text of a file that only this user, or root, can read; None: there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TokenError(f"{path}: {error.strerror}") from None
    with open(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise TokenError(f"{path} is no file")
        if about.st_uid not in (os.geteuid(), 0) or about.st_mode & 0o077:
            raise TokenError(
                f"other users can read or write {what}: chmod 600 {path}, and make a new one if "
                "somebody may have seen it"
            )
        return os.fsdecode(file.read(MAX + 64)).strip(_SPACE)


def _checked(text, where):
    text = text.strip(_SPACE)
    size = len(os.fsencode(text))
    if not MIN <= size <= MAX:
        raise TokenError(
            f"the cluster's token in {where} has {size} characters; it must have {MIN} to {MAX}"
        )
    return text


def _read(path):
    found = read_secret(path, "the cluster's token")
    return None if found is None else _checked(found, path)


def _own_path():
    home = os.environ.get("HOME")
    if not home:
        raise TokenError("HOME is not set: set RAY_AUTH_TOKEN to the cluster's token")
    return os.path.join(home, ".ray", "auth_token")


def _write(path):
    """Written to a file of its own and linked to its name: nobody reads half of one, and the first
    who links wins.
    """
    draft = f"{path}.{os.urandom(8).hex()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w") as file:
            file.write(os.urandom(32).hex())
            file.flush()
            os.fsync(fd)
        os.link(draft, path)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise TokenError(f"{path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
