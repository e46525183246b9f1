"""Weights of classifiers from files: safely, and all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from ...errors import ReservoirError
from ...io.checkpoints import find_misfits, read_weights

PREFIXES = ("module.", "model.")
"""What DataParallel and RobustBench put before names."""
NORMALISATION = {"mu", "sigma", "mean", "std"}
"""Buffers that RobustBench keeps beside the weights; our networks know theirs by themselves."""


def load_weights(net: nn.Module, path: str | Path) -> None:
    """Fill a network from a ``.pt``, ``.pth`` or ``.safetensors`` file; prefixes may differ.

    Raises:
        ReservoirError: If the file cannot be read safely, or does not fill the network exactly, but
            for counters that old versions of torch had not.
    """
    weights = plain(read_weights(path))
    wanted = net.state_dict()
    missing, reshaped, unexpected = find_misfits(weights, wanted)
    faults = [*missing, *(f"{name}: not in the model" for name in unexpected), *reshaped]
    if faults:
        raise ReservoirError(
            f"{path} does not fit {type(net).__name__} ({len(faults)} differences: "
            f"{'; '.join(faults[:3])}{'; ...' * (len(faults) > 3)}): use the backbone, and the "
            "number of classes, that it was trained with"
        )
    net.load_state_dict({n: t for n, t in weights.items() if n in wanted}, strict=False)


def plain(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights without prefixes, buffers of the normalisation, and weight normalisation."""
    for prefix in PREFIXES * 2:  # module.model. and model.module.
        if all(name.startswith(prefix) or name in NORMALISATION for name in weights):
            weights = {name.removeprefix(prefix): t for name, t in weights.items()}
    return fold_weight_norm({n: t for n, t in weights.items() if n not in NORMALISATION})


def fold_weight_norm(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights without weight normalisation (Salimans and Kingma, NeurIPS 2016): g v / |v|."""
    folded = dict(weights)
    for name in weights:
        if name.endswith(".weight_g") and f"{name[:-1]}v" in weights:
            length, direction = folded.pop(name), folded.pop(f"{name[:-1]}v")
            over = [d for d, size in enumerate(length.shape) if size == 1]
            norm = direction.norm(dim=over, keepdim=True)
            folded[name.removesuffix("_g")] = length * direction / norm
    return folded
