"""The data sets that can be checked. A new one is a file here and a line in the table."""

from ..layout import Layout
from .acdc import ACDC
from .cityscapes import CITYSCAPES
from .minicity import MINICITY

LAYOUTS: dict[str, Layout] = {"acdc": ACDC, "cityscapes": CITYSCAPES, "minicity": MINICITY}
