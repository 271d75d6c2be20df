"""Ray's client for clusters elsewhere is not in Mobula: what libraries ask it about is answered
here, with no.

    ray.util.client.ray.is_connected()  # False
"""

__all__ = ["ray"]


class _NoClient:
    """What stands for the client's own `ray`: it is never connected."""

    def is_connected(self) -> bool:
        """False: this process is no client."""
        return False

    def is_default(self) -> bool:
        """True: there is one way to be connected."""
        return True


ray = _NoClient()


def num_connected_contexts() -> int:
    """0: this process is no client."""
    return 0
