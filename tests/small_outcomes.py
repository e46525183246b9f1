"""Outcomes of batches that no model has seen, for tests."""

from __future__ import annotations

from typing import Any

import torch

from mmseg_reservoir.core.outcome import Outcome
from mmseg_reservoir.core.route import Route


def make_outcome(images: int = 1, expert: int = 0, k: int = 1, **more: Any) -> Outcome:
    """Make the outcome of a batch that one expert predicts, by logits of two classes."""
    route = Route(expert, torch.eye(k)[expert], is_new=more.pop("opened", False))
    return Outcome(more.pop("logits", torch.zeros(images, 2)), route, k, **more)
