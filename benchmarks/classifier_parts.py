"""What the benchmarks of classifiers register, as a custom file would.

A network, data and a stream of CIFAR-10, and styles that several runs share.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mmseg_reservoir.cls.stream import PlannedBatch
from mmseg_reservoir.cls.streams import RecurringStream
from mmseg_reservoir.core.image_range import IMAGENET
from mmseg_reservoir.datasets.base import ArrayImages
from mmseg_reservoir.datasets.cifar_c import cifar
from mmseg_reservoir.datasets.corruptions import CORRUPTIONS
from mmseg_reservoir.datasets.digits import Corrupted
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import register
from mmseg_reservoir.style.calibration import cache_key
from mmseg_reservoir.style.vgg import StyleEncoder

DOMAINS = tuple(name for name in CORRUPTIONS if name not in ("gaussian_noise", "shot_noise"))
"""Without two of the three noises."""


class Block(nn.Module):
    """The basic block of ResNets; its shortcut subsamples pixels and pads channels with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        away = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        return F.relu(away + F.pad(shortcut, (0, 0, 0, 0, self.more, self.more)))


@register("backbone", "cifar_resnet20")
class CifarResNet20(nn.Module):
    """ResNet-20 (He et al., CVPR 2016, Sec. 4.2); normalizes images in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(16, 32, 2), *(Block(32, 32, 1) for _ in range(2)))
        self.layer3 = nn.Sequential(Block(32, 64, 2), *(Block(64, 64, 1) for _ in range(2)))
        self.linear = nn.Linear(64, 10)
        for name, values in zip(("mean", "std"), IMAGENET, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(N, 10)``."""
        x = F.relu(self.bn1(self.conv1((images - self.mean) / self.std)))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


@register("data", "cifar10_corrupted")
def corrupted_cifar(root: str, first: int = 0, count: int = 2000) -> Corrupted:
    """Return some of the test images under the corruptions of this project."""
    test = cifar(root, train=False)
    part = slice(first, first + count)
    if first + count > len(test):
        raise ReservoirError(
            f"image {first + count} is needed, but there are {len(test)} test images: use "
            f"seeds from 0 to {len(test) // count - 1}"
        )
    clean = ArrayImages(test.pixels[part], test.labels[part])
    return Corrupted(clean, DOMAINS, severity=5, seed=first, title="CIFAR-10, corrupted")


@register("stream", "csc_samples")
@dataclass(eq=False)
class SampledStream(RecurringStream):
    """CSC with a few random batches of a domain's images at each visit.

    Args:
        batches: Batches per visit. Defaults to 4.
    """

    kind: ClassVar[str] = "csc_samples"
    shuffle: str = "visit"
    batches: int = 4

    def _visit(self, *position: Any) -> list[PlannedBatch]:
        return super()._visit(*position)[: self.batches]

    def _options(self) -> dict[str, Any]:
        return {"batches": self.batches}


@register("style", "remembered_vgg")
class RememberedStyles(StyleEncoder):
    """A style encoder that reads the styles which other runs have encoded from a file.

    Args:
        folder: Folder of the files, one per kind of style. All runs append to them.
        **options: See `StyleEncoder`.
    """

    def __init__(self, folder: str, **options: Any) -> None:
        super().__init__(**options)
        self._file = Path(folder) / f"{cache_key(self.fingerprint())}.bin"
        self._row = np.dtype([("key", "V32"), ("style", "<f4", (sum(self.groups),))])
        self._styles: dict[bytes, Tensor] = {}
        self._read = 0

    def forward(self, images: Tensor) -> Tensor:
        """Return the style of a batch."""
        key = hashlib.sha256(images.contiguous().cpu().numpy().tobytes()).digest()
        if key not in self._styles:
            self._read_new()
        if key not in self._styles:
            self._styles[key] = super().forward(images)
            row = np.array([(key, self._styles[key].cpu().numpy())], self._row)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab", buffering=0) as file:  # one write: runs do not mix rows
                file.write(row.tobytes())
        return self._styles[key].to(images.device)

    def _read_new(self) -> None:
        """Read the styles that other runs have added."""
        size = self._file.stat().st_size if self._file.is_file() else 0
        if size % self._row.itemsize:
            raise ReservoirError(f"{self._file} is truncated: remove it")
        if size > self._read:
            for key, style in np.fromfile(self._file, self._row, offset=self._read):
                self._styles[bytes(key)] = torch.from_numpy(style.copy())
            self._read = size
