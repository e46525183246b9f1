"""ImageNet-C (Hendrycks and Dietterich, ICLR 2019): fifteen corruptions at five severities."""

from __future__ import annotations

from pathlib import Path

from mmseg_reservoir.known_datasets import CORRUPTIONS, IMAGENET_C_IMAGES

from ..layout import Cell, Layout


def _cells(root: Path) -> list[Cell]:
    # Severity 5 is what the streams of the paper use.
    return [
        Cell(
            f"severity{severity}",
            name,
            images=f"{name}/{severity}",
            expected=IMAGENET_C_IMAGES,
            needed=severity == 5,
        )
        for severity in (5, 4, 3, 2, 1)
        for name in CORRUPTIONS
    ]


IMAGENETC = Layout(
    title="ImageNet-C",
    cells=_cells,
    marks=("gaussian_noise/5",),
    image_suffix=".JPEG",
    size=(224, 224),
    download=(
        "get noise.tar, blur.tar, weather.tar and digital.tar from zenodo.org/records/2235448 and "
        "unpack them, so that {root} holds CORRUPTION/SEVERITY/CLASS/*.JPEG"
    ),
)
