"""The backbones of the paper and two small ones. All take images in [0, 1] and return logits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from ...errors import ReservoirError
from ...options import choose, construct
from .adacontrast import adacontrast_backbone
from .normalised import Normalised
from .resnext import CifarResNeXt
from .timm_models import timm_backbone
from .trained import trained_net
from .weights import load_weights
from .wide_resnet import WideResNet

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "wrn28_10": partial(WideResNet, depth=28, width=10, classes=10),
    "resnext29_augmix": partial(CifarResNeXt, depth=29, groups=4, base=32, classes=100),
    "resnet50": partial(timm_backbone, name="resnet50.tv_in1k"),
    "resnet50_gn": partial(timm_backbone, name="resnet50_gn.a1h_in1k"),
    "vit_b16": partial(timm_backbone, name="vit_base_patch16_224.augreg_in21k_ft_in1k"),
    "resnet50_adacontrast": adacontrast_backbone,
    "timm": timm_backbone,
    "digits_convnet": partial(trained_net, name="digits_convnet"),
    "digits_vit": partial(trained_net, name="digits_vit"),
}
OURS = ("wrn28_10", "resnext29_augmix")


def build_backbone(options: Mapping[str, Any]) -> nn.Module:
    """The network that ``dict(type="wrn28_10", checkpoint="Standard.pt")`` describes.

    Weights that nobody names are random, which is an error waiting to happen; so a checkpoint (or
    ``pretrained=True`` for timm) is needed unless ``random=True`` says that this is meant.
    """
    options = dict(options)
    kind = options.pop("type", "")
    make = choose(kind, BACKBONES, "backbone")
    random = options.pop("random", False)
    if not (random or options.get("checkpoint") or options.get("pretrained")):
        raise ReservoirError(
            f"backbone {kind!r} has no weights: give checkpoint=PATH"
            f"{', or pretrained=True' * _downloads(make)} (or random=True to try things out)"
        )
    if kind not in OURS:
        return construct(make, options, "backbone").eval()
    checkpoint = options.pop("checkpoint", None)
    net = construct(make, options, "backbone")
    if checkpoint is not None:
        load_weights(net, checkpoint)
    return net.eval()


def _downloads(make: Callable[..., nn.Module]) -> bool:
    return "pretrained" in inspect.signature(make).parameters


__all__ = [
    "BACKBONES",
    "CifarResNeXt",
    "Normalised",
    "WideResNet",
    "build_backbone",
    "load_weights",
    "timm_backbone",
]
