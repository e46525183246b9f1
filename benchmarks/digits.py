"""Methods, reservoirs and their parts on digits under recurring corruptions.

    python benchmarks/digits.py --methods tent eata --variants base published robust
    python benchmarks/digits.py --variants robust robust,guard=None robust,pooling.n0=2000

The data are scikit-learn's digits. The network is the small ConvNet with BatchNorm, with the
options of its table in configs/cls. ``--net vit`` uses the small vision transformer and needs
another ``--out``. The seed is the order of the batches. The variant ``source`` is the unadapted
network and ``base`` the plain method. Any other variant is a preset of the reservoir, with or
without changes. Complete runs with the same options are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import classifiers, paired
from benchmarks.common import ROOT
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.cls.rows import choose_row
from mmseg_reservoir.config.config_files import read_config

TABLES = ROOT / "configs" / "cls"
METHODS = ["tent", "eta", "eata", "sar", "roid", "rotta"]


def config_of(args: argparse.Namespace, cell: paired.Cell, seed: int) -> dict[str, Any]:
    """Return all options of a run."""
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
    """Run the missing runs and summarize all."""
    args = parse_args(argv)
    title = "Digits under recurring corruptions"
    return run_cli(
        lambda: classifiers.run_all(args, title, lambda cell, seed: config_of(args, cell, seed))
    )


if __name__ == "__main__":
    sys.exit(main())
