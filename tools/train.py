"""Train a model by an mmseg config; used for the small networks that this repository ships.

python tools/train.py configs/minicity/segformer-tiny_train.py --export weights.safetensors
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmseg_reservoir.cli.command_line import KeyValue, parse, run_cli
from mmseg_reservoir.config.config_files import import_custom_modules, read_config


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="config file")
    parser.add_argument("--work-dir", help="default: work_dirs/CONFIG")
    parser.add_argument("--export", help="write the weights to this .safetensors file")
    parser.add_argument(
        "--cfg-options", nargs="+", action=KeyValue, default={}, help="key=value ..."
    )
    return parse(parser, argv)


def train(args: argparse.Namespace) -> None:
    """Train, and export the last weights."""
    cfg = read_config(args.config, {})
    cfg.merge_from_dict(args.cfg_options)  # of any key: the runner has more than configs name
    cfg.work_dir = args.work_dir or cfg.get("work_dir") or f"work_dirs/{Path(args.config).stem}"
    import mmseg_reservoir.seg  # noqa: F401 (registers everything, and must come before mmseg)

    import_custom_modules(cfg)
    from mmengine.runner import Runner

    from mmseg_reservoir.io.files import write_tensors

    runner = Runner.from_cfg(cfg)
    runner.train()
    if args.export:
        write_tensors(args.export, runner.model.state_dict(), {})
        runner.logger.info(f"Weights written to {args.export}")


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    return run_cli(lambda: train(parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
