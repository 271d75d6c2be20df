"""max_pending_calls: how many calls of an actor one handle may have open."""

from ray import _core


class PendingCalls:
    """The calls that one handle has made and that are not done.

    It names their results without holding them, so a result that nobody wants is freed as always.
    """

    __slots__ = ("_keys", "_limit", "_name")

    def __init__(self, limit: int, name: str):
        self._limit = limit
        self._name = name
        self._keys = []

    def counting(self, submit):
        """The same submitter, for as long as there is room."""

        def remote(*args, **kwargs):
            self._check()
            made = submit(*args, **kwargs)
            first = made[0] if isinstance(made, list) and made else made
            if first is not None:  # a call without results can't be counted
                self._keys.append(first._key())
            return made

        return remote

    def _check(self):
        if len(self._keys) < self._limit:
            return
        self._keys = [key for key in self._keys if _core.is_pending(key)]
        if len(self._keys) >= self._limit:
            from ray.exceptions import PendingCallsLimitExceeded

            raise PendingCallsLimitExceeded(
                f"{len(self._keys)} calls of {self._name} by this handle are not done yet, and its "
                f"max_pending_calls is {self._limit}: wait for some of them"
            )
