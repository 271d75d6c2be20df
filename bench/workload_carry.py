"""Rows about values of other libraries: a Pillow image and a pandas frame, put and got.

Run by either system's Python, as a part of workload.py.
"""

from __future__ import annotations

from serve import rate

import ray

IMAGE = (4000, 3000)  # 36 MB of pixels
FRAME_ROWS, FRAME_COLUMNS = 1_000_000, 5  # 40 MB


def image():
    import numpy as np
    from PIL import Image

    width, height = IMAGE
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    picture = Image.fromarray(pixels)

    def body():
        if ray.get(ray.put(picture)).size != IMAGE:
            raise RuntimeError("another image came")
        return 1

    yield rate(body)


def frame():
    import numpy as np
    import pandas as pd

    numbers = np.random.default_rng(0).random((FRAME_ROWS, FRAME_COLUMNS))
    table = pd.DataFrame({f"c{i}": numbers[:, i] for i in range(FRAME_COLUMNS)})

    def body():
        if len(ray.get(ray.put(table))) != FRAME_ROWS:
            raise RuntimeError("another frame came")
        return 1

    yield rate(body)


def rows():
    return {"image": image, "frame": frame}
