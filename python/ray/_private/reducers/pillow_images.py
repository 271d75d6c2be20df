"""Pillow's images.

Pillow pickles an image as bytes that it gathers from pieces, and fills a new image from them. Here
an image over the new object is made, and the pixels pasted into it as they lie in Pillow's memory;
a reader gets an image over the object. It is marked read-only, as Pillow marks an image that it
maps from a file: whatever writes to such an image (putpixel, paste, ImageDraw) first gives it
pixels of its own. So a received image behaves as any other.

Everything but the pixels is what the class's own `__getstate__` says and its `__setstate__` takes.
"""

from PIL import Image

from ray._private import serialization

# How many bytes a pixel has in memory; RGB has a fourth that means nothing. Images of other modes,
# those with a palette among them, are pickled by Pillow.
_PIXEL_BYTES = {
    "L": 1,
    "I;16": 2,
    **dict.fromkeys(
        ("RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr", "LAB", "HSV", "LA", "I", "F"), 4
    ),
}
_PIXELS = 4  # the place of the pixels in an image's state


def reducer_of(kind):
    return _reduce if isinstance(kind, type) and issubclass(kind, Image.Image) else None


def _reduce(image):
    image.load()
    width, height = image.size
    size = width * height * _PIXEL_BYTES.get(image.mode, 0)
    state = _state_without_pixels(image) if size > 0 else None
    if state is None:
        return image.__reduce_ex__(5)

    def write(view):
        _over(view, image.mode, image.size).paste(image.im, (0, 0, width, height))

    state[_PIXELS] = serialization.written(size, write)
    return _rebuild, (type(image), state)


def _over(memory, mode, size):
    """What Pillow keeps inside of an image, with these pixels."""
    return Image.core.map_buffer(memory, size, "raw", 0, (mode, 0, 1))


class _Absent(bytes):
    """Stands for the pixels in a state."""


def _state_without_pixels(image):
    """What the class's __getstate__ says, which asks tobytes for the pixels; None if it says
    something else than Pillow's classes do.
    """
    absent = _Absent()
    stand_in = type(image).__new__(type(image))
    stand_in.__dict__.update(image.__dict__, tobytes=lambda *args: absent)
    state = stand_in.__getstate__()
    if not (isinstance(state, list) and len(state) > _PIXELS and state[_PIXELS] is absent):
        return None
    return state


def _rebuild(kind, state):
    info, mode, size, palette, pixels, *more = state
    image = kind.__new__(kind)
    # Without pixels, so that no memory is taken for them, which __setstate__ would fill.
    image.frombytes = lambda data: None
    image.__setstate__([info, mode, (0, 0), palette, b"", *more])
    del image.frombytes
    image.im = _over(pixels, mode, size)
    image._size = size
    image.readonly = 1
    return image
