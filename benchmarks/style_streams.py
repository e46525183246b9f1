"""Styles to route: recorded styles of real images, MiniCity's frames, and corrupted digits.

All have the same format: ``{condition}/mean`` and ``{condition}/logvar`` with one row per frame or
batch. The columns are the channels of VGG-19's taps 2, 5, 7, 10, 12, 14, 16, or of the first of
these. ``unseen`` are more source frames, for a stream that should open no domain.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from mmseg_reservoir.core.image_range import ImageRange
from mmseg_reservoir.datasets.corruptions import corrupt
from mmseg_reservoir.datasets.digits import digits
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import cache_folder
from mmseg_reservoir.minicity import CONDITIONS, render_frame
from mmseg_reservoir.minicity.writer import VERSION
from mmseg_reservoir.registry import choose
from mmseg_reservoir.style.encoder import Size, reduced, weight_digest
from mmseg_reservoir.style.statistics import SMALLEST_VARIANCE, SMOOTHING, image_moments
from mmseg_reservoir.style.vgg import TAP_SETS, StyleEncoder

CHANNELS = {2: 64, 5: 128, 7: 128, 10: 256, 12: 256, 14: 256, 16: 256}
SOURCE, UNSEEN = "source", "unseen"
USUAL = ("fog", "night", "rain", "snow")
"""The order of ACDC's conditions in the paper's streams."""
CITY_FRAMES = {SOURCE: 250, UNSEEN: 500, "condition": 40}
DIGIT_BATCHES = {SOURCE: 120, UNSEEN: 60, "condition": 15}
BATCH = 200
"""Images per batch in the paper's classification streams."""
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "contrast", "brightness", "fog", "pixelate")
"""Corruptions of the digits at severity 5, in the order of the stream."""

_RECIPE = 1  # increase it when the recorded statistics change


class Recorded(NamedTuple):
    """Statistics by ``{condition}/{part}``, and the conditions in the order of the stream."""

    statistics: dict[str, Tensor]
    conditions: list[str]


def select(statistics: Mapping[str, Tensor], name: str, style: Mapping[str, Any]) -> Tensor:
    """Return the style vectors ``(n, d)`` of a condition, as the style encoder would."""
    # For a batch, mean_var averages the log-variances of the images.
    single = "image_logvar" if f"{name}/image_logvar" in statistics else "logvar"
    parts = choose(
        style["statistic"],
        {"logvar": ["logvar"], "mean": ["mean"], "mean_var": ["mean", single]},
        "recorded statistic",
    )
    chosen = taps(style)
    widths = [*CHANNELS.values()]
    columns = statistics[f"{name}/{parts[0]}"].shape[1]
    while sum(widths) > columns:
        widths.pop()
    order = [*CHANNELS][: len(widths)]
    if sum(widths) != columns or not set(chosen) <= set(order):
        raise ReservoirError(
            f"{columns} columns of the taps {order} are recorded: taps {list(chosen)} are missing"
        )
    blocks = {part: statistics[f"{name}/{part}"].split(widths, 1) for part in parts}
    return torch.cat([blocks[p][order.index(tap)] for tap in chosen for p in parts], dim=1)


def taps(style: Mapping[str, Any]) -> Sequence[int]:
    """Return the taps in the options of a style encoder."""
    return TAP_SETS[style["taps"]] if isinstance(style["taps"], str) else style["taps"]


def stream_order(names: Iterable[str], recorded: Sequence[str] = ()) -> list[str]:
    """Return the conditions in the order of a stream.

    Args:
        names: All conditions in the order of the file.
        recorded: The first conditions in the file's order. Defaults to ACDC's.
    """
    names = [name for name in dict.fromkeys(names) if name.lower() not in (SOURCE, UNSEEN)]
    order = [name.lower() for name in (recorded or USUAL)]
    last = len(order)
    return sorted(names, key=lambda n: order.index(n.lower()) if n.lower() in order else last)


def read(path: Path) -> Recorded:
    """Read recorded statistics. Its metadata or a JSON beside it may have an ``order``."""
    path = Path(path)
    beside = path.with_suffix(".json")
    description = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        keys = list(file.offset_keys())
    order = description.get("order", [])
    if "order" in metadata:
        order = json.loads(metadata["order"])
    # A safetensors file sorts its tensors by name; the counts keep their order.
    names = [*description.get("counts", {}), *(key.split("/")[0] for key in keys)]
    present = {key.split("/")[0] for key in keys}
    return Recorded(load_file(path), stream_order([n for n in names if n in present], order))


def minicity(
    weights: str = "shipped", frames: Mapping[str, int] = CITY_FRAMES, size: Size | None = None
) -> Recorded:
    """Return the styles of single MiniCity frames: from the cache, or rendered in minutes."""

    def make(encoder: StyleEncoder) -> dict[str, Tensor]:
        statistics = {}
        splits = [(SOURCE, "clear", "train"), (UNSEEN, "clear", "val")]
        splits += [(c, c, "train") for c in CONDITIONS if c != "clear"]
        for name, condition, split in splits:
            count = frames.get(name, frames["condition"])
            images = (render_frame(condition, split, i).rgb for i in range(count))
            rows = [image_statistics(encoder, image[None]) for image in images]
            means, variances = (torch.cat(part) for part in zip(*rows, strict=True))
            statistics[f"{name}/mean"] = means.float()
            statistics[f"{name}/logvar"] = variances.clamp_min(SMALLEST_VARIANCE).log().float()
        return statistics

    statistics = _cached("minicity", weights, make, [VERSION, dict(frames)], size)
    return Recorded(statistics, [c for c in CONDITIONS if c != "clear"])


def classification(
    weights: str = "shipped", batches: Mapping[str, int] = DIGIT_BATCHES, size: Size | None = None
) -> Recorded:
    """Return the styles of batches of 200 digits, clean and with corruptions like ImageNet-C's.

    The source is one half of the digits (32 x 32, RGB). All others are batches of the other half.
    """

    def make(encoder: StyleEncoder) -> dict[str, Tensor]:
        half, other = (digits(train, stream_images=898) for train in (True, False))
        clean = other.read(range(len(other)))
        pools = {SOURCE: half.pixels, UNSEEN: other.pixels}
        pools |= {name: _as_pixels(corrupt(clean, name)) for name in CORRUPTIONS}
        generator = torch.Generator().manual_seed(0)
        statistics = {}
        for name, pool in pools.items():
            means, variances = image_statistics(encoder, pool)
            # Taps 5 and 7 are behind a pooling by 2.
            area = _area(pool, encoder.size)
            pixels = torch.tensor([area] * 64 + [area // 4] * 256)
            drawn = [
                torch.randperm(len(pool), generator=generator)[:BATCH]
                for _ in range(batches.get(name, batches["condition"]))
            ]
            rows = [pooled(means[batch], variances[batch], pixels) for batch in drawn]
            for part in rows[0]:
                statistics[f"{name}/{part}"] = torch.stack([row[part] for row in rows]).float()
        return statistics

    statistics = _cached("classification", weights, make, [dict(batches), [*CORRUPTIONS]], size)
    return Recorded(statistics, [*CORRUPTIONS])


def _area(pool: np.ndarray, size: Size | None) -> int:
    """Return the number of pixels of a pool's images at the encoder's size."""
    image = torch.empty(1, 1, *pool.shape[1:3])
    return (image if size is None else reduced(image, size)).numel()


def _as_pixels(images: Tensor) -> np.ndarray:
    """Convert ``(n, 3, rows, columns)`` in [0, 1] to ``(n, rows, columns, 3)`` from 0 to 255."""
    return images.mul(255).round().byte().permute(0, 2, 3, 1).contiguous().numpy()


def image_statistics(encoder: StyleEncoder, images: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return means and unbiased variances over space of all channels, both ``(n, 320)``.

    Args:
        encoder: Encoder from :func:`_encoder`.
        images: RGB ``(n, rows, columns, 3)``, from 0 to 255.
    """
    to_imagenet = ImageRange("unit").to_imagenet
    moments = []
    for chunk in torch.from_numpy(images).split(50):
        moments.append(encoder(to_imagenet(chunk.permute(0, 3, 1, 2).float() / 255)))
    means, variances = torch.cat(moments, dim=1).double().unbind(dim=-1)
    return means.T, variances.T


def _encoder(weights: str, size: Size | None = None) -> StyleEncoder:
    """Return a style encoder with the moments of every image."""
    encoder = StyleEncoder(weights, size=size)
    encoder.statistic = _per_image
    return encoder


def _per_image(features: Tensor) -> Tensor:
    """Return moments ``(C, n, 2)``; the encoder concatenates the channels of its taps."""
    return torch.stack(image_moments(features), dim=-1).transpose(0, 1)


def pooled(means: Tensor, variances: Tensor, pixels: Tensor) -> dict[str, Tensor]:
    """Return the statistics of a batch from those of its images ``(n, d)``."""
    between = (means - means.mean(dim=0)).square().sum(dim=0)
    scatter = (pixels - 1) * variances.sum(dim=0) + pixels * between
    variance = scatter / (len(means) * pixels - 1)
    return {
        "mean": means.mean(dim=0),
        "logvar": variance.clamp_min(SMALLEST_VARIANCE).log(),
        "image_logvar": (variances + SMOOTHING).log().mean(dim=0),
    }


def _cached(
    name: str,
    weights: str,
    make: Callable[[StyleEncoder], dict[str, Tensor]],
    recipe: Sequence,
    size: Size | None,
) -> dict[str, Tensor]:
    """Return the result of ``make``, from the user's cache if it is there."""
    encoder = _encoder(weights, size)
    recipe = recipe if size is None else [*recipe, size]
    parts = json.dumps([_RECIPE, weight_digest(encoder.features), *recipe])
    key = hashlib.sha256(parts.encode()).hexdigest()[:16]
    path = cache_folder() / "benchmarks" / f"{name}-{key}.safetensors"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        save_file(make(encoder), partial, metadata={"weights": encoder.weights})
        partial.replace(path)
    return load_file(path)
