"""Calls whose arguments and options come as values."""


class RemoteCall:
    """The base of what has `.remote` and `.options`."""

    __slots__ = ()

    def _remote(self, args=None, kwargs=None, **options):
        """`self.options(**options).remote(*args, **kwargs)`: libraries call it by this name."""
        return (self.options(**options) if options else self).remote(
            *(args or ()), **(kwargs or {})
        )
