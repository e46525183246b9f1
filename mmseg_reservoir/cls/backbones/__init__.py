"""The backbones of the paper and two small ones: images in [0, 1] to logits."""

from __future__ import annotations

from functools import partial

from torch import nn

from ..._renamed import renamed_names
from ...config.schema import Options, pick
from ...errors import ReservoirError
from ...registry import register
from .cifar_nets import CifarResNeXt, WideResNet
from .timm_models import Normalized, adacontrast_backbone, timm_backbone
from .trained import trained_net
from .weights import load_weights

_VIT = "vit_base_patch16_224.augreg_in21k_ft_in1k"
register("backbone", "wrn28_10")(partial(WideResNet, depth=28, width=10, classes=10))
register("backbone", "resnext29_augmix")(
    partial(CifarResNeXt, depth=29, groups=4, base=32, classes=100)
)
register("backbone", "resnet50")(partial(timm_backbone, name="resnet50.tv_in1k"))
register("backbone", "resnet50_gn")(partial(timm_backbone, name="resnet50_gn.a1h_in1k"))
register("backbone", "vit_b16")(partial(timm_backbone, name=_VIT))
register("backbone", "resnet50_adacontrast")(adacontrast_backbone)
register("backbone", "timm")(timm_backbone)
register("backbone", "digits_convnet")(partial(trained_net, name="digits_convnet"))
register("backbone", "digits_vit")(partial(trained_net, name="digits_vit"))


def build_backbone(options: Options) -> nn.Module:
    """Build a network from options such as ``dict(type="wrn28_10", checkpoint="Standard.pt")``.

    Weights are required: ``checkpoint``, or ``pretrained=True``, or ``random=True`` for tests.
    """
    options = dict(options)
    random, checkpoint = options.pop("random", False), options.pop("checkpoint", None)
    choice = pick("backbone", options, "model", injected=("checkpoint",))
    if not (random or checkpoint or options.get("pretrained")):
        raise ReservoirError(
            f"backbone {choice.name!r} has no weights: give checkpoint=PATH"
            f"{', or pretrained=True' * choice.accepts('pretrained')} (or random=True to try "
            "things out)"
        )
    net = choice.build(checkpoint=checkpoint)
    if checkpoint is not None and not choice.accepts("checkpoint"):
        load_weights(net, checkpoint)
    return net.eval()


__getattr__ = renamed_names(__name__, {"Normalised": "cls.backbones.Normalized"})  # old name

__all__ = [
    "CifarResNeXt",
    "Normalized",
    "WideResNet",
    "build_backbone",
    "load_weights",
    "timm_backbone",
]
