"""Files of the warm-up: BECoTTA's own tensors, and what is needed to inject them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from ..errors import ReservoirError
from .inject import Becotta, inject, transformer_stages
from .variants import Variant, find_variant

_KIND = "mmseg_reservoir.becotta"


def save(path: str | Path, becotta: Becotta, **about: Any) -> None:
    """Write a ``.safetensors`` file.

    Args:
        path: The file.
        becotta: What was injected into a model and trained.
        **about: Anything to tell in the file's metadata, as JSON values.
    """
    meta = {
        "variant": becotta.variant.as_dict(),
        "domains": list(becotta.domains),
        "dims": list(becotta.dims),
        "depths": list(becotta.depths),
        "about": about,
    }
    state = {name: tensor.contiguous() for name, tensor in becotta.state_dict().items()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    save_file(state, path, metadata={"kind": _KIND, "meta": json.dumps(meta)})


def read_meta(path: str | Path) -> dict[str, Any]:
    """What a file of :func:`save` says of itself."""
    return _read(path, tensors=False)[0]


def load(
    path: str | Path,
    model: nn.Module,
    variant: str | Mapping[str, Any] | Variant | None = None,
    under: str = "backbone",
    blend: bool = False,
) -> Becotta:
    """Inject what a file holds into a model that has its own weights already.

    Args:
        path: A file of :func:`save`.
        model: The model that the warm-up was made with.
        variant: If given, the file must be of this variant.
        under: Name of the model's backbone.
        blend: See :class:`Becotta`.
    """
    meta, state = _read(path, tensors=True)
    saved = find_variant(meta["variant"])
    if variant is not None and find_variant(variant) != saved:
        raise ReservoirError(
            f"{path} is of the variant {saved}, params.variant asks for {find_variant(variant)}: "
            "leave params.variant out, or warm that variant up"
        )
    stages = transformer_stages(model, under)
    found = {"dims": [dim for dim, _ in stages], "depths": [len(blocks) for _, blocks in stages]}
    for key, value in found.items():
        if meta[key] != value:
            raise ReservoirError(
                f"{path} was made for a model with {key} {meta[key]}, this one has {value}: warm "
                "this model up with tools/warmup.py"
            )
    becotta = inject(model, saved, meta["domains"], under, blend)
    becotta.load_state_dict(state)
    return becotta


def _read(path: str | Path, tensors: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    path = Path(path).expanduser()
    if not path.is_file():
        raise ReservoirError(f"no BECoTTA weights at {path}: make them with tools/warmup.py")
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}  # noqa: SIM118
    except SafetensorError as error:
        raise ReservoirError(
            f"{path} is not a readable .safetensors file ({error}): make it again with "
            "tools/warmup.py"
        ) from error
    if meta.get("kind") != _KIND:
        raise ReservoirError(
            f"{path} holds no BECoTTA weights (perhaps those of a model): params.weights takes a "
            "file of tools/warmup.py"
        )
    return json.loads(meta["meta"]), state
