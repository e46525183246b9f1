"""ReservoirTTA for MMSegmentation: long-term test-time adaptation with one expert per style."""

import sys

from ._renamed import RenamedModules
from .registry import register

__version__ = "0.1.0"

__all__ = ["register"]

sys.meta_path.insert(0, RenamedModules())  # first, so that it sees old names before other finders
