"""Pseudo-labels to leaf through: one frame per domain, at every visit, of every run."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from ..shown_run import ShownRun

LABEL_SUFFIX = "_labelTrainIds.png"
TRUTH_SUFFIX = "_groundTruth.png"
NO_CLASS = 255
MOST_VISITS = 10
WIDTH = 640
"""Of pictures, at most: a page has dozens of them."""


def gallery(runs: Sequence[ShownRun]) -> list[dict[str, Any]]:
    """The frames of a page, as data for its script; empty where no run saved pseudo-labels.

    Returns:
        Per frame its ``domain``, ``name``, the ``image`` and the ``truth`` (None without the file),
        the ``classes`` that are seen, name and color, and ``layers``: per run its name and, by
        round, a ``picture`` and a ``note`` on it.
    """
    shown = [run for run in runs if run.panels and run.results.get("palette")]
    frames = []
    for domain in dict.fromkeys(domain for run in shown for domain in run.domains):
        layers = []
        classes: dict[str, Sequence[int]] = {}
        chosen: str | None = None
        truth: np.ndarray | None = None
        for run in shown:
            chosen = chosen or _first_frame(run, domain)
            if truth is None and chosen:
                truth = _truth(run, domain, chosen)
                classes |= {} if truth is None else _seen(truth, run.results["palette"])
            labels = _labels(run, domain, chosen) if chosen else {}
            if labels:
                for label, _ in labels.values():
                    classes |= _seen(label, run.results["palette"])
                layers.append((run, labels))
        if chosen and layers:
            order = [name for run, _ in layers for name in run.results["palette"]]
            frames.append(
                {
                    "domain": domain,
                    "name": chosen,
                    "image": _image(shown, domain, chosen),
                    "truth": truth
                    if truth is None
                    else _painted(truth, shown[0].results["palette"]),
                    "classes": sorted(classes.items(), key=lambda item: order.index(item[0])),
                    "layers": [_layer(run, labels, truth) for run, labels in layers],
                }
            )
    return frames


def _layer(
    run: ShownRun, labels: Mapping[int, tuple[np.ndarray, str]], truth: np.ndarray | None
) -> dict[str, Any]:
    """A run's name and, by round, the picture of its labels and a note on them."""
    visits = {}
    for number, (label, route) in labels.items():
        wrong = math.nan if truth is None else wrong_percent(label, truth)
        note = route if math.isnan(wrong) else f"{route} · {wrong:.0f} % of pixels wrong"
        visits[number] = {"picture": _painted(label, run.results["palette"]), "note": note}
    return {"run": run.name, "visits": visits}


def wrong_percent(label: np.ndarray, truth: np.ndarray) -> float:
    """Return the percentage of labeled pixels that are wrong; NaN without such a pixel."""
    known = truth != NO_CLASS
    return 100 * float((label != truth)[known].mean()) if known.any() else math.nan


def _first_frame(run: ShownRun, domain: str) -> str | None:
    """The name of the first frame of a domain that was saved in the first round."""
    saved = sorted((run.panels / "round1" / domain).glob(f"*{LABEL_SUFFIX}"))
    return saved[0].name.removesuffix(LABEL_SUFFIX) if saved else None


def _truth(run: ShownRun, domain: str, frame: str) -> np.ndarray | None:
    """The true train ids of a frame, if the run saved them."""
    file = run.panels / "round1" / domain / f"{frame}{TRUTH_SUFFIX}"
    return cv2.imread(str(file), cv2.IMREAD_GRAYSCALE) if file.is_file() else None


def _labels(run: ShownRun, domain: str, frame: str) -> dict[int, tuple[np.ndarray, str]]:
    """Train ids and route of a frame by round; of many rounds evenly spaced ones."""
    routes = {
        route["round"]: route
        for route in run.results["routes"]
        if route["domain"] == domain and Path(route.get("image") or "").stem == frame
    }
    files = {
        number: run.panels / f"round{number}" / domain / f"{frame}{LABEL_SUFFIX}"
        for number in routes
    }
    rounds = [number for number, file in files.items() if file.is_file()]
    if len(rounds) > MOST_VISITS:
        places = np.linspace(0, len(rounds) - 1, MOST_VISITS).round().astype(int)
        rounds = [rounds[place] for place in places]
    return {
        number: (
            cv2.imread(str(files[number]), cv2.IMREAD_GRAYSCALE),
            f"expert {routes[number]['expert']}, K = {routes[number]['k']}",
        )
        for number in rounds
    }


def _seen(label: np.ndarray, palette: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """The classes of a label map, with their colors."""
    named = list(palette.items())
    return dict(named[index] for index in np.unique(label) if index < len(named))


def _painted(label: np.ndarray, palette: Mapping[str, Sequence[int]]) -> str:
    """A label map in the colors of its classes, as a data URL; what has no class is black."""
    # With a palette it takes a third of the bytes.
    colors = np.zeros((256, 3), np.uint8)
    colors[: len(palette)] = list(palette.values())
    picture = Image.fromarray(_smaller(label, cv2.INTER_NEAREST))
    picture.putpalette(colors.ravel().tolist())
    buffer = io.BytesIO()
    picture.save(buffer, format="png", optimize=True)
    return _url(buffer.getvalue(), "image/png")


def _image(runs: Sequence[ShownRun], domain: str, frame: str) -> str | None:
    for run in runs:
        for route in run.results["routes"]:
            path = Path(route.get("image") or "")
            if route["domain"] == domain and path.stem == frame and path.is_file():
                picture = _smaller(cv2.imread(str(path)), cv2.INTER_AREA)
                return _url(cv2.imencode(".jpg", picture)[1].tobytes(), "image/jpeg")
    return None


def _smaller(picture: np.ndarray, interpolation: int) -> np.ndarray:
    height, width = picture.shape[:2]
    if width <= WIDTH:
        return picture
    return cv2.resize(picture, (WIDTH, round(height * WIDTH / width)), interpolation=interpolation)


def _url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
