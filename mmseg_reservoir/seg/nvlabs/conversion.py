"""Convert NVlabs' SegFormer checkpoints to the names and shapes of our models.

Pure functions on dictionaries of tensors; ``reservoir convert`` reads and writes files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import ReservoirError
from ...io.checkpoints import find_misfits, find_weights

Shape = tuple[int, ...]

# New names in a transformer block. NVlabs' linear layers of the MLP are 1x1 convolutions here.
_BLOCK = {
    "norm1": "norm1",
    "attn.in_proj": "attn.attn.in_proj",
    "attn.proj": "attn.attn.out_proj",
    "attn.sr": "attn.sr",
    "attn.norm": "attn.norm",
    "norm2": "norm2",
    "mlp.fc1": "ffn.layers.0",
    "mlp.dwconv.dwconv": "ffn.layers.1",
    "mlp.fc2": "ffn.layers.4",
}
_STAGE = {"patch_embed.proj": "0.projection", "patch_embed.norm": "0.norm", "norm": "2"}
_HEAD = {"linear_fuse.conv": "fuse.conv", "linear_fuse.bn": "fuse.bn", "linear_pred": "conv_seg"}
_BECOME_CONVOLUTIONS = re.compile(r"\.mlp\.fc[12]\.weight$|\.linear_c\d\.proj\.weight$")

# Tensors that the forward pass does not use: the classifier of mmseg's base class, and that of the
# ImageNet pre-training.
_UNUSED = re.compile(r"decode_head\.conv_seg\.|(backbone\.)?head\.")

_SIZES = {
    (32, 2, 2, 2, 2): "MiT-B0",
    (64, 2, 2, 2, 2): "MiT-B1",
    (64, 3, 4, 6, 3): "MiT-B2",
    (64, 3, 4, 18, 3): "MiT-B3",
    (64, 3, 8, 27, 3): "MiT-B4",
    (64, 3, 6, 40, 3): "MiT-B5",
}


class Converted(NamedTuple):
    """Weights under new names, and the old names of unused tensors, which are left out."""

    weights: dict[str, Tensor]
    dropped: list[str]


def weights_of(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint, without the prefix of data-parallel training."""
    weights = find_weights(checkpoint)
    return {name.removeprefix("module."): tensor for name, tensor in weights.items()}


def dataset_meta(checkpoint: Mapping[str, Any]) -> dict[str, list]:
    """Return names and colors of the classes by MMEngine's keys, if the checkpoint has them."""
    meta = checkpoint.get("meta") or {}
    saved = {key.lower(): meta[key] for key in ("CLASSES", "PALETTE") if meta.get(key) is not None}
    saved |= meta.get("dataset_meta") or {}
    return {
        key: [item if isinstance(item, str) else [int(x) for x in item] for item in saved[key]]
        for key in ("classes", "palette")
        if saved.get(key) is not None
    }


def detect_layout(names: Iterable[str]) -> str:
    """Return ``"nvlabs"`` or ``"mmseg0"`` (mmseg's names, the same in its versions 0 and 1)."""
    names = list(names)

    def any_starts(*prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in names)

    nvlabs, mmseg = any_starts("backbone.patch_embed1."), any_starts("backbone.layers.0.0.")
    backbone_alone = any_starts("patch_embed1.", "layers.0.0.")
    if backbone_alone or ((nvlabs or mmseg) and not any_starts("decode_head.")):
        raise ReservoirError(
            "the checkpoint holds a backbone alone, such as the ImageNet weights mit_b5.pth: "
            "take the one of the whole segmentation model, such as "
            "segformer.b5.1024x1024.city.160k.pth"
        )
    if nvlabs and any_starts("decode_head.linear_c1."):
        return "nvlabs"
    if mmseg:
        return "mmseg0"
    raise ReservoirError(
        "the checkpoint is of no SegFormer that NVlabs or mmseg published: its tensors are called "
        f"{', '.join(names[:3]) or 'nothing at all'}, ..."
    )


def convert_nvlabs(weights: Mapping[str, Tensor]) -> Converted:
    """Rename and reshape NVlabs' tensors for ``configs/_base_/models/segformer_mit-b5_nvlabs.py``.

    A tensor that this model does not have is an error.
    """
    dropped = [name for name in weights if _UNUSED.match(name)]
    used = {name: tensor for name, tensor in weights.items() if name not in dropped}
    converted, unknown = {}, []
    for name, tensor in _with_packed_attention(used).items():
        new = _new_name(name)
        if new is None:
            unknown.append(name)
        else:
            is_convolution = _BECOME_CONVOLUTIONS.search(name)
            converted[new] = tensor[:, :, None, None] if is_convolution else tensor
    if unknown:
        raise ReservoirError(
            f"{len(unknown)} of the checkpoint's {len(weights)} tensors have no place in NVlabs' "
            f"SegFormer ({_few(unknown)}): it is of another model, or was changed"
        )
    return Converted(converted, dropped)


def check_fit(weights: Mapping[str, Tensor], expected: Mapping[str, Shape]) -> None:
    """Check that the weights have exactly the tensors of a model, in the same shapes."""
    saved = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if _size(saved) != _size(expected):
        raise ReservoirError(
            f"the checkpoint is {_describe(saved)}, the config's model {_describe(expected)}: "
            "give --config a model of the checkpoint's size"
        )
    missing, reshaped, unexpected = find_misfits(weights, expected)
    problems = [*reshaped, *missing, *(f"{name}: not in the model" for name in unexpected)]
    if problems:
        raise ReservoirError(
            f"{len(problems)} tensors do not fit the config's model ({_few(problems, '; ')}): give "
            "--config the model that the checkpoint was trained with"
        )


def _with_packed_attention(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with q and kv stacked, as in torch's MultiheadAttention.

    A q without kv, or the reverse, keeps its name, which :func:`convert_nvlabs` refuses.
    """
    packed = dict(weights)
    for name in weights:
        partner = name.replace(".attn.q.", ".attn.kv.")
        if partner != name and partner in weights:
            stacked = torch.cat([packed.pop(name), packed.pop(partner)])
            packed[name.replace(".attn.q.", ".attn.in_proj.")] = stacked
    return packed


def _new_name(name: str) -> str | None:
    """Return the new name of a tensor; None if the model has no such tensor."""
    module, _, kind = name.rpartition(".")
    if match := re.fullmatch(r"backbone\.block([1-4])\.(\d+)\.(.+)", module):
        stage, block, part = match.groups()
        # The packed projection is not a module: its tensors are in_proj_weight and in_proj_bias.
        join = "_" if part == "attn.in_proj" else "."
        prefix = f"backbone.layers.{int(stage) - 1}.1.{block}."
        return f"{prefix}{_BLOCK[part]}{join}{kind}" if part in _BLOCK else None
    if match := re.fullmatch(r"backbone\.(patch_embed|norm)([1-4])(\..+)?", module):
        part = match[1] + (match[3] or "")
        prefix = f"backbone.layers.{int(match[2]) - 1}."
        return f"{prefix}{_STAGE[part]}.{kind}" if part in _STAGE else None
    if match := re.fullmatch(r"decode_head\.linear_c([1-4])\.proj", module):
        return f"decode_head.projections.{int(match[1]) - 1}.{kind}"
    part = module.removeprefix("decode_head.")
    return f"decode_head.{_HEAD[part]}.{kind}" if part in _HEAD and part != module else None


def _size(shapes: Mapping[str, Shape]) -> Shape:
    """Return the width of the first stage and the number of blocks of each stage."""
    blocks = {
        match.groups()
        for name in shapes
        if (match := re.match(r"backbone\.layers\.(\d)\.1\.(\d+)\.", name))
    }
    width = shapes.get("backbone.layers.0.0.projection.bias", (0,))[0]
    return (width, *(sum(stage == str(s) for stage, _ in blocks) for s in range(4)))


def _describe(shapes: Mapping[str, Shape]) -> str:
    size: Any = _size(shapes)
    blocks = "-".join(map(str, size[1:]))
    return f"{_SIZES.get(size, 'another MiT')} ({blocks} blocks, width {size[0]})"


def _few(items: list[str], separator: str = ", ") -> str:
    return separator.join(items[:3]) + f"{separator}..." * (len(items) > 3)
