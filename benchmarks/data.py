"""Decoding TinyImageNet against a plain PIL loop; first and second load; drawing glyphs.

    python benchmarks/data.py [--quick]

The decode rates are measured in turn in this run, on the same files. The data is searched in
FEDGRAIN_DATA, then in ../shared/data; what is decoded goes to a temporary directory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from fedgrain.data import load_dataset
from fedgrain.data.tiny_imagenet import LAYOUT, list_tiny_imagenet
from fedgrain.images.cache import create_images, folder_of
from fedgrain.images.decode import Decoding, decode_files
from fedgrain.images.places import find_source

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SECOND_LOAD = """
import sys, time
from fedgrain.data import load_dataset
from fedgrain.taxonomy import dataset_taxonomy
dataset_taxonomy("tiny-imagenet")
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))
before, start = anonymous(), time.perf_counter()
data = load_dataset("tiny-imagenet", root=sys.argv[1])
took = time.perf_counter() - start
print(f"{took * 1000:.1f} ms, {anonymous() - before:.1f} MiB of memory for an array of "
      f"{data.images.nbytes / 2**20:.0f} MiB")
"""


def seconds(function: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def plain_loop(paths: Sequence[str]) -> np.ndarray:
    """Decode as one writes it first: open, convert, stack."""
    images = []
    for path in paths:
        with Image.open(path) as image:
            images.append(np.asarray(image.convert("RGB")))
    return np.stack(images)


def decode_rates(paths: Sequence[str], rounds: int) -> None:
    """Print images per second of the plain loop and of ours, on one core and on all."""
    times: dict[str, list[float]] = {"plain PIL loop": [], "ours, 1 process": [], "ours, all": []}
    with tempfile.TemporaryDirectory() as folder:
        target = create_images(Path(folder), len(paths), 64)
        for _ in range(rounds):
            times["plain PIL loop"].append(seconds(lambda: plain_loop(paths)))
            for name, workers in (("ours, 1 process", 1), ("ours, all", None)):
                decoding = Decoding(64, workers=workers, progress=False)
                times[name].append(seconds(lambda d=decoding: decode_files(paths, target, d)))
    plain = times["plain PIL loop"]
    for name, taken in times.items():
        ratio = statistics.median(p / t for p, t in zip(plain, taken, strict=True))
        rate = len(paths) / statistics.median(taken)
        print(f"{name:<18}{rate:>8.0f} images/s   {ratio:.2f}x the plain loop")


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="few images, one round, no first and second load"
    )
    quick = parser.parse_args().quick
    took = seconds(lambda: load_dataset("glyphs"))
    print(f"glyphs: 6,000 images drawn in {took:.1f} s")
    if "FEDGRAIN_DATA" not in os.environ and SHARED.is_dir():
        os.environ["FEDGRAIN_DATA"] = str(SHARED)
    source = find_source(LAYOUT)
    if source is None:
        print("TinyImageNet was not found: set FEDGRAIN_DATA; the rest is left out")
        return
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FEDGRAIN_CACHE"] = cache
        took = seconds(lambda: folder_of(source, LAYOUT))
        folder = folder_of(source, LAYOUT)
        print(f"TinyImageNet: {source.name} found unpacked or unpacked in {took:.1f} s")
        paths = list_tiny_imagenet(folder).paths
        print(f"decoding {len(paths[:: 100 if quick else 1])} JPEGs of 64x64:")
        decode_rates(paths[:: 100 if quick else 1], 1 if quick else 3)
        if quick:
            return
        first = seconds(lambda: load_dataset("tiny-imagenet", root=folder, progress=False))
        print(f"first load:  {first:.1f} s for {len(paths)} images")
        command = [sys.executable, "-c", SECOND_LOAD, str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"second load: {done.stdout.strip()}")


if __name__ == "__main__":
    main()
