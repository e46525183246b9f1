"""ACDC: 4006 images of fog, night, rain and snow (Sakaridis et al., ICCV 2021)."""

from __future__ import annotations

from pathlib import Path

from .disk_layout import Cell, Layout

CONDITIONS = ("fog", "night", "rain", "snow")
IMAGES = {"train": 400, "val": 100, "test": 500}


def _cells(root: Path) -> list[Cell]:
    # {split}_ref holds the same places in clear weather: not part of the stream, not looked at.
    return [
        Cell(
            split,
            condition,
            images=f"rgb_anon/{condition}/{split}",
            labels=None if split == "test" else f"gt/{condition}/{split}",
            expected=106 if (split, condition) == ("val", "night") else count,
            needed=split == "train",
        )
        for split, count in IMAGES.items()
        for condition in CONDITIONS
    ]


LAYOUT = Layout(
    title="ACDC",
    cells=_cells,
    marks=("rgb_anon",),
    never=("minicity.json",),
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
