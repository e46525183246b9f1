"""The published data sets, one file each, with constants, layout on disk, and reader.

Configs use the reader, ``reservoir check`` uses the layout. `street_scenes` only has layouts,
because mmseg reads the data sets of segmentation (see `seg.datasets`).
"""

from __future__ import annotations

from functools import partial

from .._renamed import renamed_names
from ..config.schema import Options, pick
from ..registry import register
from . import ccc, cifar_c, domainnet, imagenet_c, pacs, street_scenes
from .base import DomainSet, LabeledImages
from .ccc import CCC
from .cifar_c import CifarC, cifar
from .digits import Corrupted, corrupted_digits, digits
from .disk_layout import Layout
from .domainnet import DomainNet126, domainnet_source
from .imagenet_c import ImageNetC
from .pacs import PACS
from .pictures import image_folder
from .source_batches import SourceBatches

LAYOUTS: dict[str, Layout] = {
    "acdc": street_scenes.ACDC,
    "bdd100k": street_scenes.BDD100K,
    "ccc": ccc.LAYOUT,
    "cifar10c": cifar_c.LAYOUT_10,
    "cifar100c": cifar_c.LAYOUT_100,
    "cityscapes": street_scenes.CITYSCAPES,
    "dark_zurich": street_scenes.DARK_ZURICH,
    "domainnet126": domainnet.LAYOUT,
    "foggy_cityscapes": street_scenes.FOGGY_CITYSCAPES,
    "imagenetc": imagenet_c.LAYOUT,
    "minicity": street_scenes.MINICITY,
    "pacs": pacs.LAYOUT,
    "shift": street_scenes.SHIFT,
}
"""Layouts by name, for ``reservoir check``."""

register("data", "cifar10c")(partial(CifarC, classes=10))
register("data", "cifar100c")(partial(CifarC, classes=100))
register("data", "imagenetc")(ImageNetC)
register("data", "ccc")(CCC)
register("data", "domainnet126")(DomainNet126)
register("data", "pacs")(PACS)
register("data", "digits")(corrupted_digits)

register("source", "cifar10")(partial(cifar, classes=10))
register("source", "cifar100")(partial(cifar, classes=100))
register("source", "image_folder")(image_folder)
register("source", "domainnet126")(domainnet_source)
register("source", "digits")(digits)


def build_dataset(options: Options) -> DomainSet | CCC:
    """Build a data set from options such as ``dict(type="cifar10c", root=..., severity=5)``."""
    return pick("data", options, "data").build()


def build_source(options: Options) -> LabeledImages:
    """Build clean images from options such as ``dict(type="cifar10", root=...)``."""
    return pick("source", options, "source_images").build()


__getattr__ = renamed_names(__name__, {"LabelledImages": "datasets.LabeledImages"})  # old name

__all__ = [
    "CCC",
    "LAYOUTS",
    "PACS",
    "CifarC",
    "Corrupted",
    "DomainNet126",
    "DomainSet",
    "ImageNetC",
    "LabeledImages",
    "SourceBatches",
    "build_dataset",
    "build_source",
]
