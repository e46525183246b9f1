"""Datasets in ACDC's layout, and folders of unlabelled images."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmcv.transforms import LoadAnnotations as BaseLoadAnnotations
from mmengine.logging import print_log
from mmengine.registry import DATASETS
from mmseg.datasets import BaseSegDataset, CityscapesDataset

from ..errors import ReservoirError
from ..files import told
from .bad_images import explain


class _NamesBrokenFiles:
    """Mixin: an error while reading a sample names the file, in this process or a worker."""

    def prepare_data(self, idx: int) -> Any:
        try:
            return super().prepare_data(idx)
        except Exception as error:
            raise ReservoirError(explain(self.get_data_info(idx), error)) from error


@DATASETS.register_module()
class ACDCDataset(_NamesBrokenFiles, CityscapesDataset):
    """Images of one adverse condition in ACDC's folders, sorted by name, with Cityscapes' classes.

    ``ROOT/rgb_anon/{condition}/{split}/{sequence}/*_rgb_anon.png`` and
    ``ROOT/gt/{condition}/{split}/{sequence}/*_gt_labelTrainIds.png``. A condition without any
    label, as in ACDC's test split, is a stream that is not scored.

    Args:
        data_root: The folder that holds ``rgb_anon`` and ``gt``.
        condition: ``fog``, ``night``, ``rain`` or ``snow`` (MiniCity also has ``clear``).
        split: ``train``, ``val``, ...
        **kwargs: See ``mmseg.datasets.BaseSegDataset``.
    """

    def __init__(self, data_root: str, condition: str, split: str = "train", **kwargs: Any) -> None:
        super().__init__(
            data_root=data_root,
            data_prefix=dict(
                img_path=f"rgb_anon/{condition}/{split}", seg_map_path=f"gt/{condition}/{split}"
            ),
            img_suffix="_rgb_anon.png",
            seg_map_suffix="_gt_labelTrainIds.png",
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        """All images with their labels; a missing folder or file is an error, not a skip."""
        folder = Path(self.data_prefix["img_path"])
        samples = super().load_data_list() if folder.is_dir() else []
        if not samples:
            raise ReservoirError(
                f"no images *{self.img_suffix} below {told(folder)}: data_root must hold ACDC's "
                "folders rgb_anon/{condition}/{split}/{sequence} and gt/..."
            )
        unlabelled = [s for s in samples if not Path(s["seg_map_path"]).is_file()]
        if len(unlabelled) == len(samples):
            first = samples[0]["seg_map_path"]
            print_log(
                f"no labels for the images below {folder} (the first should be at {first}): they "
                "will not be scored",
                logger="current",
                level=logging.WARNING,
            )
            steps = self.pipeline.transforms
            self.pipeline.transforms = [s for s in steps if not isinstance(s, BaseLoadAnnotations)]
            return [{k: v for k, v in s.items() if k != "seg_map_path"} for s in samples]
        if unlabelled:
            raise ReservoirError(
                f"{len(unlabelled)} of {len(samples)} images below {folder} have no label, the "
                f"first should be at {unlabelled[0]['seg_map_path']}"
            )
        return samples


def without_labels(pipeline: Sequence[dict]) -> list[dict]:
    """The steps of a pipeline except the one that loads labels."""
    return [step for step in pipeline if not str(step["type"]).endswith("LoadAnnotations")]


def check_count(num_images: int | None) -> None:
    """Refuse a number of source images from which nothing can be learned."""
    if num_images is not None and num_images < 2:
        raise ReservoirError(
            f"source_images.num_images must be 2 or more, or None for all, got {num_images}"
        )


@DATASETS.register_module()
class UnlabelledImages(_NamesBrokenFiles, BaseSegDataset):
    """All images below a folder, without labels: what a calibration needs of the source.

    Args:
        data_root: The folder; searched recursively.
        img_suffix: How the names of its images end.
        num_images: Take this many, evenly spaced over the sorted names; None for all.
        pipeline: The test pipeline. Its step that loads labels is left out.
        **kwargs: See ``mmseg.datasets.BaseSegDataset``.
    """

    METAINFO = dict(classes=(), palette=())

    def __init__(
        self,
        data_root: str,
        img_suffix: str = ".png",
        num_images: int | None = 2000,
        pipeline: Sequence[dict] = (),
        **kwargs: Any,
    ) -> None:
        check_count(num_images)
        self.num_images = num_images
        super().__init__(
            img_suffix=img_suffix,
            data_prefix=dict(img_path=data_root),
            pipeline=without_labels(pipeline),
            test_mode=True,
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        folder = Path(self.data_prefix["img_path"])
        samples = super().load_data_list() if folder.is_dir() else []
        if len(samples) < 2:
            raise ReservoirError(
                f"{len(samples)} source images *{self.img_suffix} below {told(folder)}: "
                "calibration needs 2 or more (2000 in the paper)"
            )
        if self.num_images is None or self.num_images >= len(samples):
            return samples
        chosen = np.linspace(0, len(samples) - 1, self.num_images).round().astype(int)
        return [samples[i] for i in chosen]
