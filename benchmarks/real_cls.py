"""Methods and reservoirs on CIFAR-10 with a ResNet-20 under ten recurring corruptions.

    python benchmarks/real_cls.py --cifar FOLDER --weights FILE

FOLDER is CIFAR-10's "binary version", FILE the weights of a ResNet-20 for it. Each seed has 2000
other test images, corrupted at severity 5. A visit draws four batches of 50 of them. The variant
``source`` is the unadapted network and ``base`` the plain method. Any other variant is a preset of
the reservoir, with or without changes (``robust,pooling=None``). Methods have the options of the
project's table for CIFAR-10-C. Complete runs with the same options are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import classifiers, paired
from benchmarks.classifier_parts import corrupted_cifar
from benchmarks.common import ROOT
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.cls.backbones import build_backbone
from mmseg_reservoir.cls.rows import choose_row
from mmseg_reservoir.config.config_files import read_config
from mmseg_reservoir.datasets.cifar_c import cifar

TABLE = "cls/cifar10c_wrn28.py"
"""Options of the paper's methods for CIFAR-10."""
CALIBRATION = 200  # source batches


def config_of(args: argparse.Namespace, cell: paired.Cell, seed: int) -> dict[str, Any]:
    """Return all options of a run."""
    row = choose_row(read_config(TABLE, {}).to_dict(), cell.method or "source")
    optimizer = row["method"]["optimizer"]
    optimizer["lr"] *= cell.rate or 1
    root = str(args.cifar.resolve())
    part = dict(first=args.images * seed, count=args.images)
    config = {
        "method": row["method"],
        "data": dict(type="cifar10_corrupted", root=root, **part),
        "model": dict(type="cifar_resnet20", checkpoint=str(args.weights.resolve())),
        "stream": dict(type="csc_samples", rounds=args.rounds, batch_size=50),
        "source_images": dict(type="cifar10", root=root, num_images=2000),
        "randomness": dict(seed=seed),
        "device": "cpu",
    }
    config |= {key: row[key] for key in ("params", "statistics") if row.get(key) is not None}
    if cell.variant not in ("source", "base"):
        styles = args.out / "styles" / f"seed{seed}"
        config["reservoir"] = classifiers.reservoir_of(cell.variant, styles)
        config["reservoir"].setdefault("calibration", {}).setdefault("batches", CALIBRATION)
    return config


def clean_accuracy(args: argparse.Namespace) -> float:
    """Return the accuracy on the clean test images in percent."""
    net = build_backbone(dict(type="cifar_resnet20", checkpoint=str(args.weights)))
    test = cifar(args.cifar, train=False)
    right = 0
    with torch.inference_mode():
        for part in np.array_split(np.arange(len(test)), max(1, len(test) // 500)):
            images, labels = test.batch(part)
            right += int((net(images).argmax(1) == labels).sum())
    return 100 * right / len(test)


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cifar", type=Path, required=True, help="holds test_batch.bin")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["tent", "eata", "roid"])
    classifiers.add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--images", type=int, default=2000, help="test images of a seed")
    parser.add_argument("--check", action="store_true", help="print the accuracy on clean images")
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / "real_cls")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the missing runs and summarize all."""
    args = parse_args(argv)

    def benchmark() -> int:
        build_backbone(dict(type="cifar_resnet20", checkpoint=str(args.weights)))
        corrupted_cifar(str(args.cifar), args.images * max(args.seeds), args.images)
        if args.check:
            print(f"clean test images: {clean_accuracy(args):.2f} % right", flush=True)
        title = "CIFAR-10 under recurring corruptions"
        return classifiers.run_all(args, title, lambda cell, seed: config_of(args, cell, seed))

    return run_cli(benchmark)


if __name__ == "__main__":
    sys.exit(main())
