"""Label maps as pictures: colours, overlays, a legend, and the ids that data sets write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from ..errors import ReservoirError

Palette = Sequence[Sequence[int]]
"""RGB by train id."""

NO_LABEL = 255
"""The train id of what has no class."""

CITYSCAPES_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""Cityscapes' label id of each of its 19 train ids."""

_ROW, _BOX, _LETTER = 18, 12, 8  # pixels of a legend: height of a row, side of a box, width
_FONT = (cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)


def paint(label: np.ndarray, palette: Palette) -> np.ndarray:
    """Colour train ids (as BGR); what has no class is black."""
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = np.asarray(palette, np.uint8)[:, ::-1]
    return colours[label.astype(np.uint8)]


def overlay(image: np.ndarray, label: np.ndarray, palette: Palette) -> np.ndarray:
    """The colours half transparent over the image (BGR); what has no class stays as it is."""
    blended = cv2.addWeighted(image, 0.5, paint(label, palette), 0.5, 0)
    unknown = (label >= len(palette))[..., None]
    return np.where(unknown, image, blended)


def legend(label: np.ndarray, classes: Sequence[str], palette: Palette, width: int) -> np.ndarray:
    """A strip with colour and name of every class that occurs, in rows of the given width."""
    present = [index for index in np.unique(label) if index < len(classes)]
    places, x, y = [], 4, 0
    for index in present:
        length = _BOX + 12 + _LETTER * len(classes[index])
        if x + length > width and x > 4:
            x, y = 4, y + _ROW
        places.append((index, x, y))
        x += length
    strip = np.full((y + _ROW, width, 3), 255, np.uint8)
    for index, x, y in places:
        colour = tuple(int(value) for value in palette[index][::-1])
        cv2.rectangle(strip, (x, y + 3), (x + _BOX, y + 3 + _BOX), colour, cv2.FILLED)
        cv2.putText(strip, classes[index], (x + _BOX + 4, y + 13), *_FONT)
    return strip


def to_label_ids(label: np.ndarray) -> np.ndarray:
    """Cityscapes' label ids of its train ids; 255 where there is no class."""
    ids = np.full(256, NO_LABEL, np.uint8)
    ids[: len(CITYSCAPES_IDS)] = CITYSCAPES_IDS
    return ids[label.astype(np.uint8)]


def label_stem(name: str) -> str:
    """Return the name of a frame as its label has it: ACDC's image suffix is left out."""
    return name.removesuffix("_rgb_anon")


def write_image(path: Path, image: np.ndarray) -> None:
    """Write a picture (BGR or grey), and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not cv2.imwrite(str(path), image):  # OpenCV reports a failure only by this value
        raise ReservoirError(f"cannot write {path}: is the disk full or read-only?")
