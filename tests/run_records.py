"""Small results.json files, for tests of what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def record(
    seed: int = 0,
    score: float = 50.0,
    lr: float = 1e-4,
    rounds: int = 2,
    config_file: str = "configs/x/tent.py",
    **changes: Any,
) -> dict[str, Any]:
    """A run over fog and night; night is 10 below fog, each visit is 1 below the one before."""
    order = [(r, domain) for r in range(1, rounds + 1) for domain in ("fog", "night")]
    return {
        "complete": True,
        "reservoir": False,
        "seed": seed,
        "versions": {"torch": "2.0"},
        "config_file": config_file,
        "config": {
            "method": {"type": "tent", "optimizer": {"type": "Adam", "lr": lr}},
            "randomness": {"seed": seed},
            "work_dir": f"work_dirs/tent_{seed}",
            "custom_hooks": [{"type": "AdaptationHook"}, {"type": "ResultsHook"}],
        },
        "visits": [
            {"round": r, "domain": d, "mIoU": score - (r - 1) - 10 * (d == "night")}
            for r, d in order
        ],
        "routes": [
            {
                "round": r,
                "domain": d,
                "image": f"{d}{i}.png",
                "expert": int(d == "night"),
                "k": 2,
                "seconds": 0.02,
                "entropy": 0.5,
                "marginal_entropy": 1.5,
            }
            for r, d in order
            for i in range(3)
        ],
        "updates": {"updates": 12, "skipped": 0, "not_finite": 0},
        **changes,
    }


def write(folder: Path, results: dict[str, Any]) -> Path:
    """Write a record as a run would; returns the file."""
    folder.mkdir(parents=True)
    file = folder / "results.json"
    file.write_text(json.dumps(results))
    return file


def rich_record(**changes: Any) -> dict[str, Any]:
    """A run with a reservoir that has everything a report shows; night lost two points."""
    results = record(reservoir=True, method="Tent", rounds=3)
    for visit in results["visits"]:
        visit |= {"k": 2, "n_images": 3, "per_class": {"road": visit["mIoU"] + 5, "car": None}}
    for route in results["routes"]:
        route |= {"route_entropy": 0.25 if route["domain"] == "night" else 0.0, "weight": 0.9}
    events = [{"step": 5, "expert": 1, "lost": 2.0, "drift": 0.1, "keep": 0.25, "scale": 0.25}]
    return {
        **results,
        "guard": {"margin": 0.03, "experts": {}, "events": events},
        "stages": {"style": 0.004, "route": 0.001, "adapt and predict": 0.015},
        "options": {"reservoir": {"k_max": 4, "router": {"quantile": 0.9}}},
        "palette": {"road": [128, 64, 128], "car": [0, 0, 142]},
        **changes,
    }


def styles_of(results: dict[str, Any], length: int = 6) -> tuple:
    """Styles for every route, such that domains lie apart and move a bit from round to round."""
    import numpy as np

    from mmseg_reservoir.runs.style_sample import Styles

    rows = np.random.default_rng(0).normal(size=(len(results["routes"]), length)).astype("float32")
    for row, route in zip(rows, results["routes"], strict=True):
        row += 20 * (route["domain"] == "night") + route["round"]
    return Styles(rows, np.arange(len(rows)))
