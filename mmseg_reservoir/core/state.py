"""Saved states and devices: a state may be loaded on another device than it was saved on."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def copied_to(state: T, device: torch.device) -> T:
    """A copy of nested dicts and lists, with their tensors on a device.

    What is one object in the state, such as the moments that several experts share, is one object
    in the copy. A ``step`` that is on the CPU stays there: torch's optimizers keep their counter on
    the CPU, wherever the parameters are.
    """
    moved: dict[int, Any] = {}
    for name, tensor in _tensors(state):
        stays = name == "step" and tensor.is_cpu
        moved[id(tensor)] = tensor.detach().to("cpu" if stays else device, copy=True)
    # The memo of deepcopy has what is copied already.
    return copy.deepcopy(state, moved)


def tensor_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor for a checksum, also of types that numpy does not have."""
    return tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()


def _tensors(state: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Return all tensors, each with its key."""
    if isinstance(state, Tensor):
        yield name, state
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from _tensors(value, str(key))
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from _tensors(value, name)
