"""The source images of a run: for the calibration of the reservoir, and for methods that ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import torch
from mmengine.runner import Runner
from rich.progress import track
from torch import Tensor

from ..core.calibration import Calibration, cache_key
from ..core.model_style import ModelStyleEncoder
from ..core.style import StyleEncoder
from ..errors import ReservoirError
from ..options import construct
from ..style_cache import cache_folder
from .datasets import UnlabelledImages, without_labels


def source_dataset(runner: Runner) -> UnlabelledImages:
    """The images named by ``source_images`` in the config, through the pipeline of the test."""
    source = runner.cfg.get("source_images")
    if not source:
        raise ReservoirError(
            "source images are needed: set source_images=dict(data_root=...) to a folder of clear "
            "images, or, if only the reservoir asks for them, reservoir.calibration.file to a "
            "saved calibration"
        )
    pipeline = list(runner.cfg.test_dataloader.dataset.pipeline)
    return construct(UnlabelledImages, dict(source), "source_images", pipeline=pipeline)


def source_batches(runner: Runner, dataset: UnlabelledImages) -> Iterator[Tensor]:
    """Preprocessed batches of the size of the test's."""
    test = runner.cfg.test_dataloader
    # The style of a batch depends on its size, so an incomplete one tells nothing.
    drop_last = len(dataset) > test.batch_size
    loader = runner.build_dataloader({**test, "dataset": dataset, "drop_last": drop_last})
    for data in track(loader, "Reading source images", transient=True):
        yield runner.model.data_preprocessor(data, False)["inputs"]


def default_cache() -> Path:
    """The user's cache folder for calibrations."""
    return cache_folder() / "calibration"


def calibrate(
    runner: Runner,
    encoder: StyleEncoder | ModelStyleEncoder,
    encode: Callable[[Tensor], Tensor],
    file: str | None = None,
    cache: str | None = None,
) -> Calibration:
    """Get the calibration of a run: from a file, from the cache, or from source images.

    Args:
        runner: Its config names the test data (pipeline, batch size) and ``source_images``.
        encoder: The style encoder.
        encode: Preprocessed images to style vector (the encoder behind an input conversion).
        file: A saved calibration; no source images are needed then.
        cache: Folder of cached calibrations; None for the user's cache folder.
    """
    style = encoder.fingerprint()
    if file is not None:
        calibration = Calibration.load(file)
        if calibration.about.get("style") != style:
            raise ReservoirError(
                f"{file} was made with another style encoder (weights, taps, statistic or size): "
                "calibrate again, or use the same reservoir.style"
            )
        return calibration

    dataset = source_dataset(runner)
    test = runner.cfg.test_dataloader
    about = {
        "style": style,
        "batch_size": test.batch_size,
        "pipeline": _plain(without_labels(test.dataset.pipeline)),
        "preprocessor": _plain(runner.cfg.model.get("data_preprocessor", {})),
        "images": [_identity(dataset.get_data_info(i)["img_path"]) for i in range(len(dataset))],
        "versions": {"torch": torch.__version__, "cv2": cv2.__version__},
    }
    path = Path(cache or default_cache()).expanduser() / f"{cache_key(about)}.safetensors"
    if path.is_file():
        runner.logger.info(f"Calibration of {len(dataset)} source images taken from {path}")
        return Calibration.load(path)
    styles = [encode(inputs).cpu() for inputs in source_batches(runner, dataset)]
    calibration = Calibration(torch.stack(styles), about)
    calibration.save(path)
    runner.logger.info(f"Calibrated on {len(dataset)} source images, cached as {path}")
    return calibration


def _identity(path: str) -> list[object]:
    stat = Path(path).stat()
    return [path, stat.st_size, stat.st_mtime_ns]


def _plain(value: Any) -> Any:
    """A config value as plain JSON values, so that it hashes the same after a round trip."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (int, float, bool, type(None))) else str(value)
