"""Find codecs that the installed OpenCV can write."""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from ..errors import ReservoirError

_logger = logging.getLogger(__name__)

BROWSER_CODECS = ("vp09", "avc1")
"""VP9 and H.264. VP9 is first, because a build without H.264 prints messages when it is tried."""
PLAIN_CODEC = "mp4v"
"""MPEG-4 part 2, which is fast and in every build. Players show it, but browsers do not."""


@cache
def find_codec() -> str:
    """Return the code of a codec that browsers play, or `PLAIN_CODEC` with a warning."""
    for code in BROWSER_CODECS:
        if can_write(code):
            return code
    _logger.warning(
        "this OpenCV writes neither VP9 nor H.264: players show the videos, browsers do not"
    )
    return PLAIN_CODEC


def check_codec(code: str) -> None:
    """Raise an error if this build of OpenCV cannot write a codec."""
    if len(code) != 4 or not can_write(code):
        raise ReservoirError(
            f"this OpenCV cannot write .mp4 with the codec {code!r}: leave out --codec, or use "
            f"{PLAIN_CODEC}"
        )


@cache
def can_write(code: str) -> bool:
    """Return whether a frame can be written and read, because a codec may open and still fail."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "probe.mp4")
        writer = cv2.VideoWriter(path, cv2.VideoWriter.fourcc(*code), 10.0, (64, 64))
        if not writer.isOpened():
            return False
        writer.write(np.zeros((64, 64, 3), np.uint8))
        writer.release()
        capture = cv2.VideoCapture(path)
        is_there = capture.read()[0]
        capture.release()
        return is_there
