"""Label maps as pictures: colors, overlays, a legend, and the label ids of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from ..io.files import write_bytes

Palette = Sequence[Sequence[int]]
"""RGB color of each train id."""

NO_LABEL = 255
"""The train id of pixels without a class."""

CITYSCAPES_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""Cityscapes' label id of each of its 19 train ids."""

_HEX = "4C78A8 F58518 54A24B E45756 B279A2 72B7B2 EECA3B 9D755D FF9DA6 BAB0AC"
EXPERT_COLORS = tuple(tuple(bytes.fromhex(color)) for color in _HEX.split(" "))
"""RGB color of each expert, as on the live page. Colors repeat from the eleventh expert."""

_KEY_CLASSES = 6  # largest number of classes in the key of an overlay
_ROW, _BOX, _LETTER = 18, 12, 8  # in pixels: height of a row, side of a box, width of a letter
_FONT = (cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)


def paint(label: np.ndarray, palette: Palette) -> np.ndarray:
    """Return a label map in color (BGR); pixels without a class are black."""
    colors = np.zeros((256, 3), np.uint8)
    colors[: len(palette)] = np.asarray(palette, np.uint8)[:, ::-1]
    return colors[label.astype(np.uint8)]


def overlay(image: np.ndarray, label: np.ndarray, palette: Palette) -> np.ndarray:
    """Return the image (BGR) with half transparent colors on all pixels that have a class."""
    blended = cv2.addWeighted(image, 0.5, paint(label, palette), 0.5, 0)
    unknown = (label >= len(palette))[..., None]
    return np.where(unknown, image, blended)


def legend(label: np.ndarray, classes: Sequence[str], palette: Palette, width: int) -> np.ndarray:
    """Return a picture with color and name of every class that occurs, ``width`` pixels wide."""
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
        color = tuple(int(value) for value in palette[index][::-1])
        cv2.rectangle(strip, (x, y + 3), (x + _BOX, y + 3 + _BOX), color, cv2.FILLED)
        cv2.putText(strip, classes[index], (x + _BOX + 4, y + 13), *_FONT)
    return strip


def draw_key(
    picture: np.ndarray,
    label: np.ndarray,
    classes: Sequence[str],
    palette: Palette,
    expert: int,
    k: int,
) -> np.ndarray:
    """Return a picture (BGR) with a key in its upper left corner.

    The key names the expert, the number of experts ``k``, and the classes with the largest areas.
    It takes at most half of the height. A picture that is too small for text gets no key.
    """
    height, width = picture.shape[:2]
    scale = max(0.32, min(height, width) / 1000)  # smaller letters cannot be read
    row, thickness = round(40 * scale), max(1, round(1.5 * scale))
    margin, box = row // 4, row // 2
    counts = np.bincount(label.ravel(), minlength=len(classes))[: len(classes)]
    room = min(_KEY_CLASSES, height // 2 // row - 1)
    if room < 0:
        return picture
    largest = [index for index in np.argsort(-counts, kind="stable")[:room] if counts[index]]
    lines: list[tuple[str, Sequence[int]]] = [
        (f"expert {expert}, K = {k}", EXPERT_COLORS[expert % len(EXPERT_COLORS)])
    ]
    # Sorted by class, because the order of areas would change between frames.
    lines += [(classes[index], palette[index]) for index in sorted(largest)]
    font = cv2.FONT_HERSHEY_SIMPLEX
    letters = max(cv2.getTextSize(text, font, scale, thickness)[0][0] for text, _ in lines)
    left = 2 * margin + box  # left edge of the letters
    if left + letters + margin > width:
        return picture
    shown = picture.copy()
    key = shown[: row * len(lines) + margin, : left + letters + margin]
    key[:] = key // 4  # darken the background of the white letters
    for number, (text, color) in enumerate(lines):
        top = row * number + margin
        bgr = tuple(int(value) for value in color[::-1])
        cv2.rectangle(shown, (margin, top), (margin + box, top + box), bgr, cv2.FILLED)
        corner = (left, top + box + thickness)
        cv2.putText(shown, text, corner, font, scale, (255, 255, 255), thickness, cv2.LINE_AA)
    return shown


def to_label_ids(label: np.ndarray) -> np.ndarray:
    """Convert Cityscapes' train ids to its label ids; 255 where there is no class."""
    ids = np.full(256, NO_LABEL, np.uint8)
    ids[: len(CITYSCAPES_IDS)] = CITYSCAPES_IDS
    return ids[label.astype(np.uint8)]


def label_stem(name: str) -> str:
    """Return the name of a frame without ACDC's image suffix."""
    return name.removesuffix("_rgb_anon")


def write_image(path: Path, image: np.ndarray) -> None:
    """Write a picture (BGR or gray) atomically, in the format of its suffix."""
    # cv2.imwrite does not report disk errors that occur when it closes the file.
    write_bytes(path, cv2.imencode(path.suffix, image)[1].data, durable=False)
