"""The data sets that can be checked. A new one is a file here and a line in the table."""

from ..layout import Layout
from .acdc import ACDC
from .ccc import CCC
from .cifar_c import CIFAR10C, CIFAR100C
from .cityscapes import CITYSCAPES
from .domainnet import DOMAINNET126
from .imagenet_c import IMAGENETC
from .minicity import MINICITY
from .pacs import PACS

LAYOUTS: dict[str, Layout] = {
    "acdc": ACDC,
    "ccc": CCC,
    "cifar10c": CIFAR10C,
    "cifar100c": CIFAR100C,
    "cityscapes": CITYSCAPES,
    "domainnet126": DOMAINNET126,
    "imagenetc": IMAGENETC,
    "minicity": MINICITY,
    "pacs": PACS,
}
