"""ReservoirTTA for MMSegmentation: long-term test-time adaptation with one expert per style."""

from .options import register

__version__ = "0.1.0"

__all__ = ["register"]
