"""Trains the two small networks of the digits: those in checkpoints/ were made by this.

python tools/train_digits.py --out work_dirs/digits

On another processor sums are rounded differently, and the weights become others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmseg_reservoir.cli.command_line import run_cli


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("work_dirs/digits"), help="their folder")
    args = parser.parse_args(argv)

    def train() -> None:
        import torch

        from mmseg_reservoir.cls.backbones.trained import NETS, error, train_net, write_net
        from mmseg_reservoir.datasets.digits import digits

        torch.set_num_threads(1)  # the result shall not depend on the number of cores
        clean = digits(train=False)
        for name in NETS:
            net = train_net(name)
            path = write_net(net, name, args.out)
            wrong = error(net, clean)
            print(f"{name}: {wrong:.1f} % error on clean test digits, {path}", flush=True)

    return run_cli(train)


if __name__ == "__main__":
    sys.exit(main())
