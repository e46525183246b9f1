"""The data sets of the paper, in the layouts in which they are published."""

from __future__ import annotations

from functools import partial

from ...options import Options, pick, register
from .base import DomainSet, LabelledImages
from .ccc import CCC
from .cifar_c import CifarC
from .clean import SourceBatches, cifar, image_folder
from .corrupted import Corrupted
from .digits import corrupted_digits, digits
from .domainnet import DomainNet126, domainnet_source
from .imagenet_c import ImageNetC
from .pacs import PACS

# By the names that tools/check_dataset.py knows too, but for the digits, which are not on disk.
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
    """The data set that ``dict(type="cifar10c", root=..., severity=5)`` describes."""
    return pick("data", options, "data").make()


def build_source(options: Options) -> LabelledImages:
    """The clean images that ``dict(type="cifar10", root=...)`` describes."""
    return pick("source", options, "source_images").make()


__all__ = [
    "CCC",
    "PACS",
    "CifarC",
    "Corrupted",
    "DomainNet126",
    "DomainSet",
    "ImageNetC",
    "LabelledImages",
    "SourceBatches",
    "build_dataset",
    "build_source",
]
