"""Copies of saved states on another device."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def copied_to(state: T, device: torch.device) -> T:
    """Return a copy of nested dicts and lists, with their tensors on a device.

    Objects that occur several times, such as the moments that several experts share, stay shared in
    the copy. A ``step`` on the CPU stays there, since torch's optimizers keep their counter on the
    CPU.
    """
    moved: dict[int, Any] = {}
    for name, tensor in _tensors(state):
        stays = name == "step" and tensor.is_cpu
        moved[id(tensor)] = tensor.detach().to("cpu" if stays else device, copy=True)
    # The memo of deepcopy holds the tensors that are already copied.
    return copy.deepcopy(state, moved)


def tensor_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor for a checksum, also of types that numpy does not have."""
    return tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()


def _tensors(state: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors with their keys."""
    if isinstance(state, Tensor):
        yield name, state
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from _tensors(value, str(key))
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from _tensors(value, name)
