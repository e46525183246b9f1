"""Random augmentations of images: color, position, blur, flip and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, conv2d, grid_sample, pad

from ...core.image_range import ImageRange
from ...errors import ReservoirError

# YIQ from RGB: luma, then two axes of color. A change of hue rotates their plane.
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
_SLACK = 0.05  # tolerance around [0, 1], since resampling overshoots


@dataclass
class Augment:
    """The augmentations of CoTTA (Wang et al., CVPR 2022), which RoTTA and PeTTA use too.

    In this order: brightness, contrast, saturation, hue and gamma; rotation, shift and scaling with
    the edge continued outwards; Gaussian blur; left-right flip; Gaussian noise. Every image of a
    batch gets separate random values.

    Example:
        >>> import torch
        >>> view = Augment()(torch.rand(2, 3, 8, 8), torch.Generator().manual_seed(0))
        >>> view.shape
        torch.Size([2, 3, 8, 8])

    Args:
        mean: Mean of the images' normalization, one number or one per channel. The normalization
            is undone for the augmentation. Defaults to 0.
        std: Standard deviation of the images' normalization, likewise. Defaults to 1.
        clip: Whether to clip values to [0, 1]. False, for images of unknown range, also disables
            gamma, which is undefined for negative values. Defaults to True.
        brightness: Largest relative change. Defaults to 0.4.
        contrast: Largest relative change, around the mean gray of the image. Defaults to 0.3.
        saturation: Largest relative change, around the gray of each pixel. Defaults to 0.5.
        hue: Largest rotation in turns. Defaults to 0.06.
        gamma: Largest change of the exponent. Defaults to 0.3.
        degrees: Largest rotation in degrees. Defaults to 15.
        shift: Largest shift, as a fraction of the image size. Defaults to 1/16.
        scale: Largest relative change of size. Defaults to 0.1.
        blur: Smallest and largest standard deviation in pixels. Defaults to ``(0.001, 0.5)``.
        flip: Probability of a left-right flip; set 0 where it changes the class, as for digits.
            Defaults to 0.5.
        noise: Standard deviation of the noise. Defaults to 0.005.
    """

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    clip: bool = True
    brightness: float = 0.4
    contrast: float = 0.3
    saturation: float = 0.5
    hue: float = 0.06
    gamma: float = 0.3
    degrees: float = 15.0
    shift: float = 1 / 16
    scale: float = 0.1
    blur: tuple[float, float] = (0.001, 0.5)
    flip: float = 0.5
    noise: float = 0.005

    def __post_init__(self) -> None:
        self.range = ImageRange((self.mean, self.std))

    @torch.no_grad()
    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return augmented copies of images ``(N, C, H, W)``; the generator is on the CPU."""
        draw = _Draw(images, generator)
        view = self.range.to_unit(images)
        if self.clip and not (view.amin() >= -_SLACK and view.amax() <= 1 + _SLACK):
            raise ReservoirError(
                f"images to augment must be in [0, 1], got {float(view.amin()):.3g} to "
                f"{float(view.amax()):.3g}: give augment=dict(mean=..., std=...) of their "
                "normalization, or augment=dict(clip=False)"
            )
        view = self._change_color(view, draw)
        view = self._move(view, draw)
        view = blurred(view, draw.between(*self.blur))
        view = torch.where(draw.between(0, 1) < self.flip, view.flip(-1), view)
        view = self._clipped(view + self.noise * draw.normal())
        return self.range.from_unit(view)

    def _change_color(self, view: Tensor, draw: _Draw) -> Tensor:
        view = self._clipped(view * draw.around(1, self.brightness))
        gray = as_gray(view).mean(dim=(2, 3), keepdim=True)
        view = self._clipped(torch.lerp(gray, view, draw.around(1, self.contrast)))
        saturation, hue = draw.around(1, self.saturation), draw.around(0, self.hue)
        if view.shape[1] == 3:  # other images have no color
            view = self._clipped(torch.lerp(as_gray(view), view, saturation))
            view = self._clipped(rotated_hue(view, hue.flatten()))
        gamma = draw.around(1, self.gamma)
        return view**gamma if self.clip else view

    def _move(self, view: Tensor, draw: _Draw) -> Tensor:
        angle = draw.around(0, math.radians(self.degrees)).flatten()
        size = draw.around(1, self.scale).flatten()
        x, y = (2 * draw.around(0, self.shift).flatten() for _ in range(2))  # in units of [-1, 1]
        ratio = view.shape[2] / view.shape[3]
        cos, sin = angle.cos() / size, angle.sin() / size
        rows = [torch.stack([cos, -sin * ratio, x], 1), torch.stack([sin / ratio, cos, y], 1)]
        grid = affine_grid(torch.stack(rows, 1), list(view.shape), align_corners=False)
        return grid_sample(view, grid, padding_mode="border", align_corners=False)

    def _clipped(self, view: Tensor) -> Tensor:
        return view.clamp(0, 1) if self.clip else view


@dataclass
class _Draw:
    """Random numbers for a batch, one per image, that broadcast to ``(N, C, H, W)``."""

    images: Tensor
    generator: torch.Generator

    def between(self, low: float, high: float) -> Tensor:
        drawn = torch.rand(len(self.images), 1, 1, 1, generator=self.generator)
        return (low + (high - low) * drawn).to(self.images)

    def around(self, middle: float, spread: float) -> Tensor:
        return self.between(middle - spread, middle + spread)

    def normal(self) -> Tensor:
        # Numbers are drawn on the images' device; only the seed is from the CPU.
        seed = int(torch.randint(2**62, (1,), generator=self.generator))
        generator = torch.Generator(self.images.device).manual_seed(seed)
        x = self.images
        return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def as_gray(images: Tensor) -> Tensor:
    """Return one channel: the luma of three channels, the mean of any other number."""
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    weights = torch.tensor(_YIQ[0]).to(images).view(1, 3, 1, 1)
    return (images * weights).sum(dim=1, keepdim=True)


def rotated_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate colors around the gray axis, by one angle per image, at constant luma."""
    angle = 2 * math.pi * turns.double()
    one, zero = torch.ones_like(angle), torch.zeros_like(angle)
    rows = [
        torch.stack([one, zero, zero], 1),
        torch.stack([zero, angle.cos(), -angle.sin()], 1),
        torch.stack([zero, angle.sin(), angle.cos()], 1),
    ]
    yiq = torch.tensor(_YIQ, dtype=torch.float64, device=images.device)
    matrix = yiq.inverse() @ torch.stack(rows, 1) @ yiq
    return torch.einsum("nij,njhw->nihw", matrix.to(images), images)


def blurred(images: Tensor, sigma: Tensor) -> Tensor:
    """Blur images by Gaussian windows of 5 x 5, one standard deviation per image."""
    n, channels, height, width = images.shape
    steps = torch.arange(-2, 3).to(images)
    kernel = (-0.5 * (steps / sigma.reshape(n, 1)) ** 2).softmax(dim=1)
    kernel = kernel.repeat_interleave(channels, dim=0).view(n * channels, 1, 5, 1)
    maps = pad(images.reshape(1, n * channels, height, width), (2, 2, 2, 2), mode="replicate")
    maps = conv2d(maps, kernel, groups=n * channels)
    maps = conv2d(maps, kernel.transpose(2, 3), groups=n * channels)
    return maps.view(n, channels, height, width)
