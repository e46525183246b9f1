"""The identity of a reservoir: what must agree to load it into a run or to merge it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

from torch import Tensor, nn

from ..core.reservoir_pipeline import ReservoirPipeline
from ..core.state import tensor_bytes
from ..io.files import digest
from ..io.nested import differences
from ..style.calibration import Calibration
from .vector_layout import VectorLayout

_COUNTER = "num_batches_tracked"  # of BatchNorm: unused, and old torch does not save it


def plain_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights without the factors of LoRA, under their names in the plain model."""
    return {
        name.replace(".base_layer", ""): tensor
        for name, tensor in weights.items()
        if ".lora_" not in name and not name.endswith(_COUNTER)
    }


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of tensors and their names, independent of their order."""

    def pieces() -> Iterator[bytes | memoryview]:
        for name, tensor in sorted(tensors.items()):
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
            yield tensor_bytes(tensor)

    return digest(pieces())


def source_weights(pipeline: ReservoirPipeline) -> dict[str, Tensor]:
    """Return the weights of the source model by their plain names; adapted ones are copies."""
    space = pipeline.method.space
    model: nn.Module = space.model
    adapted = set(space.names)
    with space.at(pipeline.source):
        state = model.state_dict()
        return plain_weights({n: t.clone() if n in adapted else t for n, t in state.items()})


def identity_of(pipeline: ReservoirPipeline, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what must agree for experts to be usable in a pipeline, as plain JSON values.

    Args:
        pipeline: The pipeline.
        weights: Its :func:`source_weights`.
    """
    method = pipeline.method
    encoder: Any = pipeline.encoder
    style = encoder.fingerprint() if hasattr(encoder, "fingerprint") else type(encoder).__name__
    layout = VectorLayout.of(method.space)
    adapts = digest(f"{layout.names} {layout.shapes}")
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
    return json.loads(json.dumps(identity))  # as it will be after reading it from a file


def calibration_digest(calibration: Calibration | None) -> str | None:
    """Return a checksum of the source styles; None without a calibration."""
    return None if calibration is None else digest_of({"styles": calibration.styles})


def describe_differences(one: Any, other: Any, name: str = "") -> list[str]:
    """Return the differences of plain values, each in a few words."""
    changes = sorted(differences(one, other, name), key=itemgetter(0))
    return [f"{key}: {_short(mine)} against {_short(theirs)}" for key, mine, theirs in changes]


def _short(value: Any) -> str:
    """Return a value as one line, with checksums shortened to 12 digits."""
    words = "none" if value is None else str(value)
    return " ".join(w[:12] if len(w) == 64 else w for w in words.split())[:120]
