"""Styles to route: recorded ones of real images, MiniCity's frames, and corrupted digits.

All have the format of the real ones: ``{condition}/mean`` and ``{condition}/logvar``, one row per
frame or batch; the columns are the channels of VGG-19's taps 2, 5, 7, 10, 12, 14, 16 side by side,
or of the first of these. ``unseen`` are more of the source, for a stream that should open nothing.
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
"""Of the digits, in the order of the stream; at severity 5."""

_RECIPE = 1  # raise it whenever what is recorded changes


class Recorded(NamedTuple):
    """Statistics by ``{condition}/{part}``, and the conditions in the order of the stream."""

    statistics: dict[str, Tensor]
    conditions: list[str]


def select(statistics: Mapping[str, Tensor], name: str, style: Mapping[str, Any]) -> Tensor:
    """Style vectors ``(n, d)`` of one condition, as the style encoder would deliver them."""
    # Of a batch, mean_var averages the log-variances of the images; of one image they are the same.
    single = "image_logvar" if f"{name}/image_logvar" in statistics else "logvar"
    parts = choose(
        style["statistic"],
        {"logvar": ["logvar"], "mean": ["mean"], "mean_var": ["mean", single]},
        "recorded statistic",
    )
    wanted = taps(style)
    widths = [*CHANNELS.values()]
    columns = statistics[f"{name}/{parts[0]}"].shape[1]
    while sum(widths) > columns:
        widths.pop()
    order = [*CHANNELS][: len(widths)]
    if sum(widths) != columns or not set(wanted) <= set(order):
        raise ReservoirError(
            f"{columns} columns are recorded, the taps {order}: taps {list(wanted)} are not there"
        )
    blocks = {part: statistics[f"{name}/{part}"].split(widths, 1) for part in parts}
    return torch.cat([blocks[p][order.index(tap)] for tap in wanted for p in parts], dim=1)


def taps(style: Mapping[str, Any]) -> Sequence[int]:
    """The taps that the options of a style encoder name."""
    return TAP_SETS[style["taps"]] if isinstance(style["taps"], str) else style["taps"]


def stream_order(names: Iterable[str], told: Sequence[str] = ()) -> list[str]:
    """Conditions in the order of a stream: as told, else ACDC's first and the others as they come.

    Args:
        names: All that is recorded, in the order of the file.
        told: What the file says of the order.
    """
    names = [name for name in dict.fromkeys(names) if name.lower() not in (SOURCE, UNSEEN)]
    order = [name.lower() for name in (told or USUAL)]
    last = len(order)
    return sorted(names, key=lambda n: order.index(n.lower()) if n.lower() in order else last)


def read(path: Path) -> Recorded:
    """Recorded statistics. The order may stand as ``order`` in its metadata or a JSON beside it."""
    path = Path(path)
    beside = path.with_suffix(".json")
    about = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        keys = list(file.offset_keys())
    told = json.loads(metadata["order"]) if "order" in metadata else about.get("order", [])
    # A safetensors file sorts its tensors by name; the counts stand as they were written.
    names = [*about.get("counts", {}), *(key.split("/")[0] for key in keys)]
    present = {key.split("/")[0] for key in keys}
    return Recorded(load_file(path), stream_order([n for n in names if n in present], told))


def minicity(
    weights: str = "shipped",
    frames: Mapping[str, int] = CITY_FRAMES,
    size: Size | None = None,
) -> Recorded:
    """Single frames of MiniCity, rendered and encoded (some minutes) if the cache has them not."""

    def make(encoder: StyleEncoder) -> dict[str, Tensor]:
        found = {}
        wanted = [(SOURCE, "clear", "train"), (UNSEEN, "clear", "val")]
        wanted += [(c, c, "train") for c in CONDITIONS if c != "clear"]
        for name, condition, split in wanted:
            count = frames.get(name, frames["condition"])
            images = (render_frame(condition, split, i).rgb for i in range(count))
            rows = [image_statistics(encoder, image[None]) for image in images]
            means, variances = (torch.cat(part) for part in zip(*rows, strict=True))
            found[f"{name}/mean"] = means.float()
            found[f"{name}/logvar"] = variances.clamp_min(SMALLEST_VARIANCE).log().float()
        return found

    statistics = _cached("minicity", weights, make, [VERSION, dict(frames)], size)
    return Recorded(statistics, [c for c in CONDITIONS if c != "clear"])


def classification(
    weights: str = "shipped",
    batches: Mapping[str, int] = DIGIT_BATCHES,
    size: Size | None = None,
) -> Recorded:
    """Batches of 200 digits (32 x 32, RGB), clean and under corruptions like ImageNet-C's.

    The source is calibrated on one half of the digits; all else are batches of the other half.
    """

    def make(encoder: StyleEncoder) -> dict[str, Tensor]:
        known, other = (digits(train, stream_images=898) for train in (True, False))
        clean = other.read(range(len(other)))
        pools = {SOURCE: known.pixels, UNSEEN: other.pixels}
        pools |= {name: _as_pixels(corrupt(clean, name)) for name in CORRUPTIONS}
        generator = torch.Generator().manual_seed(0)
        found = {}
        for name, pool in pools.items():
            means, variances = image_statistics(encoder, pool)
            # Taps 5 and 7 lie behind a pooling by 2.
            area = _area(pool, encoder.size)
            pixels = torch.tensor([area] * 64 + [area // 4] * 256)
            drawn = [
                torch.randperm(len(pool), generator=generator)[:BATCH]
                for _ in range(batches.get(name, batches["condition"]))
            ]
            rows = [pooled(means[batch], variances[batch], pixels) for batch in drawn]
            for part in rows[0]:
                found[f"{name}/{part}"] = torch.stack([row[part] for row in rows]).float()
        return found

    statistics = _cached("classification", weights, make, [dict(batches), [*CORRUPTIONS]], size)
    return Recorded(statistics, [*CORRUPTIONS])


def _area(pool: np.ndarray, size: Size | None) -> int:
    """Pixels of an image ``(rows, columns)`` of a pool in the size in which it is looked at."""
    image = torch.empty(1, 1, *pool.shape[1:3])
    return (image if size is None else reduced(image, size)).numel()


def _as_pixels(images: Tensor) -> np.ndarray:
    """From ``(n, 3, rows, columns)`` in [0, 1] to ``(n, rows, columns, 3)`` from 0 to 255."""
    return images.mul(255).round().byte().permute(0, 2, 3, 1).contiguous().numpy()


def image_statistics(encoder: StyleEncoder, images: np.ndarray) -> tuple[Tensor, Tensor]:
    """Means and unbiased variances over space of all channels, both ``(n, 320)``.

    Args:
        encoder: One of :func:`_encoder`.
        images: RGB ``(n, rows, columns, 3)``, from 0 to 255.
    """
    to_imagenet = ImageRange("unit").to_imagenet
    found = []
    for chunk in torch.from_numpy(images).split(50):
        found.append(encoder(to_imagenet(chunk.permute(0, 3, 1, 2).float() / 255)))
    means, variances = torch.cat(found, dim=1).double().unbind(dim=-1)
    return means.T, variances.T


def _encoder(weights: str, size: Size | None = None) -> StyleEncoder:
    """The style encoder with a statistic of every image, from which all others follow."""
    encoder = StyleEncoder(weights, size=size)
    encoder.statistic = _per_image
    return encoder


def _per_image(features: Tensor) -> Tensor:
    """``(C, n, 2)``: the encoder puts the channels of its taps side by side."""
    return torch.stack(image_moments(features), dim=-1).transpose(0, 1)


def pooled(means: Tensor, variances: Tensor, pixels: Tensor) -> dict[str, Tensor]:
    """The statistics of a batch from those of its images ``(n, d)``; ``pixels`` per channel."""
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
    """What ``make`` returns, from the user's cache if it was made before."""
    encoder = _encoder(weights, size)
    recipe = recipe if size is None else [*recipe, size]
    about = json.dumps([_RECIPE, weight_digest(encoder.features), *recipe])
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    path = cache_folder() / "benchmarks" / f"{name}-{key}.safetensors"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        save_file(make(encoder), partial, metadata={"weights": encoder.weights})
        partial.replace(path)
    return load_file(path)
