"""Backbones from timm, which is imported only when one of them is built."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor, nn

from ...errors import ReservoirError
from .weights import load_weights


class Normalized(nn.Module):
    """A network with a normalization of its input, which must be images in [0, 1]."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.net((images - self.mean) / self.std)


def timm_backbone(
    name: str, classes: int = 1000, pretrained: bool = False, checkpoint: str | None = None
) -> Normalized:
    """Build a network of timm for images in [0, 1].

    Args:
        name: timm's name with the tag of the weights, such as ``resnet50.tv_in1k``. The tag also
            selects the normalization.
        classes: Number of classes.
        pretrained: Whether to load timm's weights, which are downloaded once. Defaults to False.
        checkpoint: File with other weights, which must fit exactly. Defaults to None.
    """
    timm = import_timm()
    if pretrained and checkpoint is not None:
        raise ReservoirError("give either pretrained=True or a checkpoint")
    try:
        net = timm.create_model(name, pretrained=pretrained, num_classes=classes)
    except RuntimeError as error:
        near = ", ".join(timm.list_models(f"*{name.split('.')[0][:8]}*")[:8])
        raise ReservoirError(f"timm cannot make {name!r} ({error}); similar: {near}") from error
    pretrained_classes = net.pretrained_cfg.get("num_classes")
    if pretrained and pretrained_classes != classes:  # otherwise timm would use a random classifier
        raise ReservoirError(
            f"the weights of {name!r} are for {pretrained_classes} classes, not for {classes}: "
            "give checkpoint=PATH with weights of a net that was trained on these"
        )
    if checkpoint is not None:
        load_weights(net, checkpoint)
    return Normalized(net, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])


class BottleneckNet(nn.Module):
    """A network with ``bottleneck`` features, a norm, and a linear classifier.

    The keys match AdaContrast's checkpoints. `load_weights` folds their weight normalization.
    """

    def __init__(self, net: nn.Module, bottleneck: int, classes: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(net, nn.BatchNorm1d(bottleneck))
        self.fc = nn.Linear(bottleneck, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(self.encoder(images))


def adacontrast_backbone(
    name: str = "resnet50.tv_in1k",
    classes: int = 126,
    bottleneck: int = 256,
    checkpoint: str | None = None,
) -> Normalized:
    """Build the ResNet-50 of AdaContrast (Chen et al., CVPR 2022) for images in [0, 1].

    Args:
        name: timm's name of the network.
        classes: Number of classes. Defaults to 126, those of DomainNet-126.
        bottleneck: Number of features before the classifier. Defaults to 256.
        checkpoint: File of a source model of AdaContrast. Defaults to None, random weights.
    """
    net = import_timm().create_model(name, pretrained=False, num_classes=bottleneck)
    bottleneck_net = BottleneckNet(net, bottleneck, classes)
    if checkpoint is not None:
        load_weights(bottleneck_net, checkpoint)
    return Normalized(bottleneck_net, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])


def import_timm() -> ModuleType:
    """Return the module timm, or raise an error that explains how to install it."""
    try:
        import timm
    except ImportError as error:
        raise ReservoirError(
            f"this backbone needs timm ({error}): pip install timm, with the torchvision that "
            f"belongs to torch {torch.__version__}"
        ) from error
    # torchvision raises RuntimeError at import if it was built for another torch.
    except RuntimeError as error:
        raise ReservoirError(
            f"timm is installed, but torchvision does not fit torch {torch.__version__} ({error}): "
            "install the torchvision of the same release and build (CPU or CUDA)"
        ) from error
    return timm
