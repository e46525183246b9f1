"""Make the bundled styles of Cityscapes: numbers, no images.

    python benchmarks/cityscapes_styles.py CITYSCAPES/leftImg8bit/train

With these styles a Cityscapes model is calibrated without source images. All frames are encoded at
one size, whatever their stored size.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from mmseg_reservoir.config.presets import STREAM
from mmseg_reservoir.core.image_range import ImageRange
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style import Calibration, StyleEncoder
from mmseg_reservoir.style.shipped_styles import CITYSCAPES, SIZE

ROOT = Path(__file__).resolve().parents[1]


def styles_of(folder: Path, count: int) -> Calibration:
    """Return the styles of ``count`` images, evenly spaced over the sorted names of a folder."""
    paths = sorted(folder.rglob("*.png"))
    if len(paths) < count:
        raise ReservoirError(f"{len(paths)} images *.png below {folder}, {count} are needed")
    chosen = np.linspace(0, len(paths) - 1, count).round().astype(int)
    options = {name: value for name, value in STREAM["style"].items() if name != "type"}
    encoder = StyleEncoder(**{**options, "size": SIZE})
    normalize = ImageRange("imagenet").from_unit
    styles = []
    for index in track(chosen, "Encoding images"):
        pixels = cv2.imread(str(paths[index]), cv2.IMREAD_COLOR)
        image = torch.from_numpy(pixels[..., ::-1].copy()).permute(2, 0, 1) / 255
        styles.append(encoder(normalize(image)[None]))
    description = {"style": encoder.fingerprint(), "images": f"{count} of {len(paths)}"}
    # Half precision is much finer than the spread of a channel, and halves the file.
    return Calibration(torch.stack(styles).half(), description, encoder.groups)


def main(argv: list[str] | None = None) -> None:
    """Encode the images and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of Cityscapes' training images")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--out", type=Path, default=ROOT / CITYSCAPES)
    args = parser.parse_args(argv)
    path = styles_of(args.folder, args.count).save(args.out)
    print(f"{path}: {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
