"""CIFAR-10-C and CIFAR-100-C (Hendrycks and Dietterich, ICLR 2019): one array per corruption."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mmseg_reservoir.known_datasets import CIFAR_C_IMAGES, CORRUPTIONS, EXTRA_CORRUPTIONS

from ..layout import Array, Cell, Layout

COUNT = 5 * CIFAR_C_IMAGES


def _cells(root: Path, classes: int) -> list[Cell]:
    names = [("test", name) for name in CORRUPTIONS]
    names += [("extra", name) for name in EXTRA_CORRUPTIONS]
    pixels = Array((COUNT, 32, 32, 3), "uint8")
    labels = Array((COUNT,), classes=classes)
    return [
        Cell("test", "labels", ".", files=("labels.npy",), expected=1, array=labels),
        *(
            Cell(
                split,
                name,
                images=".",
                expected=1,
                needed=split == "test",
                files=(f"{name}.npy",),
                array=pixels,
            )
            for split, name in names
        ),
    ]


def _layout(classes: int, record: str) -> Layout:
    return Layout(
        title=f"CIFAR-{classes}-C",
        cells=partial(_cells, classes=classes),
        marks=("labels.npy",),
        image_suffix=".npy",
        download=(
            f"get CIFAR-{classes}-C.tar from zenodo.org/records/{record} and unpack it, so that "
            "{root} holds labels.npy and CORRUPTION.npy"
        ),
    )


CIFAR10C = _layout(10, "2535967")
CIFAR100C = _layout(100, "3555552")
