"""Three workloads, each run in this process and then by tasks: a sequence of numbers, an estimate of
pi, and photos of many megapixels through torchvision. A chart compares the times.

    python examples/image_pipeline.py                  # 77 photos of 12 megapixels
    python examples/image_pipeline.py --photos 6 --pixels 1000x750 --chart times.png

The photos are made on the spot, and stay in their folder for the next run. With 77 of them the
object store, which this program makes small, can't hold all: the ones that are not in use go to
disk, the daemon says so, and a task that gets one reads it back.

Needs Pillow, torch, torchvision, numpy, pandas, matplotlib and tqdm.
"""

import argparse
import os
import random
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torchvision import transforms
from tqdm import tqdm

import ray
from ray.util import as_completed

THUMBNAIL = (64, 64)
CROP = (224, 224)


# ---- a sequence: numbers that grow to tens of thousands of digits ----


def fibonacci(count):
    """How many digits the last of the first `count` Fibonacci numbers has in base 16."""
    a, b = 0, 1
    for _ in range(count):
        a, b = b, a + b
    return len(f"{a:x}")


# ---- pi: how many of many random points lie in the circle ----


def points_in_circle(count, seed):
    points = random.Random(seed)
    return sum(points.random() ** 2 + points.random() ** 2 <= 1 for _ in range(count))


# ---- photos ----


def make_photo(path, size, seed):
    """A picture with soft shapes and grain, as a camera would make it, of a few megabytes."""
    if path.exists():
        return
    noise = np.random.default_rng(seed)
    width, height = size
    shapes = Image.fromarray(noise.integers(0, 256, (9, 12, 3), np.uint8))
    picture = np.asarray(shapes.resize(size, Image.BICUBIC), np.int16)
    grain = noise.integers(-6, 7, (height, width, 1), np.int8)
    picture = np.clip(picture + grain, 0, 255).astype(np.uint8)
    part = path.with_suffix(".part")
    Image.fromarray(picture).save(part, "JPEG", quality=90)
    part.rename(path)  # a run that was stopped leaves no half of a photo


def transform(photo):
    """What a training run does to a photo before it learns from it; (size before, size after)."""
    before = photo.size
    transforms.Grayscale()(photo)
    crop = transforms.RandomCrop(CROP)
    for _ in range(4):
        crop(photo)
    augmented = transforms.TrivialAugmentWide()(photo)
    pixels = torch.tensor(np.asarray(augmented))
    turned = pixels.transpose(0, 1)
    for factor in (2, 3, 5):
        for tensor in (pixels, turned):
            tensor.pow(3).sum()
            torch.mul(tensor, factor)
            torch.mul(tensor, tensor)
    augmented.thumbnail(THUMBNAIL)
    return before, augmented.size


# ---- each of them here, and by tasks ----


def timed(title, work):
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    print(f"{title}: {seconds:.2f} s", flush=True)
    return result, seconds


def compare(name, here, by_tasks):
    """(name, seconds here, seconds by tasks); both must give the same."""
    serial, serial_seconds = timed(f"{name}, serial", here)
    distributed, seconds = timed(f"{name}, distributed", by_tasks)
    assert serial == distributed, (serial, distributed)
    return name, serial_seconds, seconds


def compare_sequences(count, calls):
    task = ray.remote(fibonacci)
    return compare(
        "sequence",
        lambda: [fibonacci(count) for _ in range(calls)],
        lambda: ray.get([task.remote(count) for _ in range(calls)]),
    )


def compare_pi(points, calls):
    task = ray.remote(points_in_circle)

    def estimate(inside):
        print(f"pi is about {4 * sum(inside) / (points * calls):.4f}")
        return sum(inside)

    return compare(
        "pi",
        lambda: estimate([points_in_circle(points, seed) for seed in range(calls)]),
        lambda: estimate(ray.get([task.remote(points, seed) for seed in range(calls)])),
    )


def photos_in_store(folder, count, size):
    """References to the photos."""
    folder.mkdir(parents=True, exist_ok=True)
    width, height = size
    paths = [folder / f"{width}x{height}-{number}.jpg" for number in range(count)]
    task = ray.remote(make_photo)
    made = [task.remote(path, size, seed) for seed, path in enumerate(paths)]
    for _ in tqdm(as_completed(made), total=count, desc="making photos"):
        pass
    return [ray.put(Image.open(path)) for path in tqdm(paths, desc="into the store")]


def compare_photos(photos):
    task = ray.remote(transform)

    def by_tasks():
        results = [task.remote(photo) for photo in photos]
        for _ in tqdm(as_completed(results), total=len(results), desc="distributed"):
            pass
        return ray.get(results)

    return compare(
        "images",
        lambda: [transform(ray.get(photo)) for photo in tqdm(photos, desc="serial")],
        by_tasks,
    )


def draw(rows, path):
    import matplotlib

    matplotlib.use("Agg")  # a file, no window
    import matplotlib.pyplot as plt

    frame = pd.DataFrame(rows, columns=["workload", "serial", "distributed"])
    axes = frame.plot(x="workload", y=["serial", "distributed"], kind="bar", rot=0)
    axes.set_ylabel("time (s)")
    axes.set_xlabel("workload")
    plt.tight_layout()
    plt.savefig(path)
    print(f"The chart is in {path}.")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    arguments.add_argument("--photos", type=int, default=77)
    arguments.add_argument("--pixels", default="4000x3000", help="WIDTHxHEIGHT of a photo")
    arguments.add_argument("--folder", type=Path, default=Path("photos"))
    arguments.add_argument("--chart", type=Path, default=Path("image_pipeline.svg"))
    arguments.add_argument("--store", type=int, default=1500, help="MiB of the object store")
    arguments.add_argument("--numbers", type=int, default=200_000, help="of the sequence")
    arguments.add_argument("--points", type=int, default=5_000_000, help="of each estimate of pi")
    given = arguments.parse_args()
    width, _, height = given.pixels.partition("x")

    torch.set_num_threads(1)  # serial is one processor, as in a task
    ray.init(object_store_memory=given.store << 20)
    calls = os.cpu_count()
    photos = photos_in_store(given.folder, given.photos, (int(width), int(height)))
    rows = [
        compare_sequences(given.numbers, calls),
        compare_pi(given.points, calls),
        compare_photos(photos),
    ]
    ray.shutdown()
    draw(rows, given.chart)


if __name__ == "__main__":
    main()
