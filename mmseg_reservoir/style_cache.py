"""The user's copy of VGG-19's first convolutions: where it lies, how it is written and read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from .errors import ReservoirError

SHAPES: dict[int, tuple[int, int]] = {0: (64, 3), 2: (64, 64), 5: (128, 64), 7: (128, 128)}
"""Output and input channels of the convolutions that the default taps 2, 5, 7 need (1 MB)."""

_FORMAT = "mmseg_reservoir.vgg19_front.1"


def cache_folder() -> Path:
    """The user's cache folder of this project."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "mmseg_reservoir"


def cached_weights() -> Path:
    """Where ``tools/get_style_weights.py`` stores the weights."""
    return cache_folder() / "vgg19_front.safetensors"


def tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """The sha256 of names and values: unlike a file's, the same whoever wrote the file."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()


def front(state: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """The four convolutions among the weights of a VGG-19 with torchvision's names.

    Args:
        state: Tensors by ``features.{i}.weight`` and ``features.{i}.bias``, or without the prefix.
        where: What they were read from, for the message.
    """
    state = {key.removeprefix("features."): value for key, value in state.items()}
    found = {}
    for index, (out, inputs) in SHAPES.items():
        for name, shape in ((f"{index}.weight", (out, inputs, 3, 3)), (f"{index}.bias", (out,))):
            value = state.get(name)
            if not isinstance(value, Tensor) or tuple(value.shape) != shape:
                has = tuple(value.shape) if isinstance(value, Tensor) else "nothing"
                raise ReservoirError(
                    f"{where} is not a VGG-19: features.{name} should be {shape}, found {has}"
                )
            if not torch.isfinite(value).all():
                raise ReservoirError(f"{where} is damaged: features.{name} is not finite")
            found[f"features.{name}"] = value.detach().float().contiguous()
    return found


def store(tensors: Mapping[str, Tensor], path: str | os.PathLike, origin: str) -> Path:
    """Write weights with their checksum, all of them or nothing.

    Args:
        tensors: What :func:`front` returns.
        path: A ``.safetensors`` file.
        origin: Where they come from, in words.
    """
    from safetensors.torch import save_file

    path = Path(path).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    metadata = {"format": _FORMAT, "origin": origin, "sha256": tensor_digest(tensors)}
    save_file(dict(tensors), partial, metadata=metadata)
    partial.replace(path)
    return path


def read_safetensors(path: str | os.PathLike) -> dict[str, Tensor]:
    """Read any ``.safetensors`` file; one of :func:`store` must have the checksum that it names."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
    if metadata.get("format") == _FORMAT and metadata.get("sha256") != tensor_digest(tensors):
        raise ReservoirError(
            f"the weights in {path} are not those that were stored: delete the file and run "
            "python tools/get_style_weights.py again"
        )
    return tensors


def origin(path: str | os.PathLike) -> str | None:
    """What a file of :func:`store` says of its origin; None for another file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError):
        return None
    return metadata.get("origin") if metadata.get("format") == _FORMAT else None
