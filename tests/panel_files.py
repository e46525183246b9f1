"""Pseudo-labels as a run with ``--show-dir`` saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np


def save_panels(results: dict[str, Any], folder: Path, size: tuple[int, int] = (8, 16)) -> None:
    """Save the first frame of each domain in every round, and name the folder in the config.

    In round r the first r columns are a car, the rest is road; in truth all is road but the last
    column, which has no class.
    """
    hook = {"type": "PseudoLabelHook", "show_dir": str(folder / "panels")}
    results["config"]["custom_hooks"].append(hook)
    for route in results["routes"]:
        route["image"] = str(folder / f"{route['domain']}_{Path(route['image']).stem[-1]}.png")
        if route["image"].endswith("_0.png"):
            label = np.zeros(size, np.uint8)
            label[:, : route["round"]] = 1
            place = folder / "panels" / f"round{route['round']}" / route["domain"]
            place.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(place / f"{route['domain']}_0_labelTrainIds.png"), label)
            truth = np.zeros(size, np.uint8)
            truth[:, -1] = 255
            cv2.imwrite(str(place / f"{route['domain']}_0_groundTruth.png"), truth)
            cv2.imwrite(route["image"], np.full((*size, 3), 200, np.uint8))
