"""Cityscapes (Cordts et al., CVPR 2016): the source domain; a reservoir needs only its images."""

from __future__ import annotations

from pathlib import Path

from .disk_layout import Cell, Layout

IMAGES = {"train": 2975, "val": 500, "test": 1525}


def _cells(root: Path) -> list[Cell]:
    return [
        Cell(
            split,
            "clear",
            images=f"leftImg8bit/{split}",
            # The test labels that come with it are blank.
            labels=None if split == "test" else f"gtFine/{split}",
            expected=count,
            needed=split == "train",
        )
        for split, count in IMAGES.items()
    ]


LAYOUT = Layout(
    title="Cityscapes",
    cells=_cells,
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
