"""The data sets of the paper, in the layouts in which they are published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...options import choose, construct
from .base import DomainSet, LabelledImages
from .ccc import CCC
from .cifar_c import CifarC
from .clean import SourceBatches, cifar, image_folder
from .corrupted import Corrupted
from .digits import corrupted_digits, digits
from .domainnet import DomainNet126, domainnet_source
from .imagenet_c import ImageNetC
from .pacs import PACS

DATASETS: dict[str, Callable[..., DomainSet | CCC]] = {
    "cifar10c": partial(CifarC, classes=10),
    "cifar100c": partial(CifarC, classes=100),
    "imagenetc": ImageNetC,
    "ccc": CCC,
    "domainnet126": DomainNet126,
    "pacs": PACS,
    "digits": corrupted_digits,
}
"""By the names that tools/check_dataset.py knows too, but for the digits, which are not on disk."""

SOURCES: dict[str, Callable[..., LabelledImages]] = {
    "cifar10": partial(cifar, classes=10),
    "cifar100": partial(cifar, classes=100),
    "image_folder": image_folder,
    "domainnet126": domainnet_source,
    "digits": digits,
}


def build_dataset(options: Mapping[str, Any]) -> DomainSet | CCC:
    """The data set that ``dict(type="cifar10c", root=..., severity=5)`` describes."""
    options = dict(options)
    make = choose(options.pop("type", ""), DATASETS, "data set")
    return construct(make, options, "dataset")


def build_source(options: Mapping[str, Any]) -> LabelledImages:
    """The clean images that ``dict(type="cifar10", root=...)`` describes."""
    options = dict(options)
    make = choose(options.pop("type", ""), SOURCES, "source")
    return construct(make, options, "source")


__all__ = [
    "CCC",
    "DATASETS",
    "PACS",
    "SOURCES",
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
