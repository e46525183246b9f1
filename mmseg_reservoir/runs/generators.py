"""The global random generators. A part with a private generator saves it itself."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Seed the generators of Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def save_generators() -> dict[str, Any]:
    """Return the state of all global generators as plain data and tensors."""
    name, keys, *rest = cast(tuple, np.random.get_state())
    return {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(keys.astype(np.int64)), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),  # empty without a GPU
    }


def load_generators(state: dict[str, Any]) -> None:
    """Restore :func:`save_generators`."""
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy(), *rest))
    torch.set_rng_state(state["torch"])
    torch.cuda.set_rng_state_all(state["cuda"])
