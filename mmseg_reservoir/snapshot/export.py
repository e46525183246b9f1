"""Export one expert as a plain checkpoint, which a model can load without this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ..core.correction import folded
from ..errors import ReservoirError
from ..io.checkpoints import find_weights, read_checkpoint, write_checkpoint
from ..io.files import write_tensors
from ..params.lora import factor_pairs
from .reservoir_snapshot import ReservoirSnapshot, explained
from .source_identity import digest_of, plain_weights


@explained
def export_expert(
    snapshot: ReservoirSnapshot, index: int, checkpoint: str | os.PathLike, file: str | os.PathLike
) -> Path:
    """Write the checkpoint of the source model with the weights of an expert.

    Adapted parameters replace those of the source. Products of LoRA are added to the weights that
    they belong to. Corrections of alignment are folded into the normalization layers. For a method
    with a teacher, the teacher is exported, since it makes the predictions.

    Args:
        snapshot: The reservoir.
        index: The expert.
        checkpoint: Checkpoint of the source model of the run.
        file: File to write: ``.pth``, with the ``meta`` of the checkpoint, or ``.safetensors``.
    """
    file = Path(file).expanduser()
    if file.suffix not in (".pth", ".safetensors"):
        raise ReservoirError(f"{file} must end in .pth or .safetensors")
    _check_exportable(snapshot, index)
    saved = read_checkpoint(checkpoint)
    weights = {
        name.removeprefix("module."): tensor
        for name, tensor in find_weights(saved, checkpoint).items()
    }
    _check_source(snapshot, weights, checkpoint)
    weights = {**weights, **expert_weights(snapshot, index, weights)}
    if file.suffix == ".safetensors":
        return write_tensors(file, weights, {"format": "pt"})
    plain = {"meta": saved.get("meta", {}), "state_dict": weights}  # mmseg reads both
    return write_checkpoint(file, plain)


def expert_weights(
    snapshot: ReservoirSnapshot, index: int, source: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the weights of an expert that differ from the source model's, as of a plain model.

    Args:
        snapshot: The reservoir.
        index: The expert.
        source: Weights of the source model.
    """
    tensors = snapshot.layout.split(snapshot.experts[index].parameters)
    scaling = snapshot.layout.scaling
    pairs = [] if scaling is None else factor_pairs(tensors)
    changed: dict[str, Tensor] = {}
    for a, b in pairs:
        name = _folded_name(a, source)
        product = tensors.pop(b).flatten(1).double() @ tensors.pop(a).flatten(1).double()
        weight = source[name]
        folded = weight.double() + (scaling or 0.0) * product.view_as(weight)
        changed[name] = folded.to(weight)
    changed |= {name: tensor.clone() for name, tensor in tensors.items()}
    return changed | _aligned_norms(snapshot, index, {**source, **changed})


def _aligned_norms(
    snapshot: ReservoirSnapshot, index: int, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return weight and bias of the layers that an expert aligns, its correction folded in."""
    if "alignment" not in snapshot.components:
        return {}
    alignment = snapshot.part("alignment")(**snapshot.options("alignment"))
    alignment.load_state_dict(snapshot.state_of("alignment"))
    norms: dict[str, Tensor] = {}
    for name, (gain, shift) in alignment.corrections(index).items():
        keys = f"{name}.weight", f"{name}.bias"
        if not all(key in weights for key in keys):
            raise ReservoirError(
                f"expert {index} cannot be exported: it aligns {name!r}, which has no weight and "
                "bias to hold the correction: predict with it in this package, with --start-from "
                "and --frozen"
            )
        weight, bias = (weights[key] for key in keys)
        norms |= dict(zip(keys, folded(weight, bias, gain, shift), strict=True))
    return norms


def _check_exportable(snapshot: ReservoirSnapshot, index: int) -> None:
    """Raise an error for an expert that a plain checkpoint cannot hold."""
    if not 0 <= index < len(snapshot.experts):
        raise ReservoirError(
            f"there is no expert {index}: the reservoir has 0 to {len(snapshot.experts) - 1}"
        )
    here = "predict with it in this package, with --start-from and --frozen"
    if snapshot.layout.added is not None:
        raise ReservoirError(
            f"expert {index} cannot be exported: its parameters are those of "
            f"{snapshot.layout.added}, which a plain model does not have: {here}"
        )
    share = snapshot.layout.batch_share
    if share:
        raise ReservoirError(
            f"expert {index} cannot be exported: its BatchNorm uses the statistics of each batch "
            f"(a share of {share:g}), which weights cannot hold: {here}"
        )


def _folded_name(factor: str, source: Mapping[str, Tensor]) -> str:
    """Return the name of the weight that the product of a factor is added to."""
    module = factor.split(".lora_A")[0].replace(".base_layer", "")
    names = [f"{module}.weight", f"{module}.in_proj_weight"]  # the second is for packed attention
    present = [name for name in names if name in source]
    if len(present) != 1:
        raise ReservoirError(
            f"the checkpoint has no weight for the factors of {module}: use the checkpoint of the "
            "model that the reservoir was saved with"
        )
    return present[0]


def _check_source(snapshot: ReservoirSnapshot, weights: Mapping[str, Tensor], where: Any) -> None:
    plain = plain_weights(weights)
    matched = {name: plain[name] for name in snapshot.shared["weights"] if name in plain}
    if digest_of(matched) != snapshot.identity["source model"]:
        raise ReservoirError(
            f"{where} is not the checkpoint of the source model that the reservoir adapted: use "
            "the checkpoint of that run"
        )
