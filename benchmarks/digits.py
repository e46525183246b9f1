"""Digits under recurring corruptions: base, reservoirs, and what each part of them is worth.

    python benchmarks/digits.py --methods tent eata --variants base published robust
    python benchmarks/digits.py --variants robust robust,guard=None robust,pooling.n0=2000

Scikit-learn's digits, the small ConvNet with BatchNorm and the options of its table in configs/cls.
``--net vit`` takes the small vision transformer; give it its own ``--out``. A seed is the order of
the batches. The variant ``source`` is the network as it comes, ``base`` the plain method, any other
one a preset of the reservoir, with or without changes. Runs that are complete already, with the
same options, are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import classifiers, paired
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.cls.rows import choose_row
from mmseg_reservoir.config.config_files import read_config

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "configs" / "cls"
METHODS = ["tent", "eta", "eata", "sar", "roid", "rotta"]


def config_of(args: argparse.Namespace, cell: paired.Cell, seed: int) -> dict[str, Any]:
    """All options of a run."""
    changes = {"stream.rounds": args.rounds, "randomness.seed": seed, "device": "cpu"}
    with_reservoir = cell.variant not in ("source", "base")
    table = read_config(TABLES / f"digits_{args.net}.py", changes).to_dict()
    config = choose_row(table, cell.method or "source", with_reservoir)
    config["method"]["optimizer"]["lr"] *= cell.rate or 1
    if with_reservoir:
        styles = args.out / "styles" / f"seed{seed}"
        config["reservoir"] = classifiers.reservoir_of(cell.variant, styles, config["reservoir"])
    return config


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--net", choices=["convnet", "vit"], default="convnet")
    classifiers.add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / "digits")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and summarise all that was asked for."""
    args = parse_args(argv)
    title = "Digits under recurring corruptions"
    return run_cli(
        lambda: classifiers.run_all(args, title, lambda cell, seed: config_of(args, cell, seed))
    )


if __name__ == "__main__":
    sys.exit(main())
