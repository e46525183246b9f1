"""Show saved pseudo-labels of several runs: the gallery of the page, and hard frames."""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from PIL import Image

from ..errors import ReservoirError
from ..io.files import write_figure
from .colors import ERROR_RGB
from .shown_run import ShownRun

LABEL_SUFFIX = "_labelTrainIds.png"
TRUTH_SUFFIX = "_groundTruth.png"
NO_CLASS = 255
MOST_VISITS = 10
WIDTH = 640
"""Largest width of the page's pictures in pixels, because a page has dozens of them."""

Palette = Mapping[str, Sequence[int]]
"""RGB color of each class."""


def gallery(runs: Sequence[ShownRun]) -> list[dict[str, Any]]:
    """Return one frame per domain, for the page's script, with the labels of every visit and run.

    Returns:
        For each frame its ``domain``, ``name``, ``image``, ``truth`` (None without the file),
        ``classes`` with their colors, and ``layers``: the name of each run and, by round, a
        ``picture`` with a ``note``. Empty if no run saved pseudo-labels.
    """
    saved = [run for run in runs if run.panels and run.results.get("palette")]
    frames = (_frame(saved, domain) for domain in {d: 0 for run in saved for d in run.domains})
    return [frame for frame in frames if frame is not None]


def _frame(runs: Sequence[ShownRun], domain: str) -> dict[str, Any] | None:
    folders = [_folder(run, 1, domain) for run in runs]
    saved = (file for folder in folders for file in sorted(folder.glob(f"*{LABEL_SUFFIX}")))
    name = next((file.name.removesuffix(LABEL_SUFFIX) for file in saved), None)
    if name is None:
        return None
    files = (folder / f"{name}{TRUTH_SUFFIX}" for folder in folders)
    file = next(filter(Path.is_file, files), None)
    truth = None if file is None else _read(file, cv2.IMREAD_GRAYSCALE)
    palette = runs[0].results["palette"]
    classes = {} if truth is None else _classes(truth, palette)
    layers = []
    for run in runs:
        labels = _labels(run, domain, name)
        for label, _ in labels.values():
            classes |= _classes(label, run.results["palette"])
        if labels:
            layers.append(_layer(run, labels, truth))
    if not layers:
        return None
    order = [name for run in runs for name in run.results["palette"]]
    return {
        "domain": domain,
        "name": name,
        "image": _image(runs, domain, name),
        "truth": None if truth is None else _painted(truth, palette),
        "classes": sorted(classes.items(), key=lambda item: order.index(item[0])),
        "layers": layers,
    }


def _layer(
    run: ShownRun, labels: Mapping[int, tuple[np.ndarray, str]], truth: np.ndarray | None
) -> dict[str, Any]:
    visits = {}
    for number, (label, route) in labels.items():
        wrong = math.nan if truth is None else wrong_percent(label, truth)
        text = route if math.isnan(wrong) else f"{route} · {wrong:.0f} % of pixels wrong"
        visits[number] = {"picture": _painted(label, run.results["palette"]), "note": text}
    return {"run": run.name, "visits": visits}


def wrong_percent(label: np.ndarray, truth: np.ndarray) -> float:
    """Return the percentage of labeled pixels that are wrong; NaN if no pixel is labeled."""
    labeled = truth != NO_CLASS
    return 100 * float((label != truth)[labeled].mean()) if labeled.any() else math.nan


def _folder(run: ShownRun, number: int, domain: str) -> Path:
    assert run.panels is not None
    return run.panels / f"round{number}" / domain


def _labels(run: ShownRun, domain: str, frame: str) -> dict[int, tuple[np.ndarray, str]]:
    """Return train ids and route of a frame by round; many rounds are thinned out evenly."""
    routes = {
        route["round"]: route
        for route in run.results["routes"]
        if route["domain"] == domain and Path(route.get("image") or "").stem == frame
    }
    files = {number: _folder(run, number, domain) / f"{frame}{LABEL_SUFFIX}" for number in routes}
    rounds = [number for number, file in files.items() if file.is_file()]
    if len(rounds) > MOST_VISITS:
        chosen = np.linspace(0, len(rounds) - 1, MOST_VISITS).round().astype(int)
        rounds = [rounds[index] for index in chosen]
    labels = {}
    for number in rounds:
        route = f"expert {routes[number]['expert']}, K = {routes[number]['k']}"
        labels[number] = _read(files[number], cv2.IMREAD_GRAYSCALE), route
    return labels


def _classes(label: np.ndarray, palette: Palette) -> dict[str, Sequence[int]]:
    named = list(palette.items())
    return dict(named[index] for index in np.unique(label) if index < len(named))


def _color_table(palette: Palette) -> np.ndarray:
    colors = np.zeros((256, 3), np.uint8)
    colors[: len(palette)] = list(palette.values())
    return colors


def _painted(label: np.ndarray, palette: Palette) -> str:
    """Return a label map in the colors of its classes, as a data URL."""
    picture = Image.fromarray(_smaller(label, cv2.INTER_NEAREST))
    picture.putpalette(_color_table(palette).ravel().tolist())  # a third of the bytes of RGB
    buffer = io.BytesIO()
    picture.save(buffer, format="png", optimize=True)
    return _url(buffer.getvalue(), "image/png")


def _image(runs: Sequence[ShownRun], domain: str, frame: str) -> str | None:
    for run in runs:
        for route in run.results["routes"]:
            path = Path(route.get("image") or "")
            if route["domain"] == domain and path.stem == frame and path.is_file():
                picture = _smaller(_read(path, cv2.IMREAD_COLOR), cv2.INTER_AREA)
                return _url(cv2.imencode(".jpg", picture)[1].tobytes(), "image/jpeg")
    return None


def _smaller(picture: np.ndarray, interpolation: int) -> np.ndarray:
    height, width = picture.shape[:2]
    if width <= WIDTH:
        return picture
    return cv2.resize(picture, (WIDTH, round(height * WIDTH / width)), interpolation=interpolation)


def _url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"


class ComparedFrame(NamedTuple):
    """A frame with its ground truth and the labels of every run."""

    domain: str
    image: np.ndarray  # RGB
    truth: np.ndarray
    labels: dict[str, np.ndarray]  # train ids by the name of the run


def hard_frame(
    runs: Sequence[ShownRun], domain: str, truth_of: Callable[[Path], Path]
) -> ComparedFrame:
    """Return the frame of the last round with the most pixels that the first run labels wrong.

    Only frames that all runs saved (``--show-dir``, ``--show-frames``) are compared.

    ``truth_of`` returns the file with the train ids of an image.
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
            run.name: _folder(run, last, domain) / f"{image.stem}{LABEL_SUFFIX}"
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


def plot_frames(frames: Sequence[ComparedFrame], palette: Palette, path: Path) -> None:
    """Save a figure with two rows per frame: labels in color, and errors in red."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    colors = _color_table(palette)
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
            axis.imshow(np.where(wrong[..., None], ERROR_RGB, 0.6 * gray + 80).astype(np.uint8))
            percent = f"{wrong_percent(label, frame.truth):.0f} % wrong"
            axis.set_title(percent, fontsize=22, color=np.array(ERROR_RGB) / 255)
        below[0].text(0.5, 0.5, "wrong pixels\nin red", fontsize=24, ha="center", va="center")
    pixels = Counter(int(i) for frame in frames for i in frame.truth.flat if i != NO_CLASS)
    largest = [list(palette)[i] for i, _ in pixels.most_common(10)]
    keys = [
        Patch(color="#{:02x}{:02x}{:02x}".format(*palette[name]), label=name) for name in largest
    ]
    figure.legend(keys, largest, loc="outside lower center", ncols=len(keys), fontsize=20)
    write_figure(path, figure, dpi=70)
