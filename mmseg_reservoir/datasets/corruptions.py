"""Corruptions in the manner of ImageNet-C and CIFAR-10-C (Hendrycks and Dietterich, ICLR 2019).

Twelve families at five severities for batches of small images. They are written for streams that
can be made anywhere, without a download: names, ideas and the levels of the three noises are those
of the paper, the code and the other levels are this project's, for images of 32 pixels. So their
numbers do not compare with those of the published files.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor
from torch.nn import functional as F

from ..errors import ReservoirError
from ..options import choose

Corruption = Callable[[Tensor, int, Generator], Tensor]
CORRUPTIONS: dict[str, Corruption] = {}
"""By name, in the order of ImageNet-C."""

SEVERITIES = (1, 2, 3, 4, 5)


def corrupt(images: Tensor, name: str, severity: int = 5, seed: int = 0) -> Tensor:
    """A corrupted copy of a batch, the same for the same seed whatever else was drawn before.

    All severities share their random numbers, so a higher one is the same picture, only worse.

    Args:
        images: ``(N, 3, H, W)``, values in [0, 1].
        name: One of `CORRUPTIONS`.
        severity: 1 to 5.
        seed: Of the noise.

    Example:
        >>> corrupt(torch.full((1, 3, 32, 32), 0.5), "brightness", severity=1).mean()
        tensor(0.5500)
    """
    change = choose(name, CORRUPTIONS, "corruption")
    if severity not in SEVERITIES:
        raise ReservoirError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}")
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise ReservoirError(
            f"images must be floats (N, 3, H, W), got {images.dtype} {tuple(images.shape)}"
        )
    # The noise is drawn on the CPU, so that a GPU changes nothing.
    generator = Generator().manual_seed(seed)
    changed = change(images.detach().float().cpu(), severity - 1, generator)
    return changed.clamp(0, 1).to(images)


def _register(change: Corruption) -> Corruption:
    CORRUPTIONS[change.__name__] = change
    return change


@_register
def gaussian_noise(images: Tensor, level: int, generator: Generator) -> Tensor:
    """Noise of the sensor in low light."""
    scale = (0.08, 0.12, 0.18, 0.26, 0.38)[level]
    return images + scale * torch.randn(images.shape, generator=generator)


@_register
def shot_noise(images: Tensor, level: int, generator: Generator) -> Tensor:
    """Light comes in photons: the fewer, the noisier."""
    photons = (60, 25, 12, 5, 3)[level]
    return torch.poisson(images * photons, generator=generator) / photons


@_register
def impulse_noise(images: Tensor, level: int, generator: Generator) -> Tensor:
    """Single values that are black or white, as from wrong bits."""
    share = (0.03, 0.06, 0.09, 0.17, 0.27)[level]
    draw = torch.rand(images.shape, generator=generator)
    images = images.masked_fill(draw < share / 2, 0.0)
    return images.masked_fill(draw > 1 - share / 2, 1.0)


@_register
def defocus_blur(images: Tensor, level: int, generator: Generator) -> Tensor:
    """A lens out of focus: the mean over a disk."""
    radius = (0.7, 1.0, 1.4, 1.8, 2.4)[level] * _scale(images)
    reach = math.ceil(radius)
    rows, columns = _grid(2 * reach + 1)
    # The rim of the disk counts in part, so that radii between whole pixels differ.
    disk = (radius + 0.5 - torch.hypot(rows - reach, columns - reach)).clamp(0, 1)
    return _filter(images, disk.expand(len(images), -1, -1))


@_register
def motion_blur(images: Tensor, level: int, generator: Generator) -> Tensor:
    """A moving camera: the mean along a line, in a direction of each image's own."""
    length = (2.0, 3.0, 4.0, 5.5, 7.0)[level] * _scale(images)
    angle = math.pi * torch.rand(len(images), 1, 1, generator=generator)
    reach = math.ceil(length / 2)
    rows, columns = (axis - reach for axis in _grid(2 * reach + 1))
    along = columns * angle.cos() + rows * angle.sin()
    across = rows * angle.cos() - columns * angle.sin()
    line = (1 - across.abs()).clamp(0, 1) * (length / 2 + 0.5 - along.abs()).clamp(0, 1)
    return _filter(images, line)


@_register
def snow(images: Tensor, level: int, generator: Generator) -> Tensor:
    """Flakes that fall in streaks, and a paler scene behind them."""
    share, pale = ((0.02, 0.1), (0.04, 0.18), (0.06, 0.25), (0.09, 0.32), (0.13, 0.4))[level]
    draw = torch.rand(len(images), 1, *images.shape[2:], generator=generator)
    reach = max(1, round(2 * _scale(images)))
    streak = torch.eye(2 * reach + 1).expand(len(images), -1, -1) * (2 * reach + 1)
    flakes = 0.6 * _filter((draw < share).float(), streak).clamp(0, 1)
    grey = images.mean(1, keepdim=True)
    paler = (1 - pale) * images + pale * torch.maximum(images, 0.5 + 0.5 * grey)
    return torch.maximum(paler, paler + flakes)


@_register
def fog(images: Tensor, level: int, generator: Generator) -> Tensor:
    """Haze of clouds of all sizes, which lifts the black and leaves little contrast."""
    strength = (0.15, 0.3, 0.45, 0.6, 0.75)[level]
    haze = _smooth_noise(len(images), 1, images.shape[2:], generator)
    return (1 - strength) * images + strength * (0.6 + 0.4 * haze)


@_register
def brightness(images: Tensor, level: int, generator: Generator) -> Tensor:
    """More light in the whole scene."""
    return images + (0.05, 0.1, 0.17, 0.24, 0.32)[level]


@_register
def contrast(images: Tensor, level: int, generator: Generator) -> Tensor:
    """Less of everything that differs from the mean of the image."""
    mean = images.mean((2, 3), keepdim=True)
    return mean + (0.75, 0.55, 0.4, 0.25, 0.12)[level] * (images - mean)


@_register
def elastic_transform(images: Tensor, level: int, generator: Generator) -> Tensor:
    """The image on rubber that is pulled here and there."""
    pull = (0.8, 1.2, 1.7, 2.3, 3.0)[level] * _scale(images)
    height, width = images.shape[2:]
    noise = 2 * _smooth_noise(len(images), 2, (height, width), generator, octaves=3) - 1
    rows = torch.linspace(-1, 1, height).view(1, -1, 1) + noise[:, 0] * 2 * pull / height
    columns = torch.linspace(-1, 1, width).view(1, 1, -1) + noise[:, 1] * 2 * pull / width
    grid = torch.stack([columns, rows], dim=-1)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=True)


@_register
def pixelate(images: Tensor, level: int, generator: Generator) -> Tensor:
    """A small image, enlarged: blocks of two, then of four pixels, and mixtures between them."""
    share = (0.5, 0.8, 1.0, 1.5, 2.0)[level]
    twos = _blocks(images, 2)
    if share <= 1:
        return images.lerp(twos, share)
    return twos.lerp(_blocks(images, 4), share - 1)


@_register
def jpeg_compression(images: Tensor, level: int, generator: Generator) -> Tensor:
    """What a JPEG file of low quality leaves over."""
    quality = (60, 40, 25, 15, 8)[level]
    pixels = (images * 255).round().byte().permute(0, 2, 3, 1).numpy()
    found = []
    for image in pixels:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        found.append(np.asarray(Image.open(file).convert("RGB")))
    return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2) / 255


def _scale(images: Tensor) -> float:
    """Levels are for 32 pixels; blur and pull grow with the image."""
    return min(images.shape[2:]) / 32


def _blocks(images: Tensor, side: int) -> Tensor:
    height, width = images.shape[2:]
    few = F.interpolate(images, (max(1, height // side), max(1, width // side)), mode="area")
    return F.interpolate(few, (height, width), mode="nearest-exact")


def _grid(size: int) -> tuple[Tensor, Tensor]:
    axis = torch.arange(size, dtype=torch.float32)
    return axis.view(-1, 1), axis.view(1, -1)


def _filter(images: Tensor, kernels: Tensor) -> Tensor:
    """Each image with its own kernel ``(N, k, k)``, which is normalised to a mean."""
    count, channels, height, width = images.shape
    kernels = kernels / kernels.sum((1, 2), keepdim=True)
    reach = kernels.shape[-1] // 2
    padded = F.pad(images, (reach,) * 4, mode="replicate")
    found = F.conv2d(
        padded.reshape(1, count * channels, *padded.shape[2:]),
        kernels.repeat_interleave(channels, 0).unsqueeze(1),
        groups=count * channels,
    )
    return found.reshape(count, channels, height, width)


def _smooth_noise(
    count: int, channels: int, size: tuple[int, ...], generator: Generator, octaves: int = 4
) -> Tensor:
    """Clouds in [0, 1]: noise on grids of 2, 4, 8, ... cells, the finer the fainter."""
    total = torch.zeros(count, channels, *size)
    for octave in range(1, octaves + 1):
        cells = torch.rand(count, channels, 2**octave, 2**octave, generator=generator)
        total += F.interpolate(cells, size, mode="bicubic", align_corners=True) / 2**octave
    low, high = total.amin((2, 3), keepdim=True), total.amax((2, 3), keepdim=True)
    return (total - low) / (high - low)
