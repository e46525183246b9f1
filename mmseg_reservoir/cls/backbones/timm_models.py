"""Backbones through timm, which need not be installed unless they are used."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor, nn

from ...errors import ReservoirError
from .weights import load_weights


class Normalised(nn.Module):
    """Normalises images in [0, 1] by one mean and deviation per channel, then calls a network.

    So every backbone takes the same images, and the style sees what the stream has.
    """

    def __init__(self, net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.net((images - self.mean) / self.std)


def timm_backbone(
    name: str, classes: int = 1000, pretrained: bool = False, checkpoint: str | None = None
) -> Normalised:
    """A network of timm, for images in [0, 1].

    Args:
        name: As timm calls it, with the tag of the weights: ``resnet50.tv_in1k``. The tag decides
            on the normalisation as well.
        classes: Of the data set.
        pretrained: Download timm's weights, which are cached; for as many classes as they have.
        checkpoint: A file with other weights, which must fit exactly.
    """
    timm = import_timm()
    if pretrained and checkpoint is not None:
        raise ReservoirError("give either pretrained=True or a checkpoint")
    try:
        net = timm.create_model(name, pretrained=pretrained, num_classes=classes)
    except RuntimeError as error:
        near = ", ".join(timm.list_models(f"*{name.split('.')[0][:8]}*")[:8])
        raise ReservoirError(f"timm cannot make {name!r} ({error}); similar: {near}") from error
    theirs = net.pretrained_cfg.get("num_classes")
    if pretrained and theirs != classes:  # timm would leave the classifier random
        raise ReservoirError(
            f"the weights of {name!r} are for {theirs} classes, not for {classes}: give "
            "checkpoint=PATH with weights of a net that was trained on these"
        )
    if checkpoint is not None:
        load_weights(net, checkpoint)
    return Normalised(net, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])


class BottleneckNet(nn.Module):
    """A network to features ``(N, bottleneck)``, a norm of these, and a linear classifier.

    The names of the parts are those in AdaContrast's checkpoints. There the classifier has weight
    normalisation; at test time that is a linear layer, which `load_weights` makes of it.
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
) -> Normalised:
    """The ResNet-50 of AdaContrast (Chen et al., CVPR 2022), for images in [0, 1].

    The name is timm's, the classes are those of DomainNet-126, the checkpoint is a source model of
    AdaContrast.
    """
    net = import_timm().create_model(name, pretrained=False, num_classes=bottleneck)
    whole = BottleneckNet(net, bottleneck, classes)
    if checkpoint is not None:
        load_weights(whole, checkpoint)
    return Normalised(whole, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])


def import_timm() -> ModuleType:
    """The module timm, or a clear error."""
    try:
        import timm
    except ImportError as error:
        raise ReservoirError(
            f"this backbone needs timm ({error}): pip install timm, with the torchvision that "
            f"belongs to torch {torch.__version__}"
        ) from error
    # torchvision raises this while it is imported if it was built for another torch.
    except RuntimeError as error:
        raise ReservoirError(
            f"timm is there, but torchvision does not fit torch {torch.__version__} ({error}): "
            "install the torchvision of the same release and build (CPU or CUDA)"
        ) from error
    return timm
