"""A run that cannot be lost: where it is, saved such that it goes on as if nothing had happened."""

from .generators import load_generators, save_generators, seed_generators
from .identity import run_identity
from .run_saver import RunSaver

__all__ = ["RunSaver", "load_generators", "run_identity", "save_generators", "seed_generators"]
