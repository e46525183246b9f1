"""NVlabs' SegFormer from its documented structure: tensors by name, and a plain torch forward.

Knows nothing of mmseg or of the converter, so that it can judge both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Size:
    """Sizes of the four stages, and of the head."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    heads: tuple[int, ...] = (1, 2, 5, 8)
    reductions: tuple[int, ...] = (8, 4, 2, 1)
    embedding: int = 768
    classes: int = 19


B5 = Size(widths=(64, 128, 320, 512), depths=(3, 6, 40, 3))
B2 = Size(widths=(64, 128, 320, 512), depths=(3, 4, 6, 3))
TINY = Size(widths=(8, 16, 40, 64), depths=(1, 2, 1, 1), embedding=12)

TINY_CONFIG = dict(
    backbone=dict(embed_dims=8, num_layers=[1, 2, 1, 1]),
    decode_head=dict(in_channels=[8, 16, 40, 64], channels=12),
)
"""What turns the model of the config for B5 into TINY."""


def layout(size: Size) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in NVlabs' checkpoint of a segmentation model."""
    shapes: dict[str, tuple[int, ...]] = {}

    def add(name: str, *shape: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = shape
        if bias:
            shapes[f"{name}.bias"] = shape[:1]

    before = 3
    for stage, (width, depth) in enumerate(zip(size.widths, size.depths, strict=True), 1):
        kernel, reduction = 7 if stage == 1 else 3, size.reductions[stage - 1]
        add(f"backbone.patch_embed{stage}.proj", width, before, kernel, kernel)
        add(f"backbone.patch_embed{stage}.norm", width)
        for index in range(depth):
            block = f"backbone.block{stage}.{index}"
            add(f"{block}.norm1", width)
            add(f"{block}.attn.q", width, width)
            add(f"{block}.attn.kv", 2 * width, width)
            add(f"{block}.attn.proj", width, width)
            if reduction > 1:
                add(f"{block}.attn.sr", width, width, reduction, reduction)
                add(f"{block}.attn.norm", width)
            add(f"{block}.norm2", width)
            add(f"{block}.mlp.fc1", 4 * width, width)
            add(f"{block}.mlp.dwconv.dwconv", 4 * width, 1, 3, 3)
            add(f"{block}.mlp.fc2", width, 4 * width)
        add(f"backbone.norm{stage}", width)
        before = width

    add("decode_head.conv_seg", size.classes, 128, 1, 1)  # never used
    for stage in (4, 3, 2, 1):
        add(f"decode_head.linear_c{stage}.proj", size.embedding, size.widths[stage - 1])
    add("decode_head.linear_fuse.conv", size.embedding, 4 * size.embedding, 1, 1, bias=False)
    add("decode_head.linear_fuse.bn", size.embedding)
    for name in ("running_mean", "running_var"):
        shapes[f"decode_head.linear_fuse.bn.{name}"] = (size.embedding,)
    shapes["decode_head.linear_fuse.bn.num_batches_tracked"] = ()
    add("decode_head.linear_pred", size.classes, size.embedding, 1, 1)
    return shapes


def random_weights(size: Size, seed: int = 0) -> dict[str, Tensor]:
    """Random float32 tensors, scaled so that activations stay near 1."""
    random = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in layout(size).items():
        if name.endswith("num_batches_tracked"):
            weights[name] = torch.tensor(7)
        elif len(shape) == 1:  # norms and biases: around 1 and 0, and variances positive
            tensor = 0.2 * torch.randn(shape, generator=random)
            weights[name] = tensor if name.endswith(("bias", "mean")) else 1 + tensor.tanh()
        else:
            fan_in = math.prod(shape[1:])
            weights[name] = torch.randn(shape, generator=random) / math.sqrt(fan_in)
    return weights


def forward(weights: dict[str, Tensor], size: Size, images: Tensor) -> Tensor:
    """Logits of NVlabs' SegFormer in evaluation, at a quarter of the images' resolution."""
    features, x = [], images
    for stage in (1, 2, 3, 4):
        stride, padding = (4, 3) if stage == 1 else (2, 1)
        x = _conv(weights, f"backbone.patch_embed{stage}.proj", x, stride=stride, padding=padding)
        height, width = x.shape[2:]
        tokens = x.flatten(2).mT
        tokens = _norm(weights, f"backbone.patch_embed{stage}.norm", tokens, 1e-5)
        for index in range(size.depths[stage - 1]):
            tokens = _block(weights, f"backbone.block{stage}.{index}", tokens, height, width, size)
        tokens = _norm(weights, f"backbone.norm{stage}", tokens, 1e-6)
        x = tokens.mT.unflatten(2, (height, width))
        features.append(x)
    return _head(weights, features)


def _block(
    weights: dict[str, Tensor], name: str, tokens: Tensor, height: int, width: int, size: Size
) -> Tensor:
    stage = int(name.split(".")[1].removeprefix("block")) - 1
    heads, reduction = size.heads[stage], size.reductions[stage]

    x = _norm(weights, f"{name}.norm1", tokens, 1e-6)
    reduced = x
    if reduction > 1:
        image = x.mT.unflatten(2, (height, width))
        image = _conv(weights, f"{name}.attn.sr", image, stride=reduction)
        reduced = _norm(weights, f"{name}.attn.norm", image.flatten(2).mT, 1e-5)
    query = _linear(weights, f"{name}.attn.q", x)
    key, value = _linear(weights, f"{name}.attn.kv", reduced).chunk(2, dim=-1)
    outputs = []
    for q, k, v in zip(*(t.chunk(heads, dim=-1) for t in (query, key, value)), strict=True):
        attention = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        outputs.append(attention @ v)
    tokens = tokens + _linear(weights, f"{name}.attn.proj", torch.cat(outputs, dim=-1))

    x = _norm(weights, f"{name}.norm2", tokens, 1e-6)
    x = _linear(weights, f"{name}.mlp.fc1", x)
    image = x.mT.unflatten(2, (height, width))
    image = _conv(weights, f"{name}.mlp.dwconv.dwconv", image, padding=1, groups=image.shape[1])
    return tokens + _linear(weights, f"{name}.mlp.fc2", F.gelu(image.flatten(2).mT))


def _head(weights: dict[str, Tensor], features: list[Tensor]) -> Tensor:
    shape = features[0].shape[2:]
    maps = []
    for stage in (4, 3, 2, 1):
        x = features[stage - 1]
        projected = _linear(weights, f"decode_head.linear_c{stage}.proj", x.flatten(2).mT)
        image = projected.mT.unflatten(2, x.shape[2:])
        maps.append(F.interpolate(image, shape, mode="bilinear", align_corners=False))
    x = F.conv2d(torch.cat(maps, dim=1), weights["decode_head.linear_fuse.conv.weight"])
    names = ("running_mean", "running_var", "weight", "bias")
    norm = [weights[f"decode_head.linear_fuse.bn.{name}"] for name in names]
    x = F.batch_norm(x, *norm, training=False, eps=1e-5).relu()
    return _conv(weights, "decode_head.linear_pred", x)


def _conv(weights: dict[str, Tensor], name: str, x: Tensor, **options: int) -> Tensor:
    return F.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], **options)


def _linear(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(weights: dict[str, Tensor], name: str, x: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps)
