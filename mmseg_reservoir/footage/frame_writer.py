"""Write the results of a stream: overlays, labels, confidences, and one line per frame."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from ..errors import ReservoirError
from ..io.files import append_bytes, write_text
from ..registry import new_name
from ..seg.label_images import (
    NO_LABEL,
    Palette,
    draw_key,
    label_stem,
    overlay,
    paint,
    to_label_ids,
    write_image,
)
from ..seg.model_loading import is_cityscapes
from .frame_source import FrameResult
from .video_codec import check_codec, find_codec

_logger = logging.getLogger(__name__)

STREAM = "stream.jsonl"
CONDITION = "footage"
"""Name of the condition in ACDC's folders for all streams."""

_SUFFIXES = {
    "trainids": "_gt_labelTrainIds.png",
    "labelids": "_gt_labelIds.png",
    "colors": "_gt_labelColor.png",
}
"""Suffix of each kind of label file, as in ACDC."""


class FrameWriter:
    """A writer of results, frame by frame, so that a killed run loses at most a video segment.

    - ``stream.jsonl``: one line per frame
    - ``overlay/segment_00000.mp4``, ...: frames with their labels and a key (:func:`draw_key`); an
      unfinished file is ``.partial.mp4``. Alternatively ``overlay/{name}.png`` for each frame
    - ``rgb_anon/footage/train/{stream}/{name}_rgb_anon.png`` and its labels below ``gt``, which
      ``ACDCDataset(data_root=FOLDER, condition="footage")`` reads
    - ``confidence/{name}.png``: confidence, 0 to 255 for 0 to 1

    Args:
        folder: Folder of all results. A folder with another stream is refused.
        name: Name of the stream.
        palette: RGB color of each class.
        classes: Names of the classes, for the key. Defaults to None, a key without classes.
        fps: Frames per second of the video. Defaults to 10.
        shown: Form of the overlays: ``"video"``, ``"frames"`` or ``"none"``. Defaults to a video.
        labels: Labels to write: ``"trainids"`` (numbers of the model's classes), ``"labelids"``
            (only for Cityscapes' classes) or ``"colors"``. Defaults to None, no labels.
        min_confidence: Confidence from 0 to 1 below which a label is 255 (black in colors).
            Defaults to 0.
        confidence: Whether to write maps of confidence. Defaults to False.
        segment: Number of frames per video file. Defaults to 300.
        lines: Number of lines to keep when a stream is resumed; later lines are removed. Defaults
            to None, a new stream.
        segments: Number of video files to keep when a stream is resumed. Defaults to 0.
        codec: Four-character code of the video codec, such as ``"mp4v"``. Defaults to one that
            browsers play.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        name: str,
        palette: Palette,
        classes: Sequence[str] | None = None,
        fps: float = 10.0,
        shown: Literal["video", "frames", "none"] = "video",
        labels: Literal["trainids", "labelids", "colors"] | None = None,
        min_confidence: float = 0.0,
        confidence: bool = False,
        segment: int = 300,
        lines: int | None = None,
        segments: int = 0,
        codec: str | None = None,
    ) -> None:
        self.folder = Path(folder).expanduser()
        if lines is not None:
            _keep_lines(self.folder / STREAM, lines)
        elif (self.folder / STREAM).exists():
            raise ReservoirError(
                f"{self.folder} holds a stream already: continue it with --resume, choose another "
                "folder, or remove it"
            )
        if not 0 <= min_confidence <= 1:
            raise ReservoirError(f"min_confidence must lie in [0, 1], got {min_confidence}")
        if labels == "labelids" and not is_cityscapes({"classes": classes or ()}):
            count = "unknown classes" if classes is None else f"{len(classes)} other classes"
            raise ReservoirError(
                f"labels='labelids' are Cityscapes' ids, and the model has {count}: write "
                "'trainids' (--labels trainids), the numbers of the model's classes, or 'colors'"
            )
        self.name, self.palette, self.classes = name, palette, classes
        self.labels = None if labels is None else new_name(labels, ("colors",))
        self.shown, self.confidence = shown, confidence
        self.min_confidence = min_confidence
        self._video = VideoSegments(self.folder / "overlay", fps, segment, segments, codec)
        if lines is not None:
            self._video.remove_later()
        self._newest: tuple[FrameResult, np.ndarray] | None = None  # with its overlay
        self._size: int | None = None  # bytes of the lines, after the first one is written

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self.close()
        except ReservoirError as second:
            if not isinstance(error[1], Exception):
                raise
            _logger.error("%s", second)  # the first error ends the run

    def write(self, frame: FrameResult, **more: Any) -> None:
        """Write the files of a frame, then its line, to which ``more`` entries are added."""
        sure = self._sure_labels(frame)
        if self.shown != "none":
            picture, classes = self._draw(frame, sure), self.classes or ()
            shown = draw_key(picture, sure, classes, self.palette, frame.expert, frame.k)
            if self.shown == "video":
                self._video.write(shown)
            else:
                write_image(self.folder / "overlay" / f"{frame.name}.png", shown)
        if self.labels is not None:
            self._write_labels(frame, sure.astype(np.uint8), self.labels)
        if self.confidence:
            map = np.round(255 * frame.confidence).astype(np.uint8)
            write_image(self.folder / "confidence" / f"{frame.name}.png", map)
        self._write_line(
            {**frame.to_json(), "below_confidence": float(np.mean(sure == NO_LABEL)), **more}
        )

    def overlay(self, frame: FrameResult) -> np.ndarray:
        """Return a frame with its labels in color (BGR). The newest overlay is cached.

        Labels below ``min_confidence`` are left out.
        """
        if self._newest is not None and self._newest[0] is frame:
            return self._newest[1]
        return self._draw(frame, self._sure_labels(frame))

    def _draw(self, frame: FrameResult, sure: np.ndarray) -> np.ndarray:
        self._newest = frame, overlay(frame.image, sure, self.palette)
        return self._newest[1]

    def _sure_labels(self, frame: FrameResult) -> np.ndarray:
        return np.where(frame.confidence >= self.min_confidence, frame.labels, NO_LABEL)

    def _write_labels(self, frame: FrameResult, labels: np.ndarray, kind: str) -> None:
        kinds = {
            "trainids": lambda: labels,
            "labelids": lambda: to_label_ids(labels),
            "colors": lambda: paint(labels, self.palette),
        }
        folder = Path(CONDITION) / "train" / self.name
        stem = label_stem(frame.name)
        write_image(self.folder / "gt" / folder / f"{stem}{_SUFFIXES[kind]}", kinds[kind]())
        write_image(self.folder / "rgb_anon" / folder / f"{stem}_rgb_anon.png", frame.image)

    def _write_line(self, line: Mapping[str, Any]) -> None:
        path = self.folder / STREAM
        if self._size is None:
            self._size = path.stat().st_size if path.exists() else 0
        data = f"{json.dumps(line, allow_nan=False)}\n".encode()
        self._size = append_bytes(path, data, self._size, durable=False)

    def close(self) -> int:
        """Finish the open video file, and return the number of video files."""
        self._video.close()
        return self._video.number


class VideoSegments:
    """A video in files of equal length. A file gets its name when all its frames can be decoded.

    An unfinished video file cannot be opened, so a killed run would lose a long file. Frames of
    another size start another file. The codec defaults to one that browsers play.
    """

    def __init__(
        self, folder: Path, fps: float, length: int, number: int = 0, codec: str | None = None
    ) -> None:
        if length < 1:
            raise ReservoirError(f"a segment must have 1 or more frames, got {length}")
        if codec is not None:
            check_codec(codec)
        self.folder, self.fps, self.length, self.number = folder, fps, length, number
        self.codec = codec
        self._writer: cv2.VideoWriter | None = None
        self._frames = 0
        self._size = (0, 0)

    def write(self, image: np.ndarray) -> None:
        size = (image.shape[1], image.shape[0])
        if min(size) < 2:
            _logger.warning("a frame of %dx%d is too small for a video: left out of it", *size)
            return
        if self._writer is not None and (self._frames == self.length or size != self._size):
            self.close()
        if self._writer is None:
            self._writer = self._open(size)
        self._writer.write(image)
        self._frames += 1

    def close(self) -> None:
        """Finish the open file and decode it, because OpenCV does not report failed writes."""
        if self._writer is None:
            return
        self._writer.release()
        self._writer = None
        partial = self._path("partial.mp4")
        decoded = count_frames(partial)
        if decoded != self._frames:
            raise ReservoirError(
                f"the video {partial} is damaged ({decoded} of {self._frames} frames decode), as "
                "by a full disk: make room, then continue with --resume"
            )
        partial.rename(self._path("mp4"))
        self.number += 1

    def remove_later(self) -> None:
        """Remove the files from the next number, which a resumed run writes again."""
        for path in self.folder.glob("segment_*.mp4"):
            if path.name >= self._path("").name:
                path.unlink()

    def _open(self, size: tuple[int, int]) -> cv2.VideoWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path("partial.mp4")
        codec = cv2.VideoWriter.fourcc(*(self.codec or find_codec()))
        writer = cv2.VideoWriter(str(path), codec, self.fps, size)
        if not writer.isOpened():
            raise ReservoirError(
                f"cannot write the video {path}: is the disk full? Otherwise write frames "
                "(--overlay frames)"
            )
        self._size, self._frames = size, 0
        return writer

    def _path(self, suffix: str) -> Path:
        return self.folder / f"segment_{self.number:05d}.{suffix}"


def count_frames(path: Path) -> int:
    """Return the number of frames of a video that can be decoded."""
    capture, count = cv2.VideoCapture(str(path)), 0
    while capture.grab():
        count += 1
    capture.release()
    return count


def _keep_lines(path: Path, lines: int) -> None:
    if path.exists():
        kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines]
        write_text(path, "".join(kept))
