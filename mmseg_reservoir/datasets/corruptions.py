"""Corruptions in the manner of ImageNet-C and CIFAR-10-C (Hendrycks and Dietterich, ICLR 2019).

There are twelve corruptions at five severities for batches of small images. Names, ideas and the
levels of the three noises are from the paper. The code and the other levels are this project's,
for images of 32 pixels.

Note: Error rates are not comparable with those on the published files.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor
from torch.nn import functional as F

from ..errors import ReservoirError
from ..registry import choose
from .base import check_severity

Corruption = Callable[[Tensor, Any, Generator], Tensor]


def corrupt(images: Tensor, name: str, severity: int = 5, seed: int = 0) -> Tensor:
    """Return a corrupted copy of a batch. The random numbers depend only on the seed.

    They are the same for all severities.

    Args:
        images: ``(N, 3, H, W)``, values in [0, 1].
        name: Name of the corruption, one of `CORRUPTIONS`.
        severity: Severity from 1 to 5. Defaults to 5.
        seed: Seed of the noise. Defaults to 0.

    Example:
        >>> corrupt(torch.full((1, 3, 32, 32), 0.5), "brightness", severity=1).mean()
        tensor(0.5500)
    """
    change, levels = choose(name, CORRUPTIONS, "corruption")
    check_severity(severity)
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise ReservoirError(
            f"images must be floats (N, 3, H, W), got {images.dtype} {tuple(images.shape)}"
        )
    # Draw the noise on the CPU, so that it is the same on a GPU.
    generator = Generator().manual_seed(seed)
    changed = change(images.detach().float().cpu(), levels[severity - 1], generator)
    return changed.clamp(0, 1).to(images)


def gaussian_noise(images: Tensor, scale: float, generator: Generator) -> Tensor:
    """Add normal noise with standard deviation ``scale``, as of a sensor in low light."""
    return images + scale * torch.randn(images.shape, generator=generator)


def shot_noise(images: Tensor, photons: int, generator: Generator) -> Tensor:
    """Draw every value from a Poisson distribution; white is a mean of ``photons``."""
    return torch.poisson(images * photons, generator=generator) / photons


def impulse_noise(images: Tensor, share: float, generator: Generator) -> Tensor:
    """Set a ``share`` of the values to black or white."""
    draw = torch.rand(images.shape, generator=generator)
    images = images.masked_fill(draw < share / 2, 0.0)
    return images.masked_fill(draw > 1 - share / 2, 1.0)


def defocus_blur(images: Tensor, radius: float, generator: Generator) -> Tensor:
    """Average over a disk, as if the lens were out of focus."""
    radius = radius * _scale(images)
    # Pixels at the rim have fractional weights, so that fractional radii differ.
    disk = (radius + 0.5 - torch.hypot(*_grid(math.ceil(radius)))).clamp(0, 1)
    return _filter(images, disk.expand(len(images), -1, -1))


def motion_blur(images: Tensor, length: float, generator: Generator) -> Tensor:
    """Average along a line in a random direction per image, as if the camera moved."""
    length = length * _scale(images)
    angle = math.pi * torch.rand(len(images), 1, 1, generator=generator)
    rows, columns = _grid(math.ceil(length / 2))
    along = columns * angle.cos() + rows * angle.sin()
    across = rows * angle.cos() - columns * angle.sin()
    line = (1 - across.abs()).clamp(0, 1) * (length / 2 + 0.5 - along.abs()).clamp(0, 1)
    return _filter(images, line)


def snow(images: Tensor, shares: tuple[float, float], generator: Generator) -> Tensor:
    """Make the images paler, and add streaks of snowflakes."""
    share, pale = shares
    draw = torch.rand(len(images), 1, *images.shape[2:], generator=generator)
    reach = max(1, round(2 * _scale(images)))
    streak = torch.eye(2 * reach + 1).expand(len(images), -1, -1) * (2 * reach + 1)
    flakes = 0.6 * _filter((draw < share).float(), streak).clamp(0, 1)
    gray = images.mean(1, keepdim=True)
    paler = (1 - pale) * images + pale * torch.maximum(images, 0.5 + 0.5 * gray)
    return torch.maximum(paler, paler + flakes)


def fog(images: Tensor, strength: float, generator: Generator) -> Tensor:
    """Blend with haze, which brightens dark pixels and lowers the contrast."""
    haze = _smooth_noise(len(images), 1, images.shape[2:], generator)
    return (1 - strength) * images + strength * (0.6 + 0.4 * haze)


def brightness(images: Tensor, light: float, generator: Generator) -> Tensor:
    """Add a constant to all values."""
    return images + light


def contrast(images: Tensor, share: float, generator: Generator) -> Tensor:
    """Scale the differences from the mean of the image by ``share``."""
    mean = images.mean((2, 3), keepdim=True)
    return mean + share * (images - mean)


def elastic_transform(images: Tensor, pull: float, generator: Generator) -> Tensor:
    """Move pixels along a smooth random field."""
    pull = pull * _scale(images)
    height, width = images.shape[2:]
    noise = 2 * _smooth_noise(len(images), 2, (height, width), generator, octaves=3) - 1
    rows = torch.linspace(-1, 1, height).view(1, -1, 1) + noise[:, 0] * 2 * pull / height
    columns = torch.linspace(-1, 1, width).view(1, 1, -1) + noise[:, 1] * 2 * pull / width
    grid = torch.stack([columns, rows], dim=-1)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=True)


def pixelate(images: Tensor, share: float, generator: Generator) -> Tensor:
    """Shrink and enlarge by factors of two and four, and blend the results."""
    twos = _blocks(images, 2)
    if share <= 1:
        return images.lerp(twos, share)
    return twos.lerp(_blocks(images, 4), share - 1)


def jpeg_compression(images: Tensor, quality: int, generator: Generator) -> Tensor:
    """Encode as a JPEG of low quality, and decode it."""
    pixels = (images * 255).round().byte().permute(0, 2, 3, 1).numpy()
    decoded = []
    for image in pixels:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        decoded.append(np.asarray(Image.open(file).convert("RGB")))
    return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2) / 255


def _scale(images: Tensor) -> float:
    """Return the factor for lengths, because the levels are for images of 32 pixels."""
    return min(images.shape[2:]) / 32


def _blocks(images: Tensor, side: int) -> Tensor:
    height, width = images.shape[2:]
    few = F.interpolate(images, (max(1, height // side), max(1, width // side)), mode="area")
    return F.interpolate(few, (height, width), mode="nearest-exact")


def _grid(reach: int) -> tuple[Tensor, Tensor]:
    axis = torch.arange(-reach, reach + 1, dtype=torch.float32)
    return axis.view(-1, 1), axis.view(1, -1)


def _filter(images: Tensor, kernels: Tensor) -> Tensor:
    """Return each image filtered by its kernel of ``(N, k, k)``, which is scaled to sum 1."""
    count, channels, height, width = images.shape
    kernels = kernels / kernels.sum((1, 2), keepdim=True)
    reach = kernels.shape[-1] // 2
    padded = F.pad(images, (reach,) * 4, mode="replicate")
    filtered = F.conv2d(
        padded.reshape(1, count * channels, *padded.shape[2:]),
        kernels.repeat_interleave(channels, 0).unsqueeze(1),
        groups=count * channels,
    )
    return filtered.reshape(count, channels, height, width)


def _smooth_noise(
    count: int, channels: int, size: tuple[int, ...], generator: Generator, octaves: int = 4
) -> Tensor:
    """Return clouds in [0, 1]: noise on grids of 2, 4, 8, ... cells with decreasing weight."""
    total = torch.zeros(count, channels, *size)
    for octave in range(1, octaves + 1):
        cells = torch.rand(count, channels, 2**octave, 2**octave, generator=generator)
        total += F.interpolate(cells, size, mode="bicubic", align_corners=True) / 2**octave
    low, high = total.amin((2, 3), keepdim=True), total.amax((2, 3), keepdim=True)
    return (total - low) / (high - low)


CORRUPTIONS: dict[str, tuple[Corruption, Sequence[Any]]] = {
    "gaussian_noise": (gaussian_noise, (0.08, 0.12, 0.18, 0.26, 0.38)),
    "shot_noise": (shot_noise, (60, 25, 12, 5, 3)),
    "impulse_noise": (impulse_noise, (0.03, 0.06, 0.09, 0.17, 0.27)),
    "defocus_blur": (defocus_blur, (0.7, 1.0, 1.4, 1.8, 2.4)),
    "motion_blur": (motion_blur, (2.0, 3.0, 4.0, 5.5, 7.0)),
    "snow": (snow, ((0.02, 0.1), (0.04, 0.18), (0.06, 0.25), (0.09, 0.32), (0.13, 0.4))),
    "fog": (fog, (0.15, 0.3, 0.45, 0.6, 0.75)),
    "brightness": (brightness, (0.05, 0.1, 0.17, 0.24, 0.32)),
    "contrast": (contrast, (0.75, 0.55, 0.4, 0.25, 0.12)),
    "elastic_transform": (elastic_transform, (0.8, 1.2, 1.7, 2.3, 3.0)),
    "pixelate": (pixelate, (0.5, 0.8, 1.0, 1.5, 2.0)),
    "jpeg_compression": (jpeg_compression, (60, 40, 25, 15, 8)),
}
"""Function and levels for severity 1 to 5 by name, in the order of ImageNet-C."""
