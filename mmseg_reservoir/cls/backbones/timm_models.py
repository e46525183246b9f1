"""Backbones for ImageNet through timm, which need not be installed unless they are used."""

from __future__ import annotations

from types import ModuleType

import torch

from ...errors import ReservoirError
from .normalised import Normalised
from .weights import load_weights


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
    known = net.pretrained_cfg.get("num_classes")
    if pretrained and known != classes:  # timm would leave the classifier random
        raise ReservoirError(
            f"the weights of {name!r} are for {known} classes, not for {classes}: give "
            "checkpoint=PATH with weights of a net that was trained on these"
        )
    if checkpoint is not None:
        load_weights(net, checkpoint)
    return Normalised(net, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])


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
