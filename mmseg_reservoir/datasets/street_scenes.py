"""The street scenes of segmentation, which mmseg reads: only their layouts are here.

ACDC has 4006 images of fog, night, rain and snow (Sakaridis et al., ICCV 2021). Cityscapes (Cordts
et al., CVPR 2016) is the source domain; a reservoir needs only its images. MiniCity is what
tools/make_minicity.py writes in ACDC's folders. Others that mmseg's users have are Dark Zurich
(Sakaridis et al., ICCV 2019), Foggy Cityscapes (Sakaridis et al., IJCV 2018), BDD100K (Yu et al.,
CVPR 2020) and SHIFT (Sun et al., CVPR 2022); `seg.named_sets` has them as domains.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ..errors import ReservoirError
from ..io.files import shipped
from ..minicity.scene import COLUMNS, ROWS
from ..minicity.writer import MANIFEST
from .disk_layout import Cell, Layout

ACDC_IMAGES = {
    (split, condition): count
    for split, count in (("train", 400), ("val", 100), ("test", 500))
    for condition in ("fog", "night", "rain", "snow")
} | {("val", "night"): 106}
CITYSCAPES_IMAGES = {("train", "clear"): 2975, ("val", "clear"): 500, ("test", "clear"): 1525}


def minicity_command() -> str:
    """Return the command that writes MiniCity, of a checkout or of an installed package."""
    is_installed = ".mim" in shipped("tools/make_minicity.py").parts
    return "reservoir-make-minicity" if is_installed else "python tools/make_minicity.py"


def minicity_hint(path: str | os.PathLike) -> str:
    """Return how to make MiniCity, for a message about missing data; empty for other data."""
    parts = Path(path).parts
    if "minicity" not in parts:
        return ""
    root = Path(*parts[: parts.index("minicity") + 1])
    return f"; MiniCity is missing: make it with {minicity_command()} {root}"


def _cells(counts: Mapping[tuple[str, str], int], images: str, labels: str) -> list[Cell]:
    """What was published; there are no labels of the test, those in Cityscapes are blank."""
    return [
        Cell(
            split,
            condition,
            images=images.format(split=split, condition=condition),
            labels=None if split == "test" else labels.format(split=split, condition=condition),
            expected=count,
            needed=split == "train",
        )
        for (split, condition), count in counts.items()
    ]


def _minicity_cells(root: Path) -> list[Cell]:
    """What the data set says of itself: its size is up to the user."""
    try:
        counts = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["counts"]
        return [
            Cell(
                split, condition, f"rgb_anon/{condition}/{split}", f"gt/{condition}/{split}", count
            )
            for condition, splits in counts.items()
            for split, count in splits.items()
            if count > 0
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReservoirError(
            f"{root / MANIFEST} is damaged ({type(error).__name__}: {error}): move {root} away "
            f"and write the data set again with {minicity_command()}"
        ) from error


ACDC = Layout(
    title="ACDC",
    # {split}_ref holds the same places in clear weather: not part of the stream, not looked at.
    cells=lambda root: _cells(
        ACDC_IMAGES, "rgb_anon/{condition}/{split}", "gt/{condition}/{split}"
    ),
    marks=("rgb_anon",),
    never=(MANIFEST,),
    image_suffix="_rgb_anon.png",
    label_suffix="_gt_labelTrainIds.png",
    raw_label_suffix="_gt_labelIds.png",
    size=(1080, 1920),
    download=(
        "get rgb_anon_trainvaltest.zip and gt_trainval.zip from acdc.vision.ee.ethz.ch and unzip "
        "both, so that {root} holds rgb_anon/CONDITION/SPLIT/SEQUENCE and gt/CONDITION/SPLIT/..."
    ),
    make_labels="gt_trainval.zip has *_gt_labelTrainIds.png too: unzip it again, whole",
)
CITYSCAPES = Layout(
    title="Cityscapes",
    cells=lambda root: _cells(CITYSCAPES_IMAGES, "leftImg8bit/{split}", "gtFine/{split}"),
    marks=("leftImg8bit",),
    image_suffix="_leftImg8bit.png",
    label_suffix="_gtFine_labelTrainIds.png",
    raw_label_suffix="_gtFine_labelIds.png",
    size=(1024, 2048),
    labels_needed=False,
    download=(
        "get leftImg8bit_trainvaltest.zip (for labels also gtFine_trainvaltest.zip) from "
        "www.cityscapes-dataset.com and unzip, so that {root} holds leftImg8bit/SPLIT/CITY"
    ),
    make_labels=(
        "pip install cityscapesscripts, then CITYSCAPES_DATASET={root} csCreateTrainIdLabelImgs "
        "(it reads gtFine/*/*/*_polygons.json)"
    ),
)
MINICITY = Layout(
    title="MiniCity",
    cells=_minicity_cells,
    marks=(MANIFEST,),
    image_suffix="_rgb_anon.png",
    label_suffix="_gt_labelTrainIds.png",
    size=(ROWS, COLUMNS),
    download=f"write it again: {minicity_command()} {{root}} --overwrite",
)
DARK_ZURICH = Layout(
    title="Dark Zurich",
    # 50 labelled pictures; the 2416 of train have no labels, and are not looked at.
    cells=lambda root: [
        Cell("val", "night", "rgb_anon/val/night", "gt/val/night", expected=50, needed=True)
    ],
    marks=("rgb_anon/val/night",),
    image_suffix="_rgb_anon.png",
    label_suffix="_gt_labelTrainIds.png",
    raw_label_suffix="_gt_labelIds.png",
    size=(1080, 1920),
    download=(
        "get Dark_Zurich_val_anon.zip from www.trace.ethz.ch/publications/2019/GCMA_UIoU and unzip "
        "it, so that {root} holds rgb_anon/val/night/GOPR0356 and gt/val/night/GOPR0356"
    ),
)
FOGGY_CITYSCAPES = Layout(
    title="Foggy Cityscapes",
    cells=lambda root: _cells(
        {("train", "fog"): 2975, ("val", "fog"): 500}, "leftImg8bit_foggy/{split}", "gtFine/{split}"
    ),
    marks=("leftImg8bit_foggy",),
    image_suffix="_leftImg8bit_foggy_beta_0.02.png",
    label_suffix="_gtFine_labelTrainIds.png",
    raw_label_suffix="_gtFine_labelIds.png",
    size=(1024, 2048),
    labels_needed=False,
    download=(
        "get leftImg8bit_trainvaltest_foggy.zip and gtFine_trainvaltest.zip from "
        "www.cityscapes-dataset.com and unzip both, so that {root} holds "
        "leftImg8bit_foggy/SPLIT/CITY and gtFine/SPLIT/CITY"
    ),
    make_labels=CITYSCAPES.make_labels,
)
BDD100K = Layout(
    title="BDD100K",
    cells=lambda root: [
        Cell(
            split,
            "any",
            f"images/10k/{split}",
            f"labels/sem_seg/masks/{split}",
            expected=count,
            needed=split == "val",
        )
        for split, count in (("train", 7000), ("val", 1000))
    ],
    marks=("images/10k",),
    image_suffix=".jpg",
    label_suffix=".png",
    size=(720, 1280),
    download=(
        "get the 10K images and the semantic segmentation labels from bdd-data.berkeley.edu and "
        "unzip both, so that {root} holds images/10k/SPLIT and labels/sem_seg/masks/SPLIT"
    ),
)
SHIFT = Layout(
    title="SHIFT",
    # Labels are ids of CARLA in the first channel of a colour picture, which no check here reads.
    cells=lambda root: [
        Cell(split, "any", f"discrete/images/{split}/front/img", needed=split == "val")
        for split in ("train", "val")
    ],
    marks=("discrete/images",),
    image_suffix="_img_front.jpg",
    size=(800, 1280),
    download=(
        "get view front, groups img and semseg, of the discrete images with the download.py of "
        "github.com/SysCV/shift-dev and unzip both, so that {root} holds "
        "discrete/images/SPLIT/front/img/SEQUENCE and discrete/images/SPLIT/front/semseg/SEQUENCE"
    ),
)
