"""What `ray start` tells a daemon of its cluster: the arguments for it, and the password of Redis,
which is an environment variable, for everybody can read arguments.
"""

import contextlib
import os

from ray._private import redis_server, token

_PASSWORD = "RAY_REDIS_PASSWORD"


class Part:
    """How a node takes part. `words`: the daemon's arguments. `redis`: the server that was started
    for it here, or None. `is_alone`: nobody can join it.
    """

    def __init__(self, words, redis=None, is_found=False, is_alone=False):
        self.words = words
        self.redis = redis
        self.is_found = is_found
        self.is_alone = is_alone


@contextlib.contextmanager
def head(ip, options):
    """The part of a cluster's first node. A Redis that was started for it ends if the block
    raises.
    """
    secret = token.make()
    given = _given_password(options)
    external = _external(options)
    if external:
        with _password_in_environment(given):
            yield Part([*external, f"--founded={_cluster_id(secret)}"])
        return
    password = given or token.derived(secret, "redis")
    with redis_server.for_head(ip, options.redis_port, password) as (server, is_found):
        if server is None:
            yield Part([], is_alone=True)
            return
        words = [f"--redis={server.address}", f"--founded={server.cluster}"]
        with _password_in_environment(password):
            yield Part(words, server, is_found)


@contextlib.contextmanager
def joiner(options):
    """The part of a node that asks another one. That one says where Redis is."""
    secret = token.find()
    if secret is None:
        raise token.TokenError(
            "there is no token of the cluster on this machine. Copy ~/.ray/auth_token from the "
            "head, with mode 600, or set RAY_AUTH_TOKEN to what `ray get-auth-token` prints there"
        )
    with _password_in_environment(_given_password(options) or token.derived(secret, "redis")):
        yield Part([f"--join={options.address}"])


def _external(options) -> list:
    if options.redis:
        return [f"--redis={options.redis}"]
    if options.redis_sentinel:
        return [f"--sentinels={options.redis_sentinel}"]
    return []


def _cluster_id(secret) -> str:
    """In a Redis that others look after: the same for every head with this token, so that one which
    is started after the first one's death, on any machine, finds the cluster again.
    """
    name = os.environ.get("RAY_external_storage_namespace") or "default"
    return token.derived(secret, f"cluster {name}")[:32]


def _given_password(options):
    path = options.redis_password_file
    if path:
        found = token.read_secret(path, "the password of Redis")
        if not found:
            raise token.TokenError(
                f"--redis-password-file {path} "
                + ("is empty" if found == "" else "names no file that is there")
            )
        return found
    return os.environ.get(_PASSWORD) or None


@contextlib.contextmanager
def _password_in_environment(password):
    before = os.environ.get(_PASSWORD)
    if password:
        os.environ[_PASSWORD] = password
    try:
        yield
    finally:
        os.environ.pop(_PASSWORD, None)
        if before is not None:
            os.environ[_PASSWORD] = before
