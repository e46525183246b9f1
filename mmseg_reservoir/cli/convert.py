"""Convert NVlabs' SegFormer checkpoint for our models.

reservoir convert segformer.b5.1024x1024.city.160k.pth segformer_b5_nvlabs.pth
reservoir convert IN.pth OUT.safetensors --config CONFIG

mmseg's own SegFormer checkpoints need no conversion. With --layout mmseg0 you can still check and
rewrite one of mmseg 0.x: without the optimizer, and with class names where MMEngine expects them.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.config_files import find_config, read_config
from ..errors import ReservoirError
from .command_line import Verb
from .options import option, shared, switch

if TYPE_CHECKING:
    from torch import Tensor

    from ..seg.nvlabs.conversion import Converted, Shape

_CONFIGS = {
    "nvlabs": "_base_/models/segformer_mit-b5_nvlabs.py",
    "mmseg0": "_base_/models/segformer_mit-b5.py",
}


def convert(checkpoint: dict[str, Any], layout: str = "auto") -> tuple[str, Converted]:
    """Return the layout of a checkpoint, and its weights with the names of our models."""
    from ..seg.nvlabs.conversion import Converted, convert_nvlabs, detect_layout, weights_of

    weights = weights_of(checkpoint)
    detected = detect_layout(weights)
    if layout == "auto" and detected == "mmseg0":
        raise ReservoirError(
            "the checkpoint has mmseg's names already and needs no conversion: give it to "
            "'reservoir test' as it is (or rewrite it with --layout mmseg0)"
        )
    if layout not in ("auto", detected):
        raise ReservoirError(f"the checkpoint's layout is {detected}: leave out --layout {layout}")
    return detected, convert_nvlabs(weights) if detected == "nvlabs" else Converted(weights, [])


def model_shapes(config: Path) -> dict[str, Shape]:
    """Return the shape of every tensor of a config's model, by name."""
    from mmengine.registry import MODELS, init_default_scope

    from .. import seg  # noqa: F401 (registers everything)

    cfg = read_config(config, {})
    if "model" not in cfg:
        raise ReservoirError(f"{config} has no model: give --config a whole config or a model's")
    init_default_scope("mmseg")
    state = MODELS.build(cfg.model).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def save(path: Path, weights: dict[str, Tensor], meta: dict[str, list]) -> None:
    """Write weights in the format of the file's suffix."""
    from ..io.checkpoints import write_checkpoint
    from ..io.files import write_tensors

    # Copies, because a slice would be saved with the whole tensor.
    weights = {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
    if path.suffix == ".safetensors":
        write_tensors(path, weights, {key: json.dumps(value) for key, value in meta.items()})
    else:
        dataset = {"dataset_meta": meta} if meta else {}
        write_checkpoint(path, {"meta": dataset, "state_dict": weights})


def _run(args: argparse.Namespace) -> None:
    if args.output.suffix not in (".pth", ".safetensors"):
        raise ReservoirError(f"{args.output} must end in .pth or .safetensors")
    if args.output.exists() and not args.overwrite:
        raise ReservoirError(f"{args.output} exists: name another file, or add --overwrite")
    from ..seg.checkpoint import load
    from ..seg.nvlabs.conversion import check_fit, dataset_meta

    checkpoint = load(args.input)
    layout, (weights, dropped) = convert(checkpoint, args.layout)
    config = find_config(args.config or _CONFIGS[layout])
    if not args.no_check:
        check_fit(weights, model_shapes(config))
    save(args.output, weights, dataset_meta(checkpoint))
    if dropped:
        print(f"left out, as no forward pass uses them: {', '.join(dropped)}")
    fit = "not checked" if args.no_check else f"fit {os.path.relpath(config)}"
    print(f"{len(weights)} tensors written to {args.output} ({layout} layout, {fit})")


main = Verb(
    __doc__,
    _run,
    option("input", "the checkpoint: a file or an http(s) address", metavar="IN"),
    option("output", "a .pth or .safetensors file", metavar="OUT", type=Path),
    option(
        "--layout",
        "names of the tensors in IN; mmseg0 rewrites a checkpoint of mmseg 0.x",
        choices=("auto", *_CONFIGS),
        default="auto",
    ),
    option("--config", "check against the model of this config (default: SegFormer-B5)"),
    switch("--no-check", "do not check against a model"),
    shared("--overwrite", help="replace OUT if it exists"),
)
