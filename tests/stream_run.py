"""Runs ``reservoir test`` on a small MiniCity, for tests."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from mmengine.logging import MMLogger

from mmseg_reservoir.cli import test as test_tta

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
TINY = CONFIGS / "minicity"
SHORT = ["test_cfg.rounds=1", "test_cfg.domains=[fog]"]
"""Options of a run of three images, to come after ``data_options``."""


class FinishedRun(NamedTuple):
    """A run that several tests share. To be read only."""

    work_dir: Path
    results: dict
    printed: str


def data_options(minicity: Path) -> list[str]:
    """The --cfg-options that point a MiniCity config at ``minicity``, for a short stream."""
    return [
        f"test_dataloader.dataset.data_root={minicity}",
        f"source_images.data_root={minicity}/rgb_anon/clear/train",
        "test_cfg.rounds=2",
        "test_cfg.domains=[fog,night]",
    ]


def run(config: str | Path, minicity: Path, work_dir: Path, *options: str, flags=()) -> dict:
    """Run a config with random weights to the end; returns results.json."""
    path = config if isinstance(config, Path) else TINY / f"{config}.py"
    weights = () if any(str(f).endswith(".safetensors") for f in flags) else ("--random-weights",)
    command = [str(path), *map(str, flags), *weights, f"--work-dir={work_dir}", "--cfg-options"]
    assert test_tta.main([*command, *data_options(minicity), *options]) == 0
    return json.loads((work_dir / "results.json").read_text())


def finished(*args, **options) -> FinishedRun:
    """Run as :func:`run` does, and keep what is printed."""
    MMLogger._instance_dict.clear()  # see conftest.py
    with redirect_stdout(io.StringIO()) as printed:
        results = run(*args, **options)
    return FinishedRun(args[2], results, printed.getvalue())


def seeded_reservoir(cache: Path) -> list[str]:
    """Options of a reservoir that needs no downloads and opens experts easily."""
    return [
        "reservoir.preset=published",
        "reservoir.style.weights=seeded",
        f"reservoir.calibration.cache={cache}",
        "reservoir.router.quantile=0.5",
    ]
