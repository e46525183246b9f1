"""Synthetic weather for the warm-up: fog, night, rain and snow on clear street images.

The styles need neither depth nor labels. An image is ``(3, H, W)``, RGB in [0, 1], of any size. The
generator is on the CPU, so that a seed gives the same image on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d, interpolate

from ..registry import choose

Style = Callable[[Tensor, Generator], Tensor]

_HORIZON = 0.45  # position in the image, as a fraction of its height, for a dashboard camera


def clear(image: Tensor, generator: Generator) -> Tensor:
    """Return the image unchanged."""
    return image


def fog(image: Tensor, generator: Generator) -> Tensor:
    """Add a veil of light that reduces contrast towards the horizon."""
    air = _uniform(generator, 0.5, 0.85) * _tint(image, generator, 0.04)
    return _veil(image, air, _uniform(generator, 0.7, 3.5))


def night(image: Tensor, generator: Generator) -> Tensor:
    """Darken with a blue cast, and add lamps with a warm glow and sensor noise."""
    dark = image ** _uniform(generator, 1.2, 2.2) * _uniform(generator, 0.15, 0.7)
    dark = dark * _color(image, (0.8, 0.9, 1.1)) * _tint(image, generator, 0.15)
    glow = sum(_lamp(image, generator) for _ in range(int(_uniform(generator, 2, 10))))
    glow = glow * _color(image, (1.0, 0.85, 0.6))
    spread = _uniform(generator, 0.01, 0.06)
    noise = spread * torch.randn(image.shape, generator=generator).to(image)
    return (dark + glow + noise).clamp(0, 1)


def rain(image: Tensor, generator: Generator) -> Tensor:
    """Add gray light, haze, and slanted streaks."""
    strength = _uniform(generator, 0.3, 1.0)
    light = _gray(image, 0.4 * strength) * _uniform(generator, 0.65, 1.0)
    air = _uniform(generator, 0.35, 0.6) * _tint(image, generator, 0.04)
    light = _veil(light, air, strength)
    height, width = image.shape[-2:]
    drops = torch.randn(1, height, width, generator=generator) > 3 - 0.6 * strength
    slant, streaks = _uniform(generator, -0.4, 0.4), torch.zeros(drops.shape)
    for step in range(max(3, height // 12)):
        streaks += drops.roll((step, round(slant * step)), dims=(1, 2))
    streaks = streaks.clamp(max=1).to(image) * _uniform(generator, 0.08, 0.25)
    return (light + streaks * (1 - light)).clamp(0, 1)


def snow(image: Tensor, generator: Generator) -> Tensor:
    """Add pale light, white patches on the ground, haze, and flakes of several sizes."""
    strength = _uniform(generator, 0.3, 1.0)
    light = _gray(image, 0.4 * strength)
    height, width = image.shape[-2:]
    patches = torch.randn(1, 1, 6, 12, generator=generator)
    patches = interpolate(patches, (height, width), mode="bilinear", align_corners=False)[0]
    ground = ((_rows(height) - _HORIZON) / 0.2).clamp(0, 1)
    cover = (patches + 2 * strength - 0.5).clamp(0, 1) * ground * strength
    white = _color(image, (0.78, 0.8, 0.83))
    light = light + (white - light) * cover.to(image)
    air = _uniform(generator, 0.6, 0.8) * _tint(image, generator, 0.03)
    light = _veil(light, air, strength)
    flakes = torch.zeros(1, height, width)
    for size in (1, max(1, height // 90)):
        points = torch.randn(1, height, width, generator=generator) > 3.3 - 0.6 * strength
        flakes += (2 * size + 1) ** 2 * 0.5 * _blur(points.float(), size)
    return (light + (0.95 - light) * flakes.clamp(max=0.8).to(image)).clamp(0, 1)


STYLES: dict[str, Style] = dict(clear=clear, fog=fog, night=night, rain=rain, snow=snow)
"""Styles of the warm-up, by the name of the domain."""


def find_styles(domains: Sequence[str]) -> list[Style]:
    """Return the style functions of domains, in their order."""
    return [choose(name, STYLES, "synthetic style") for name in domains]


def apply_styles(
    images: Tensor, labels: Tensor, styles: Sequence[Style], generator: Generator
) -> Tensor:
    """Apply to each image ``(N, 3, H, W)`` the style of its label ``(N,)``."""
    pairs = zip(images, labels.tolist(), strict=True)
    return torch.stack([styles[label](image, generator) for image, label in pairs])


def _veil(image: Tensor, air: Tensor, density: float) -> Tensor:
    """Return ``I t + A (1 - t)`` with ``t = exp(-d z)``: light scattered over a flat ground."""
    rows = _rows(image.shape[1]).to(image)
    ground = 0.12 / (rows - _HORIZON).clamp(min=0.12)  # distance of the ground by row
    # Above the horizon there are walls or sky, so the distance is in between.
    distance = torch.where(rows > _HORIZON, ground, 0.8)
    through = torch.exp(-density * distance)
    return image * through + air * (1 - through)


def _lamp(image: Tensor, generator: Generator) -> Tensor:
    """Return a light in the upper part, ``(1, H, W)``: a bright core with a wide halo."""
    height, width = image.shape[-2:]
    row, column = _uniform(generator, 0.1, 0.7) * height, _uniform(generator, 0, 1) * width
    rows = torch.arange(height).to(image)[:, None] - row
    columns = torch.arange(width).to(image)[None] - column
    distance = (rows**2 + columns**2).sqrt() / height
    size, power = _uniform(generator, 0.01, 0.03), _uniform(generator, 0.2, 0.6)
    halo = torch.exp(-distance / size) + 0.3 * torch.exp(-distance / (4 * size))
    return power * halo[None]


def _rows(height: int) -> Tensor:
    """Return positions of the rows, ``(1, H, 1)``, from 0 at the top to 1."""
    return torch.linspace(0, 1, height).view(1, -1, 1)


def _gray(image: Tensor, share: float) -> Tensor:
    return image + share * (image.mean(dim=0, keepdim=True) - image)


def _color(image: Tensor, rgb: Sequence[float]) -> Tensor:
    return torch.tensor(rgb).to(image).view(3, 1, 1)


def _tint(image: Tensor, generator: Generator, spread: float) -> Tensor:
    warmth = _uniform(generator, -spread, spread)
    return _color(image, (1 + warmth, 1.0, 1 - warmth))


def _blur(image: Tensor, radius: int) -> Tensor:
    for _ in range(2):
        image = avg_pool2d(image[None], 2 * radius + 1, 1, radius, count_include_pad=False)[0]
    return image


def _uniform(generator: Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))
