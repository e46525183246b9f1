"""Saved reservoirs: write one to a folder, start from it, merge, prune and export it.

    save_reservoir(pipeline, "night_shift", about={})
    load_reservoir(another_pipeline, "night_shift")  # which recognizes its domains at once

The commands are ``reservoir experts inspect | export | merge | prune``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._renamed import renamed_names
from ..core.pipeline import AdaptationPipeline
from ..errors import ReservoirError
from .folder import read_folder, write_folder
from .reservoir_snapshot import ReservoirSnapshot, load_snapshot, take_snapshot


def save_reservoir(
    pipeline: AdaptationPipeline, folder: str | os.PathLike, about: Mapping[str, Any] | None = None
) -> Path:
    """Write the experts of a pipeline, and what recognizes their domains, into a folder.

    Args:
        pipeline: A pipeline with a reservoir, of either task.
        folder: Written completely or not at all. An existing reservoir is replaced.
        about: Description of the run as plain JSON values, such as ``RunBuilder.options``.
    """
    with pipeline.lock:
        return write_folder(take_snapshot(pipeline, about or {}), folder)


def load_reservoir(pipeline: AdaptationPipeline, folder: str | os.PathLike) -> None:
    """Load a saved reservoir into a new pipeline; no source image is needed.

    Args:
        pipeline: A pipeline with the same model, method, params and router, on any device.
        folder: The folder that :func:`save_reservoir` wrote.
    """
    snapshot = read_folder(folder)
    try:
        with pipeline.lock:
            load_snapshot(snapshot, pipeline)
    except ReservoirError as error:
        raise ReservoirError(f"{folder}: {error}") from error


__all__ = ["ReservoirSnapshot", "load_reservoir", "read_folder", "save_reservoir", "write_folder"]

__getattr__ = renamed_names(__name__, {"Contents": "snapshot.ReservoirSnapshot"})
