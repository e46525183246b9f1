"""The source images of a run, for the calibration of the reservoir and of some methods."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import cv2
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from rich import get_console
from rich.progress import track
from torch import Tensor, nn

from ..config.builder import TaskContext
from ..config.schema import Options, without_scope
from ..core.image_range import ImageRange
from ..errors import ReservoirError
from ..registry import check_options
from .bad_images import check_sizes
from .datasets import UnlabeledImages, without_labels
from .forward import check_model, segmentation_forward

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")


def context_of(cfg: Config, model: Any) -> TaskContext:
    """Return the context of a segmentor with loaded weights and of its test data."""
    image_range = preprocessor_range(model.data_preprocessor)
    return TaskContext(model, segmentation_forward, image_range, ConfigSource(cfg, model))


def preprocessor_range(preprocessor: nn.Module) -> ImageRange:
    """Return the value range of the images after an mmseg data preprocessor."""
    # Mean and std are in the order of the channels after the conversion.
    bgr = not getattr(preprocessor, "channel_conversion", False)
    mean, std = (getattr(preprocessor, name, None) for name in ("mean", "std"))
    return ImageRange.of_pixels(mean, std, bgr)


class ConfigSource:
    """The images of the config's ``source_images``, read by the test pipeline.

    They are read at first use, because many runs need none.
    """

    def __init__(self, cfg: Config, model: Any) -> None:
        self.cfg, self.model = cfg, model
        self.batch_size: int = cfg.test_dataloader.batch_size
        self._is_checked = False

    @staticmethod
    def check(options: Options | None) -> None:
        """Raise an error if the options name no images."""
        if options:
            options = without_scope(options)
            check_options(UnlabeledImages, options, "source_images", injected=("pipeline",))

    @property
    def is_named(self) -> bool:
        """Whether the config names source images."""
        return bool(self.cfg.get("source_images"))

    @cached_property
    def dataset(self) -> UnlabeledImages:
        """The dataset of single images."""
        options = without_scope(self.cfg.get("source_images"))
        if not self.is_named:
            raise ReservoirError(
                "source images are needed: set source_images=dict(data_root=...) to a folder of "
                "clear images, or, if only the reservoir asks for them, "
                "reservoir.calibration.file to a saved calibration"
            )
        pipeline = list(self.cfg.test_dataloader.dataset.pipeline)
        return UnlabeledImages(**options, pipeline=pipeline)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield preprocessed batches of the test's batch size; the last one may be smaller.

        The model is checked on the first image before any batch is returned. Otherwise a caller's
        hooks on the model would count that image twice.
        """
        batches = self._batches()
        if self._is_checked:
            return batches
        first = list(islice(batches, 1))
        for inputs in first:
            check_model(self.model, inputs[:1])
            self._is_checked = True
        return chain(first, batches)

    def _batches(self) -> Iterator[Tensor]:
        test = self.cfg.test_dataloader
        loader = Runner.build_dataloader({**test, "dataset": self.dataset})
        hidden = not get_console().is_terminal  # elsewhere the bar would leave an empty line
        for data in track(loader, "Reading source images", transient=True, disable=hidden):
            check_sizes(data["inputs"])
            yield self.model.data_preprocessor(data, False)["inputs"]

    def identity(self) -> dict[str, Any]:
        """Return everything that the batches depend on, as the key of a cached calibration."""
        paths = [self.dataset.get_data_info(i)["img_path"] for i in range(len(self.dataset))]
        stats = [Path(path).stat() for path in paths]
        origin = {
            "batch_size": self.batch_size,
            "pipeline": without_labels(self.cfg.test_dataloader.dataset.pipeline),
            "preprocessor": self.cfg.model.get("data_preprocessor", {}),
            "images": [(p, s.st_size, s.st_mtime_ns) for p, s in zip(paths, stats, strict=True)],
            "versions": {"torch": torch.__version__, "cv2": cv2.__version__},
        }
        # Plain JSON values have the same hash after they are saved and read.
        return json.loads(json.dumps(origin, default=str))


def find_source_images(folder: Path | None) -> dict[str, Any] | None:
    """Return ``source_images`` options for the most frequent image suffix in a folder."""
    if folder is None:
        return None
    kinds = Counter(path.suffix for path in folder.rglob("*"))
    images = {kind: n for kind, n in kinds.items() if kind.lower() in IMAGE_SUFFIXES}
    if not images:
        raise ReservoirError(f"--source-images: there is no image in the folder {folder}")
    return {"data_root": str(folder), "img_suffix": max(images, key=images.__getitem__)}
