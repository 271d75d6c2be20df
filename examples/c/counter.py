"""A class for driver.c: a C program makes an actor of it. Workers find it on their search path
(PYTHONPATH).
"""


class Counter:
    """Counts from where it was told to start."""

    def __init__(self, start=0):
        self.n = start

    def add(self, k):
        """The number after it was raised by k."""
        self.n += k
        return self.n
