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
