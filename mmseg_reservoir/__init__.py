"""ReservoirTTA for MMSegmentation: long-term test-time adaptation with one expert per style."""

__version__ = "0.1.0"
