"""What reservoirs must agree in before one can take the place of, or be merged with, another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from ..core.reservoir_pipeline import ReservoirPipeline
from ..core.state import tensor_bytes
from ..style.calibration import Calibration
from .vector_layout import VectorLayout

_COUNTER = "num_batches_tracked"  # of BatchNorm, which old torch did not save, and nobody uses


def plain_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under the names that they have without LoRA, whose factors are left out."""
    return {
        name.replace(".base_layer", ""): tensor
        for name, tensor in weights.items()
        if ".lora_" not in name and not name.endswith(_COUNTER)
    }


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """A checksum of tensors and their names, in whatever order they come."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}\n".encode())
        digest.update(tensor_bytes(tensors[name]))
    return digest.hexdigest()


def source_weights(pipeline: ReservoirPipeline) -> dict[str, Tensor]:
    """All weights of the source model, by their plain names; a copy of what adapts."""
    space = pipeline.method.space
    model: nn.Module = space.model
    adapted = set(space.names)
    with space.at(pipeline.source):
        state = model.state_dict()
        return plain_weights({n: t.clone() if n in adapted else t for n, t in state.items()})


def identity_of(pipeline: ReservoirPipeline, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """What experts mean nothing without, as plain JSON values.

    Args:
        pipeline: That they adapt in.
        weights: Its :func:`source_weights`.
    """
    method, encoder = pipeline.method, pipeline.encoder
    style = encoder.fingerprint() if hasattr(encoder, "fingerprint") else type(encoder).__name__
    layout = VectorLayout.of(method.space)
    adapts = hashlib.sha256(f"{layout.names} {layout.shapes}".encode()).hexdigest()
    identity = {
        "source model": digest_of(weights),
        "method": type(method).__name__,
        "optimizer": type(method.optimizer).__name__,
        "params": {
            "numbers": len(layout),
            "tensors": adapts,
            "scaling": layout.scaling,
            "batch_share": layout.batch_share,
        },
        "router": type(pipeline.router).__name__,
        "style": style,
    }
    for name in ("guard", "pooling", "alignment"):
        part = getattr(pipeline, name)
        identity[name] = None if part is None else type(part).__name__
    return json.loads(json.dumps(identity))  # as it will be read


def calibration_digest(calibration: Calibration | None) -> str | None:
    """A checksum of the source styles."""
    return None if calibration is None else digest_of({"styles": calibration.styles})


def differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    """What differs between plain values, each in a few words."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            inner = f"{name}.{key}" if name else str(key)
            yield from differences(one.get(key), other.get(key), inner)
    elif one != other:
        yield f"{name}: {_short(one)} against {_short(other)}"


def _short(value: Any) -> str:
    """A value in a line; of checksums the first digits tell enough."""
    words = "none" if value is None else str(value)
    return " ".join(w[:12] if len(w) == 64 else w for w in words.split())[:120]
