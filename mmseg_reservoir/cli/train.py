"""Train a model by an mmseg config.

The small networks of this repository were trained by it.

reservoir train minicity/segformer-tiny_train.py --export weights.safetensors
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..config.config_files import import_custom_modules, read_config, set_options
from .command_line import Verb
from .options import option


def _run(args: argparse.Namespace) -> None:
    cfg = set_options(read_config(args.config, {}), args.cfg_options)
    cfg.work_dir = args.work_dir or cfg.get("work_dir") or f"work_dirs/{Path(args.config).stem}"
    from .. import seg  # noqa: F401 (registers everything, and must be imported before mmseg)

    import_custom_modules(cfg)
    from mmengine.runner import Runner

    from ..io.files import write_tensors

    runner = Runner.from_cfg(cfg)
    runner.train()
    if args.export:
        write_tensors(args.export, runner.model.state_dict(), {})
        runner.logger.info(f"Weights written to {args.export}")


main = Verb(
    __doc__,
    _run,
    *("config", "--work-dir", "--cfg-options"),
    option("--export FILE", "also write the weights to this .safetensors file"),
)
