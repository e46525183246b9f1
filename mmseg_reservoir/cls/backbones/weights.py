"""Weights of classifiers from files: safely, and all of them or none."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ...errors import ReservoirError

PLACES = ("state_dict", "model", "model_state_dict")
"""Where in a checkpoint the weights may be."""
PREFIXES = ("module.", "model.")
"""What DataParallel and RobustBench put before names."""
NORMALISATION = {"mu", "sigma", "mean", "std"}
"""Buffers that RobustBench keeps beside the weights; our networks know theirs by themselves."""


def load_weights(net: nn.Module, path: str | Path) -> None:
    """Fill a network from a ``.pt``, ``.pth`` or ``.safetensors`` file.

    Args:
        net: The network; its names are those of the file, up to prefixes.
        path: The file. A pickle in it is read with torch's allow-list only.

    Raises:
        ReservoirError: If the file cannot be read safely, or does not fill the network exactly.
    """
    path = Path(path).expanduser()
    fill(net, weights_of(read(path), path), path)


def read(path: Path) -> Any:
    """What is in a file."""
    if not path.is_file():
        raise ReservoirError(f"there is no checkpoint {path}: check the path")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ReservoirError(f"{path} is damaged ({error}): download it again") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ReservoirError(
            f"{path} was not loaded: it is no checkpoint, is damaged, or holds Python objects that "
            'could run code. If you trust it, save its weights alone: torch.save({"state_dict": '
            'torch.load(path, weights_only=False)["state_dict"]}, "weights.pt")'
        ) from error
    except (RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        line = (str(error) or type(error).__name__).splitlines()[0]
        raise ReservoirError(f"{path} cannot be read ({line}): download it again") from error


def weights_of(checkpoint: Any, path: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint, without prefixes and buffers of the normalisation."""
    if isinstance(checkpoint, Mapping):
        checkpoint = next((checkpoint[p] for p in PLACES if p in checkpoint), checkpoint)
    tensors = {}
    if isinstance(checkpoint, Mapping):
        tensors = {n: t for n, t in checkpoint.items() if isinstance(t, Tensor)}
    if not tensors:
        raise ReservoirError(
            f"{path} holds no weights, neither itself nor under {', '.join(PLACES)}: use a file "
            'saved as {"state_dict": net.state_dict()}'
        )
    for prefix in PREFIXES * 2:  # module.model. and model.module.
        if all(name.startswith(prefix) or name in NORMALISATION for name in tensors):
            tensors = {name.removeprefix(prefix): t for name, t in tensors.items()}
    tensors = {name: t for name, t in tensors.items() if name not in NORMALISATION}
    return fold_weight_norm(tensors)


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


def fill(net: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights; everything must fit except counters that old versions of torch had not."""
    wanted = net.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    faults = [
        *(f"{n} is missing" for n in shapes if n not in found and not _is_counter(n)),
        *(f"{n} has no place" for n in found if n not in shapes and not _is_counter(n)),
        *(f"{n} is {found[n]}, not {s}" for n, s in shapes.items() if found.get(n, s) != s),
    ]
    if faults:
        raise ReservoirError(
            f"{path} does not fit {type(net).__name__} ({len(faults)} differences: "
            f"{'; '.join(faults[:3])}{'; ...' * (len(faults) > 3)}): use the backbone, and the "
            "number of classes, that it was trained with"
        )
    net.load_state_dict({n: t for n, t in weights.items() if n in shapes}, strict=False)


def _is_counter(name: str) -> bool:
    return name.endswith("num_batches_tracked")
