"""Compares nested states, for tests."""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import Tensor


def same(one: Any, other: Any) -> bool:
    """Equal in type and value, bit for bit; any NaN is like any other."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and torch.equal(one.nan_to_num(0.125), other.nan_to_num(0.125))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other) or one != one != other != other
    return one == other
