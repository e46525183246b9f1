"""Load the weights of classifiers from files, and refuse weights that do not fit exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from ...errors import ReservoirError
from ...io.checkpoints import find_misfits, read_weights

PREFIXES = ("module.", "model.")
"""Prefixes of keys from DataParallel and RobustBench, which are removed."""
NORMALIZATION = {"mu", "sigma", "mean", "std"}
"""Buffers of RobustBench's normalization, which our networks do not load."""


def load_weights(net: nn.Module, path: str | Path) -> None:
    """Load a ``.pt``, ``.pth`` or ``.safetensors`` file into a network.

    Apart from `PREFIXES`, the keys must match exactly. Only BatchNorm's counters may be missing.
    """
    weights = plain(read_weights(path))
    expected = net.state_dict()
    missing, reshaped, unexpected = find_misfits(weights, expected)
    faults = [*missing, *(f"{name}: not in the model" for name in unexpected), *reshaped]
    if faults:
        raise ReservoirError(
            f"{path} does not fit {type(net).__name__} ({len(faults)} differences: "
            f"{'; '.join(faults[:3])}{'; ...' * (len(faults) > 3)}): use the backbone, and the "
            "number of classes, that it was trained with"
        )
    net.load_state_dict({n: t for n, t in weights.items() if n in expected}, strict=False)


def plain(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights without prefixes, normalization buffers and weight normalization."""
    for prefix in PREFIXES * 2:  # twice, for module.model. and model.module.
        if all(name.startswith(prefix) or name in NORMALIZATION for name in weights):
            weights = {name.removeprefix(prefix): t for name, t in weights.items()}
    return fold_weight_norm({n: t for n, t in weights.items() if n not in NORMALIZATION})


def fold_weight_norm(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights with g v / |v| instead of g and v (Salimans and Kingma, 2016)."""
    folded = dict(weights)
    for name in weights:
        if name.endswith(".weight_g") and f"{name[:-1]}v" in weights:
            length, direction = folded.pop(name), folded.pop(f"{name[:-1]}v")
            over = [d for d, size in enumerate(length.shape) if size == 1]
            norm = direction.norm(dim=over, keepdim=True)
            folded[name.removesuffix("_g")] = length * direction / norm
    return folded
