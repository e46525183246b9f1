"""The ResNet-50 of AdaContrast (Chen et al., CVPR 2022), for DomainNet-126."""

from __future__ import annotations

from torch import Tensor, nn

from .normalised import Normalised
from .timm_models import import_timm
from .weights import load_weights


class BottleneckNet(nn.Module):
    """A network whose last layer is a bottleneck, a norm, and a linear classifier.

    The names of the parts are those in AdaContrast's checkpoints. There the classifier has weight
    normalisation; at test time that is a linear layer, which `load_weights` makes of it.

    Args:
        net: Images to features ``(N, bottleneck)``.
        bottleneck: Features.
        classes: Of the data set.
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
    """ResNet-50 with a bottleneck, for images in [0, 1].

    Args:
        name: Of the network, as timm calls it.
        classes: 126 for DomainNet-126.
        bottleneck: Features before the classifier.
        checkpoint: A source model of AdaContrast.
    """
    net = import_timm().create_model(name, pretrained=False, num_classes=bottleneck)
    whole = BottleneckNet(net, bottleneck, classes)
    if checkpoint is not None:
        load_weights(whole, checkpoint)
    return Normalised(whole, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])
