"""Convert NVlabs' SegFormer checkpoint for the models of this project.

python tools/convert_checkpoint.py segformer.b5.1024x1024.city.160k.pth segformer_b5_nvlabs.pth
python tools/convert_checkpoint.py IN.pth OUT.safetensors --config CONFIG

mmseg's own SegFormer checkpoints need no conversion. With --layout mmseg0 one of mmseg 0.x can
still be checked and rewritten: without the optimizer, and with the class names where MMEngine
looks for them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.errors import ReservoirError

if TYPE_CHECKING:
    from torch import Tensor

    from mmseg_reservoir.seg.nvlabs.conversion import Converted, Shape

_MODELS = Path(__file__).resolve().parents[1] / "configs/_base_/models"
_CONFIGS = {
    "nvlabs": _MODELS / "segformer_mit-b5_nvlabs.py",
    "mmseg0": _MODELS / "segformer_mit-b5.py",
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", metavar="IN", help="the checkpoint: a file or an http(s) address")
    parser.add_argument("output", metavar="OUT", type=Path, help="a .pth or .safetensors file")
    parser.add_argument(
        "--layout",
        choices=("auto", *_CONFIGS),
        default="auto",
        help="names of the tensors in IN; mmseg0 rewrites a checkpoint of mmseg 0.x",
    )
    parser.add_argument("--config", type=Path, help="model to check against (default: B5)")
    parser.add_argument("--no-check", action="store_true", help="do not check against the model")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it is there")
    return parser.parse_args(argv)


def convert(checkpoint: dict[str, Any], layout: str = "auto") -> tuple[str, Converted]:
    """The layout of a loaded checkpoint, and its weights under our names."""
    from mmseg_reservoir.seg.nvlabs.conversion import (
        Converted,
        convert_nvlabs,
        detect_layout,
        weights_of,
    )

    weights = weights_of(checkpoint)
    found = detect_layout(weights)
    if layout == "auto" and found == "mmseg0":
        raise ReservoirError(
            "the checkpoint has mmseg's names already and needs no conversion: give it to "
            "tools/test_tta.py as it is (or rewrite it with --layout mmseg0)"
        )
    if layout not in ("auto", found):
        raise ReservoirError(f"the checkpoint's layout is {found}: leave out --layout {layout}")
    return found, convert_nvlabs(weights) if found == "nvlabs" else Converted(weights, [])


def model_shapes(config: Path) -> dict[str, Shape]:
    """Name and shape of every tensor of a config's model."""
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope

    import mmseg_reservoir.seg  # noqa: F401 (registers everything)

    if not config.is_file():
        raise ReservoirError(f"no config file {config}")
    cfg = Config.fromfile(config)
    if "model" not in cfg:
        raise ReservoirError(f"{config} has no model: give --config a whole config or a model's")
    init_default_scope("mmseg")
    state = MODELS.build(cfg.model).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def save(path: Path, weights: dict[str, Tensor], about: dict[str, list]) -> None:
    """Write weights in the format of the file's suffix; a file cut short never has its name."""
    from mmseg_reservoir.io.checkpoints import write_checkpoint
    from mmseg_reservoir.io.files import write_tensors

    # Copies, because a slice of a larger tensor would be saved with all of it.
    weights = {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
    if path.suffix == ".safetensors":
        write_tensors(path, weights, {key: json.dumps(value) for key, value in about.items()})
    else:
        meta = {"dataset_meta": about} if about else {}
        write_checkpoint(path, {"meta": meta, "state_dict": weights})


def run(args: argparse.Namespace) -> None:
    """Convert a file."""
    if args.output.suffix not in (".pth", ".safetensors"):
        raise ReservoirError(f"{args.output} must end in .pth or .safetensors")
    if args.output.exists() and not args.overwrite:
        raise ReservoirError(f"{args.output} is there already: name another file, or --overwrite")
    from mmseg_reservoir.seg.checkpoint import load
    from mmseg_reservoir.seg.nvlabs.conversion import check_fit, dataset_meta

    checkpoint = load(args.input)
    layout, (weights, dropped) = convert(checkpoint, args.layout)
    config = args.config or _CONFIGS[layout]
    if not args.no_check:
        check_fit(weights, model_shapes(config))
    save(args.output, weights, dataset_meta(checkpoint))
    if dropped:
        print(f"left out, as no forward pass uses them: {', '.join(dropped)}")
    fit = "not checked" if args.no_check else f"fit {os.path.relpath(config)}"
    print(f"{len(weights)} tensors written to {args.output} ({layout} layout, {fit})")


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    args = parse_args(argv)
    return run_cli(lambda: run(args))


if __name__ == "__main__":
    sys.exit(main())
