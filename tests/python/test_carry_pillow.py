"""Pillow's images through the store."""

import io
import pickle

import pytest

Image = pytest.importorskip("PIL.Image")
from PIL import ImageDraw, ImageSequence  # noqa: E402

import ray  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")

MODES = "1 L P RGB RGBA RGBX RGBa CMYK YCbCr LAB HSV I F LA PA I;16".split()


def picture(mode="RGB", size=(160, 90)):
    """Pixels that differ from each other."""
    gray = Image.linear_gradient("L").resize(size)
    across = Image.merge("RGB", [gray, gray.rotate(180), gray.point(lambda value: value // 2)])
    if mode in ("1", "L", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "I", "F"):
        return across.convert(mode)
    if mode in ("RGBa", "LAB", "LA", "PA"):
        made = Image.new(mode, size)
        for x in range(size[0]):
            made.putpixel((x, x % size[1]), (x % 256,) * len(made.getbands()))
        return made
    return Image.frombytes(mode, size, bytes(range(200)) * (size[0] * size[1] * 2 // 200))


def through(value):
    return ray.get(ray.put(value))


def _comes_back(image):
    try:
        return pickle.loads(pickle.dumps(image)).size == image.size
    except ValueError:
        return False


def assert_same(came, image):
    assert type(came) is type(image)
    assert (came.mode, came.size, came.info) == (image.mode, image.size, image.info)
    assert came.tobytes() == image.tobytes()
    assert came.getpalette() == image.getpalette()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_arrives_as_it_was(mode):
    image = picture(mode)
    image.info["dpi"] = (72, 72)
    assert_same(through(image), image)


@pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0), (1, 1), (3, 1), (1, 2000), (2000, 1)])
def test_sizes_at_the_edge(size):
    image = Image.new("RGB", size, (1, 2, 3))
    if not _comes_back(image):
        pytest.skip("this Pillow can't unpickle an image without pixels")
    assert_same(through(image), image)


def test_a_large_image_is_read_in_place():
    image = picture(size=(3000, 2000))  # Pillow has it in several pieces of memory
    reference = ray.put(image)
    came = ray.get(reference)
    assert came.readonly
    assert_same(came, image)
    del reference
    assert_same(came, image)  # the image holds its object


@pytest.mark.parametrize(
    "write",
    [
        lambda image: image.putpixel((3, 4), (9, 8, 7)),
        lambda image: image.paste((9, 8, 7), (0, 0, 20, 20)),
        lambda image: ImageDraw.Draw(image).rectangle((5, 5, 30, 30), fill=(9, 8, 7)),
        lambda image: image.putalpha(7),
        lambda image: image.putdata([(9, 8, 7)] * 100),
        lambda image: image.thumbnail((16, 16)),
    ],
)
def test_a_received_image_can_be_written_to(write):
    image = picture()
    reference = ray.put(image)
    before = image.tobytes()
    came = ray.get(reference)
    write(came)
    write(image)
    assert_same(came, image)
    assert ray.get(reference).tobytes() == before


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "PPM"])
def test_an_image_that_is_read_from_a_file(form, tmp_path):
    path = str(tmp_path / "picture")
    picture().save(path, form)
    opened = Image.open(path)  # its pixels are not read yet
    came = through(opened)
    assert came.format == opened.format == form
    assert_same(came, Image.open(path))
    copy = came.convert("L").resize((20, 20))
    assert copy.tobytes() == Image.open(path).convert("L").resize((20, 20)).tobytes()


def test_an_image_that_pillow_maps_from_its_file(tmp_path):
    path = tmp_path / "picture.bmp"
    picture("L", (400, 300)).save(path)
    mapped = Image.open(path)
    mapped.load()
    assert_same(through(mapped), Image.open(path))


def test_the_frame_of_an_animation_that_is_shown(tmp_path):
    path = str(tmp_path / "film.gif")
    frames = [picture("P").point(lambda value, k=k: value // (k + 1)) for k in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    film = Image.open(path)
    for frame in ImageSequence.Iterator(film):
        came = through(frame)
        assert came.convert("RGB").tobytes() == frame.convert("RGB").tobytes()


def test_a_file_that_is_cut_short_is_an_error(tmp_path):
    whole = io.BytesIO()
    picture(size=(600, 600)).save(whole, "PNG")
    path = tmp_path / "cut.png"
    path.write_bytes(whole.getvalue()[:2000])
    with pytest.raises((OSError, TypeError), match="truncated|cut|broken"):
        ray.put(Image.open(path))


class Photo(Image.Image):
    """A subclass of the program's, which is pickled as Pillow does it."""


def test_a_subclass_of_the_program():
    photo = Photo()
    photo.__setstate__(picture().__getstate__())
    assert_same(through(photo), photo)


def test_images_in_tasks_and_actors():
    @ray.remote
    def halved(image):
        return image.resize((image.width // 2, image.height // 2))

    @ray.remote
    class Album:
        def __init__(self):
            self.images = []

        def add(self, image):
            self.images.append(image)
            return len(self.images)

        def all(self):
            return {"images": self.images}

    image = picture(size=(640, 480))
    small = ray.get(halved.remote(image))
    assert_same(small, image.resize((320, 240)))
    album = Album.remote()
    assert ray.get([album.add.remote(image), album.add.remote(small)]) == [1, 2]
    came = ray.get(album.all.remote())["images"]
    assert_same(came[0], image)
    assert_same(came[1], small)


def test_a_copy_by_pickle_itself_is_pillows_own():
    assert b"reducers" not in pickle.dumps(picture())
