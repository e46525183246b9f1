"""A run that cannot be lost: where it is, saved such that it goes on as if nothing had happened."""

from .generators import load_generators, save_generators, seed_generators
from .identity import run_identity
from .run_saver import RunSaver, saved_seed

__all__ = [
    "RunSaver",
    "load_generators",
    "run_identity",
    "save_generators",
    "saved_seed",
    "seed_generators",
]
