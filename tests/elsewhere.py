"""A stand-in for another device, so that tests of devices need no GPU."""

from __future__ import annotations

import torch
from torch import Tensor

aten = torch.ops.aten


class Elsewhere(Tensor):
    """A tensor on another device than the CPU, which can only be copied from there.

    Whatever else is done with it is an error, as it would be with a tensor on the CPU beside it.
    """

    def __new__(cls, inner: Tensor) -> Elsewhere:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device="meta")

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is aten.detach.default:
            return cls(args[0].inner)
        if func is aten._to_copy.default:
            return func(args[0].inner, **kwargs or {})
        if func is aten.copy_.default and not isinstance(args[0], cls):
            return args[0].copy_(args[1].inner)
        raise RuntimeError(f"{func}: expected all tensors to be on the same device")

    def __repr__(self) -> str:
        return f"Elsewhere({self.inner})"


def sent(state):
    """Nested dicts and lists with their tensors elsewhere; sharing is kept, as torch.load does."""
    return _sent(state, {})


def _sent(state, memo):
    if id(state) not in memo:
        if isinstance(state, Tensor):
            memo[id(state)] = Elsewhere(state)
        elif isinstance(state, dict):
            memo[id(state)] = {key: _sent(value, memo) for key, value in state.items()}
        elif isinstance(state, (list, tuple)):
            memo[id(state)] = type(state)(_sent(value, memo) for value in state)
        else:
            return state
    return memo[id(state)]
