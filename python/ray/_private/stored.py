"""A value of the store inside of something that is pickled."""

import ray


class Stored:
    """It is pickled as a reference, and arrives as the value."""

    def __init__(self, ref):
        self.ref = ref

    def __reduce__(self):
        return ray.get, (self.ref,)
