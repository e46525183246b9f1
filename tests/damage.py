"""What may become of files on their way, and what somebody may forge, for tests by hypothesis."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import torch
from torch import Tensor

SIZES = (0, 1, 2**31, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with up to three kinds of damage, none of them at all in rare cases."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(
            st.sampled_from(("cut", "flip", "overwrite", "insert", "remove", "size", "zero"))
        )
        if kind == "cut":
            data = data[:start]
        elif kind == "flip" and data:
            flipped = data[start] ^ 1 << draw(st.integers(0, 7))
            data = data[:start] + bytes([flipped]) + data[start + 1 :]
        elif kind == "overwrite":
            new = draw(st.binary(min_size=1, max_size=40))
            data = data[:start] + new + data[start + len(new) :]
        elif kind == "insert":
            data = data[:start] + draw(st.binary(min_size=1, max_size=40)) + data[start:]
        elif kind == "remove":
            data = data[:start] + data[start + draw(st.integers(1, 200)) :]
        elif kind == "zero":  # as a crash of the machine leaves them
            count = draw(st.integers(1, 4096))
            data = data[:start] + bytes(min(count, len(data) - start)) + data[start + count :]
        else:
            place = draw(st.sampled_from((0, start)))
            size = struct.pack(draw(st.sampled_from("<>")) + "Q", draw(st.sampled_from(SIZES)))
            data = data[:place] + size + data[place + 8 :]
    return data


strange_tensors = st.builds(
    lambda shape, dtype, value: torch.full(shape, value).to(dtype),
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from(
        (torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)
    ),
    st.sampled_from([0.0, 1.0, -1.0, 1e38]),
)
strange_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**63, -(2**70), 1e300]),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
    strange_tensors,
)


@st.composite
def changed(draw: st.DrawFn, tree: Any, values: st.SearchStrategy = strange_values) -> Any:
    """A copy of nested dicts and lists with up to two parts changed, removed or added."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(tree))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        kind = draw(st.sampled_from(("replace", "replace", "tensor", "remove", "add")))
        if kind == "tensor" and isinstance(holder[key], Tensor):
            holder[key] = draw(other_tensors(holder[key]))
        elif kind == "remove":
            del holder[key]
        elif kind == "add" and isinstance(holder, dict):
            holder[draw(st.text(max_size=5))] = draw(values)
        elif kind == "add":
            holder.insert(key, draw(values))
        else:
            holder[key] = draw(values)
    return tree


@st.composite
def other_tensors(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    """A tensor that differs in its type, its shape, its length, or in a value."""
    kind = draw(st.sampled_from(("dtype", "shape", "longer", "shorter", "value", "scale")))
    if kind == "dtype":
        return tensor.to(draw(st.sampled_from((torch.float64, torch.int64, torch.float16))))
    if kind == "shape":
        return tensor.flatten() if tensor.ndim > 1 else tensor[..., None]
    if kind == "longer":
        return torch.cat([tensor.reshape(-1), tensor.reshape(-1)])
    if kind == "shorter":
        return tensor.reshape(-1)[:-1]
    if kind == "scale":
        return tensor * draw(st.sampled_from((0, -1, 1000)))
    tensor = tensor.clone()
    if tensor.numel() and tensor.is_floating_point():
        place = draw(st.integers(0, tensor.numel() - 1))
        tensor.view(-1)[place] = draw(st.sampled_from([torch.nan, torch.inf, 1e38]))
    return tensor


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Holders and keys of all parts that can be changed."""
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    else:
        return
    for key, part in items:
        yield tree, key
        yield from _places(part)
