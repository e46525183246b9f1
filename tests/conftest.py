"""Fixtures that several tests share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def stream() -> list[torch.Tensor]:
    """Eight batches that alternate between two very different styles."""
    torch.manual_seed(1)
    return [torch.randn(2, 3, 8, 8) * (1 if i % 2 else 6) + 3 * (i % 2) for i in range(8)]
