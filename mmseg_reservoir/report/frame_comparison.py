"""Labels of several runs for the same frames, with their errors in red."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from ..errors import ReservoirError
from ..io.files import write_figure
from .page.gallery import LABEL_SUFFIX, NO_CLASS, wrong_percent
from .shown_run import ShownRun

_LEGEND_CLASSES = 10
_RED = (215, 25, 28)


class ComparedFrame(NamedTuple):
    """A frame with its ground truth and the labels of every run."""

    domain: str
    image: np.ndarray  # RGB
    truth: np.ndarray
    labels: dict[str, np.ndarray]  # train ids by the name of the run


def hard_frame(
    runs: Sequence[ShownRun], domain: str, truth_of: Callable[[Path], Path]
) -> ComparedFrame:
    """Return the frame of the last round at which the first run labels most pixels wrong.

    Only frames that all runs saved (``--show-dir``, ``--show-frames``) are compared.

    Args:
        runs: Runs on the same stream; the first one chooses the frame.
        domain: Domain of the frame.
        truth_of: Returns the file with the train ids of an image.
    """
    last = runs[0].results["visits"][-1]["round"]
    images = {
        Path(route["image"])
        for route in runs[0].results["routes"]
        if route["domain"] == domain and route["round"] == last
    }
    candidates = []
    for image in sorted(images):
        files = {
            run.name: run.panels / f"round{last}" / domain / f"{image.stem}{LABEL_SUFFIX}"
            for run in runs
            if run.panels is not None
        }
        if len(files) == len(runs) and all(file.is_file() for file in files.values()):
            labels = {name: _read(file, cv2.IMREAD_GRAYSCALE) for name, file in files.items()}
            truth = _read(truth_of(image), cv2.IMREAD_GRAYSCALE)
            picture = _read(image, cv2.IMREAD_COLOR)[..., ::-1]
            candidates.append(ComparedFrame(domain, picture, truth, labels))
    if not candidates:
        raise ReservoirError(
            f"no frame of {domain} was saved by all runs in round {last}: run them with the same "
            "--show-frames"
        )
    first = runs[0].name
    return max(candidates, key=lambda frame: wrong_percent(frame.labels[first], frame.truth))


def _read(file: Path, mode: int) -> np.ndarray:
    picture = cv2.imread(str(file), mode)
    if picture is None:
        raise ReservoirError(f"cannot read the image {file}")
    return picture


def plot_frames(
    frames: Sequence[ComparedFrame], palette: Mapping[str, Sequence[int]], path: Path
) -> None:
    """Save a figure with two rows per frame: labels in colors, and below them errors in red."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    colors = np.zeros((256, 3), np.uint8)
    colors[: len(palette)] = list(palette.values())
    columns = len(frames[0].labels) + 2
    figure = Figure(figsize=(4.2 * columns, 5.0 * len(frames) + 0.8), layout="constrained")
    axes = figure.subplots(2 * len(frames), columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for frame, above, below in zip(frames, axes[::2], axes[1::2], strict=True):
        pictures = {
            f"{frame.domain}: image": frame.image,
            **{name: colors[label] for name, label in frame.labels.items()},
            "ground truth": colors[frame.truth],
        }
        for axis, (title, picture) in zip(above, pictures.items(), strict=True):
            axis.imshow(picture, interpolation="nearest")
            axis.set_title(title, fontsize=24, fontweight="bold")
        gray = frame.image.mean(axis=-1, keepdims=True)
        for axis, label in zip(below[1:], frame.labels.values(), strict=False):
            wrong = (label != frame.truth) & (frame.truth != NO_CLASS)
            axis.imshow(np.where(wrong[..., None], _RED, 0.6 * gray + 80).astype(np.uint8))
            percent = f"{wrong_percent(label, frame.truth):.0f} % wrong"
            axis.set_title(percent, fontsize=22, color=np.array(_RED) / 255)
        below[0].text(0.5, 0.5, "wrong pixels\nin red", fontsize=24, ha="center", va="center")
    pixels = Counter(int(i) for frame in frames for i in frame.truth.flat if i != NO_CLASS)
    largest = [list(palette)[i] for i, _ in pixels.most_common(_LEGEND_CLASSES)]
    handles = [Patch(color=np.array(palette[name]) / 255, label=name) for name in largest]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=20)
    write_figure(path, figure, dpi=70)
