"""Files of the warm-up, with BECoTTA's tensors and the options of :func:`.inject`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..errors import ReservoirError
from ..io.files import read_tensors, write_tensors
from .inject import BecottaParts, Variant, find_variant, inject, transformer_stages

_KIND = "mmseg_reservoir.becotta"


def save(path: str | Path, becotta: BecottaParts, **notes: Any) -> None:
    """Write the trained parts to a ``.safetensors`` file, with ``notes`` as JSON metadata."""
    meta = {
        "variant": becotta.variant.as_dict(),
        "domains": list(becotta.domains),
        "dims": list(becotta.dims),
        "depths": list(becotta.depths),
        "about": notes,
    }
    write_tensors(path, becotta.state_dict(), {"kind": _KIND, "meta": json.dumps(meta)})


def read_meta(path: str | Path) -> dict[str, Any]:
    """Return the metadata of a file of :func:`save`."""
    return _read(path)[0]


def load(
    path: str | Path,
    model: nn.Module,
    variant: str | Mapping[str, Any] | Variant | None = None,
    under: str = "backbone",
    blend: bool = False,
) -> BecottaParts:
    """Inject the parts of a file into the model of the warm-up, which has loaded weights.

    A given variant must equal that of the file. For other arguments see :func:`inject`.
    """
    meta, state = _read(path)
    saved = find_variant(meta["variant"])
    if variant is not None and find_variant(variant) != saved:
        raise ReservoirError(
            f"{path} is of the variant {saved}, params.variant asks for {find_variant(variant)}: "
            "leave params.variant out, or warm that variant up"
        )
    stages = transformer_stages(model, under)
    actual = {"dims": [dim for dim, _ in stages], "depths": [len(blocks) for _, blocks in stages]}
    for key, value in actual.items():
        if meta[key] != value:
            raise ReservoirError(
                f"{path} was made for a model with {key} {meta[key]}, this one has {value}: warm "
                "this model up with 'reservoir warmup'"
            )
    becotta = inject(model, saved, meta["domains"], under, blend)
    becotta.load_state_dict(state)
    return becotta


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    path = Path(path).expanduser()
    if not path.is_file():
        raise ReservoirError(f"no BECoTTA weights at {path}: make them with 'reservoir warmup'")
    state, meta = read_tensors(path, "make it again with 'reservoir warmup'")
    if meta.get("kind") != _KIND:
        raise ReservoirError(
            f"{path} holds no BECoTTA weights (perhaps those of a model): params.weights takes a "
            "file of 'reservoir warmup'"
        )
    return json.loads(meta["meta"]), state
