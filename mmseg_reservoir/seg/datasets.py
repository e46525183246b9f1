"""Datasets in ACDC's layout, SHIFT, and folders of unlabeled images."""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from annotated_types import Ge
from mmcv.transforms import LoadAnnotations as BaseLoadAnnotations
from mmengine.logging import print_log
from mmengine.registry import DATASETS, TRANSFORMS
from mmseg.datasets import BaseSegDataset, CityscapesDataset
from mmseg.datasets.transforms import LoadAnnotations
from PIL import Image

from ..datasets.street_scenes import minicity_hint
from ..errors import ReservoirError
from ..io.files import display_path
from ..registry import checked
from .bad_images import explain


class _NamesBrokenFiles:
    """Mixin that adds the file to an error of reading a sample, also in a worker."""

    def prepare_data(self, idx: int) -> Any:
        try:
            return super().prepare_data(idx)  # type: ignore[misc]
        except Exception as error:
            raise ReservoirError(explain(cast(Any, self).get_data_info(idx), error)) from error


@DATASETS.register_module()
class ACDCDataset(_NamesBrokenFiles, CityscapesDataset):
    """Images of one condition in ACDC's folders, sorted by name, with Cityscapes' classes.

    The files are ``ROOT/rgb_anon/{condition}/{split}/{sequence}/*_rgb_anon.png`` and
    ``ROOT/gt/{condition}/{split}/{sequence}/*_gt_labelTrainIds.png``. A condition without any
    label, as in ACDC's test split, is not scored.

    Args:
        data_root: The folder that holds ``rgb_anon`` and ``gt``.
        condition: ``fog``, ``night``, ``rain`` or ``snow`` (MiniCity also has ``clear``).
        split: The name of the split, such as ``train`` or ``val``.
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
        """Return all images with their labels; a missing folder or file is an error."""
        folder = Path(self.data_prefix["img_path"])
        samples = super().load_data_list() if folder.is_dir() else []
        if not samples:
            raise ReservoirError(
                f"no images *{self.img_suffix} below {display_path(folder)}: data_root must hold "
                "ACDC's folders rgb_anon/{condition}/{split}/{sequence} and gt/..."
                f"{minicity_hint(folder)}"
            )
        missing = [s for s in samples if not Path(s["seg_map_path"]).is_file()]
        if missing and len(missing) < len(samples):
            raise ReservoirError(
                f"{len(missing)} of {len(samples)} images below {folder} have no label, the "
                f"first should be at {missing[0]['seg_map_path']}"
            )
        if missing:
            _read_without_labels(self, samples[0])
            return [{k: v for k, v in s.items() if k != "seg_map_path"} for s in samples]
        return samples


def make_labels_optional(dataset: Any) -> None:
    """Make a dataset without any label readable. Its images are adapted to, but not scored.

    A dataset does not change if it is not mmengine's, or if its files are not on this disk.
    """
    for part in getattr(dataset, "datasets", None) or [getattr(dataset, "dataset", None)]:
        if part is not None:  # of a ConcatDataset, a RepeatDataset, ...
            make_labels_optional(part)
    steps = getattr(getattr(dataset, "pipeline", None), "transforms", ())
    loads_labels = any(isinstance(step, BaseLoadAnnotations) for step in steps)
    if not loads_labels or not len(dataset) or getattr(dataset, "backend_args", None):
        return
    samples = (dataset.get_data_info(index) for index in range(len(dataset)))
    # Without a label folder, mmseg expects labels beside the images, and may name the image.
    files = (s.get("seg_map_path") for s in samples if s.get("seg_map_path") != s["img_path"])
    if not any(file and Path(file).is_file() for file in files):
        _read_without_labels(dataset, dataset.get_data_info(0))


def label_names(dataset: Any) -> dict[str, str]:
    """Return a name for the predicted label of each image, by the path of the image.

    It is the name of the image, or its path below their common folder if two images share a name.
    The result is empty for a dataset that is not mmengine's.
    """
    if not hasattr(dataset, "get_data_info"):
        return {}
    paths = [str(dataset.get_data_info(index)["img_path"]) for index in range(len(dataset))]
    stems = {path: Path(path).stem for path in paths}
    if len(set(stems.values())) == len(stems):
        return stems
    base = os.path.commonpath([os.path.dirname(path) for path in paths])
    return {path: os.path.splitext(os.path.relpath(path, base))[0] for path in paths}


def _read_without_labels(dataset: Any, first: Mapping[str, Any]) -> None:
    """Remove the step that loads labels from a dataset's pipeline, and log this."""
    label = {first.get("seg_map_path")} - {first["img_path"], None}
    where = f" (the first should be at {label.pop()})" if label else ""
    print_log(
        f"no labels for the images below {Path(first['img_path']).parent}{where}: they will not "
        "be scored",
        logger="current",
        level=logging.WARNING,
    )
    steps = dataset.pipeline.transforms
    dataset.pipeline.transforms = [s for s in steps if not isinstance(s, BaseLoadAnnotations)]


def without_labels(pipeline: Sequence[dict]) -> list[dict]:
    """Return a pipeline without its step that loads labels."""
    return [step for step in pipeline if not str(step["type"]).endswith("LoadAnnotations")]


@DATASETS.register_module(name=["UnlabeledImages", "UnlabelledImages"])  # the second: old name
@checked
class UnlabeledImages(_NamesBrokenFiles, BaseSegDataset):
    """All images below a folder, without labels, such as source images for a calibration.

    Args:
        data_root: The folder, which is searched recursively.
        img_suffix: The ending of the images' names.
        num_images: The number of images, evenly spaced over the sorted names; None for all.
        pipeline: The test pipeline. Its step that loads labels is removed.
        **kwargs: See ``mmseg.datasets.BaseSegDataset``.
    """

    def __init__(
        self,
        data_root: str,
        img_suffix: str = ".png",
        num_images: Annotated[int, Ge(2)] | None = 2000,
        pipeline: Sequence[dict] = (),
        **kwargs: Any,
    ) -> None:
        self.num_images = num_images
        kwargs.setdefault("metainfo", dict(classes=(), palette=()))
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
            remedy = minicity_hint(folder) or (
                "; set source_images.data_root to a folder of them, reservoir.calibration.file to "
                "a saved calibration, or for reservoir adapt with Cityscapes' classes "
                "source_images=None, which takes the bundled styles"
            )
            raise ReservoirError(
                f"{len(samples)} source images *{self.img_suffix} below {display_path(folder)}: "
                f"calibration needs 2 or more (2000 in the paper){remedy}"
            )
        if self.num_images is None or self.num_images >= len(samples):
            return samples
        chosen = np.linspace(0, len(samples) - 1, self.num_images).round().astype(int)
        return [samples[i] for i in chosen]


_CARLA = {
    1: 2, 2: 4, 4: 11, 5: 5, 6: 0, 7: 0, 8: 1, 9: 8, 10: 13, 11: 3, 12: 7, 13: 10, 18: 6, 22: 9
}  # fmt: skip
"""Cityscapes' train id of each id of SHIFT. Lane markings are road; every vehicle is a car."""


@TRANSFORMS.register_module()
class LoadSHIFTAnnotations(LoadAnnotations):
    """Pipeline step that converts the first channel of a SHIFT label to Cityscapes' train ids."""

    def _load_seg_map(self, results: dict) -> None:
        ids = np.asarray(Image.open(results["seg_map_path"]))
        train_ids = np.full(256, 255, np.uint8)
        train_ids[list(_CARLA)] = list(_CARLA.values())
        results["gt_seg_map"] = train_ids[ids if ids.ndim == 2 else ids[..., 0]]
        results["seg_fields"].append("gt_seg_map")


@DATASETS.register_module()
class SHIFTDataset(_NamesBrokenFiles, CityscapesDataset):
    """Simulated front views of SHIFT (Sun et al., CVPR 2022), with Cityscapes' classes.

    The files are ``img/{sequence}/*_img_front.jpg`` and ``semseg/{sequence}/*_semseg_front.png``.
    SHIFT does not separate all classes: riders are persons; trucks, buses and bicycles are cars.

    Args:
        weather: The weather at the start of a sequence (``clear``, ``cloudy``, ``overcast``,
            ``rainy``, ``foggy``), from the ``seq.csv`` beside ``img``; None for all.
        daytime: Its time of day (``daytime``, ``dawn/dusk``, ``night``); None for all.
        pipeline: The pipeline of other datasets. Its labels are loaded as SHIFT's.
        **kwargs: See ``mmseg.datasets.BaseSegDataset``.
    """

    def __init__(
        self,
        weather: str | None = None,
        daytime: str | None = None,
        pipeline: Sequence[dict] = (),
        **kwargs: Any,
    ) -> None:
        wanted = {"start_weather_coarse": weather, "start_timeofday_coarse": daytime}
        self.wanted = {column: value for column, value in wanted.items() if value is not None}
        steps = [
            {"type": "LoadSHIFTAnnotations"} if step["type"] == "LoadAnnotations" else step
            for step in pipeline
        ]
        super().__init__(
            img_suffix="_img_front.jpg",
            seg_map_suffix="_semseg_front.png",
            pipeline=steps,
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        samples = super().load_data_list()
        if not self.wanted:
            return samples
        table = Path(self.data_prefix["img_path"]).with_name("seq.csv")
        if not table.is_file():
            raise ReservoirError(
                f"no {table}, which lists the weather of SHIFT's sequences: get it"
            )
        with table.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        chosen = {row["video"] for row in rows if all(row[c] == v for c, v in self.wanted.items())}
        selected = [s for s in samples if Path(s["img_path"]).parent.name in chosen]
        if not selected:
            there = {c: sorted({row[c] for row in rows}) for c in self.wanted}
            raise ReservoirError(f"no sequence of SHIFT has {self.wanted}; {table} has {there}")
        return selected
