"""Train a model by an mmseg config; used for the small networks that this repository ships.

python tools/train.py configs/minicity/segformer-tiny_train.py --export weights.safetensors
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmengine.config import Config, DictAction
from mmengine.runner import Runner

import mmseg_reservoir.seg  # noqa: F401 (registers everything, and must come before mmseg)
from mmseg_reservoir.command_line import find_config
from mmseg_reservoir.files import write_tensors


def main(argv: list[str] | None = None) -> None:
    """Train, and export the last weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="config file")
    parser.add_argument("--work-dir", help="default: work_dirs/CONFIG")
    parser.add_argument("--export", help="write the weights to this .safetensors file")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, default={}, help="key=value ..."
    )
    args = parser.parse_args(argv)
    cfg = Config.fromfile(find_config(args.config))
    cfg.merge_from_dict(args.cfg_options)
    cfg.work_dir = args.work_dir or cfg.get("work_dir") or f"work_dirs/{Path(args.config).stem}"
    runner = Runner.from_cfg(cfg)
    runner.train()
    if args.export:
        write_tensors(args.export, runner.model.state_dict(), {})
        runner.logger.info(f"Weights written to {args.export}")


if __name__ == "__main__":
    main()
