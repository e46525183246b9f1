"""Pseudo-labels to leaf through: one frame per domain, at every visit, of every run."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ..shown_run import ShownRun

LABEL_SUFFIX = "_labelTrainIds.png"
MOST_VISITS = 10
WIDTH = 640
"""Of pictures, at most: a page has dozens of them."""


def gallery(runs: Sequence[ShownRun]) -> list[dict[str, Any]]:
    """The frames of a page, as data for its script; empty where no run saved pseudo-labels.

    Returns:
        Per frame its ``domain``, ``name``, the ``image`` (None if the file is gone) and ``layers``:
        per run its name and, by round, a ``picture`` and what the ``route`` was.
    """
    shown = [run for run in runs if run.panels and run.results.get("palette")]
    frames = []
    for domain in dict.fromkeys(domain for run in shown for domain in run.domains):
        layers = []
        chosen: str | None = None
        for run in shown:
            chosen = chosen or _first_frame(run, domain)
            visits = _visits(run, domain, chosen) if chosen else {}
            if visits:
                layers.append({"run": run.name, "visits": visits})
        if chosen and layers:
            image = _image(shown, domain, chosen)
            frames.append({"domain": domain, "name": chosen, "image": image, "layers": layers})
    return frames


def _first_frame(run: ShownRun, domain: str) -> str | None:
    """The name of the first frame of a domain that was saved in the first round."""
    saved = sorted((run.panels / "round1" / domain).glob(f"*{LABEL_SUFFIX}"))
    return saved[0].name.removesuffix(LABEL_SUFFIX) if saved else None


def _visits(run: ShownRun, domain: str, frame: str) -> dict[int, dict[str, str]]:
    """Picture and route of a frame by round; of many rounds evenly spaced ones."""
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
        number: {
            "picture": _painted(files[number], run.results["palette"]),
            "route": f"expert {routes[number]['expert']}, K = {routes[number]['k']}",
        }
        for number in rounds
    }


def _painted(file: Path, palette: Mapping[str, Sequence[int]]) -> str:
    """A label map in the colours of its classes, as a data URL; what has no class is black."""
    label = _smaller(cv2.imread(str(file), cv2.IMREAD_GRAYSCALE), cv2.INTER_NEAREST)
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = np.array(list(palette.values()), np.uint8)[:, ::-1]
    return _data_url(colours[label], "png")


def _image(runs: Sequence[ShownRun], domain: str, frame: str) -> str | None:
    for run in runs:
        for route in run.results["routes"]:
            path = Path(route.get("image") or "")
            if route["domain"] == domain and path.stem == frame and path.is_file():
                return _data_url(_smaller(cv2.imread(str(path)), cv2.INTER_AREA), "jpg")
    return None


def _smaller(picture: np.ndarray, interpolation: int) -> np.ndarray:
    height, width = picture.shape[:2]
    if width <= WIDTH:
        return picture
    return cv2.resize(picture, (WIDTH, round(height * WIDTH / width)), interpolation=interpolation)


def _data_url(picture: np.ndarray, kind: str) -> str:
    encoded = cv2.imencode(f".{kind}", picture)[1].tobytes()
    mime = {"png": "image/png", "jpg": "image/jpeg"}[kind]
    return f"data:{mime};base64,{base64.b64encode(encoded).decode('ascii')}"
