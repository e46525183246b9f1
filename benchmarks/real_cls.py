"""CIFAR-10 and a ResNet-20 under ten recurring corruptions: what adapts, and what helps.

    python benchmarks/real_cls.py --cifar FOLDER --weights FILE

FOLDER is CIFAR-10's "binary version", FILE the weights of a ResNet-20 for it. A seed has 2000 test
images of its own, corrupted at severity 5; a visit is four batches of 50 of them, drawn anew. The
variant ``source`` is the network as it comes, ``base`` the plain method, any other one a preset of
the reservoir. Options of methods are those of the project's table for CIFAR-10-C. Runs that are
complete already, with the same options, are not repeated.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import paired
from benchmarks.cifar_parts import corrupted_cifar
from mmseg_reservoir.build import CLASSIFICATION, Plan
from mmseg_reservoir.cls.backbones import build_backbone
from mmseg_reservoir.cls.rows import choose_row
from mmseg_reservoir.cls.run import check_all, run
from mmseg_reservoir.command_line import end_in_one_line, read_config
from mmseg_reservoir.datasets.cifar_c import cifar
from mmseg_reservoir.presets import with_preset
from mmseg_reservoir.report.record import strict_json
from mmseg_reservoir.report.tables import Results

ROOT = Path(__file__).resolve().parents[1]
TABLE = "cls/cifar10c_wrn28.py"
"""What the paper's methods have as options for CIFAR-10."""
CALIBRATION = 200  # source batches
NOTE = (
    "Error in percent, mean over the corruptions: mean over the seeds ± sample deviation. "
    "Differences are paired by seed: mean ± standard error. Second passes: share of the batches "
    "that the ensemble predicted; the guard's passes: share of the batches that the source model "
    "predicted, too."
)


def config_of(args: argparse.Namespace, cell: paired.Cell, seed: int) -> dict[str, Any]:
    """All options of a run."""
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
        config["reservoir"] = dict(preset=cell.variant, calibration=dict(batches=CALIBRATION))
        style = with_preset(cell.variant)["style"]
        if style.get("type") == "vgg":
            folder = str(args.out.resolve() / "styles" / f"seed{seed}")
            config["reservoir"]["style"] = {**style, "type": "remembered_vgg", "folder": folder}
    return config


def run_cell(config: Mapping[str, Any], folder: Path, label: str) -> Results:
    """One run on one core, unless the folder has it already; returns its results."""
    torch.set_num_threads(1)
    file = folder / "results.json"
    if file.is_file():
        results = json.loads(file.read_text(encoding="utf-8"))
        keys = ("method", "params", "statistics", "reservoir")
        adaptation = {key: config[key] for key in keys if key in config}
        # The options in force, too: a preset may have changed meanwhile.
        options = Plan(CLASSIFICATION, **adaptation, seed=config["randomness"]["seed"]).options
        asked = json.loads(strict_json({"config": config, "options": options}))
        if results["complete"] and all(results[key] == asked[key] for key in asked):
            return results
    return run(config, folder, row=label, quiet=True, overwrite=True)


def clean_accuracy(args: argparse.Namespace) -> float:
    """Percent of the clean test images that the network gets right."""
    net = build_backbone(dict(type="cifar_resnet20", checkpoint=str(args.weights)))
    test = cifar(args.cifar, train=False)
    right = 0
    with torch.inference_mode():
        for part in np.array_split(np.arange(len(test)), max(1, len(test) // 500)):
            images, labels = test.batch(part)
            right += int((net(images).argmax(1) == labels).sum())
    return 100 * right / len(test)


def summarise(runs: paired.Runs, path: Path) -> str:
    """All tables."""
    columns = list(paired.at("mean").items())
    parts = {"Error": paired.score_table(runs, columns)}
    for variant in ("source", "base", "published"):
        parts[f"Difference to {variant}"] = paired.difference_table(runs, variant, columns)
    parts["What the reservoirs did"] = paired.routing_table(runs)
    return paired.write_summary(path, "CIFAR-10 under recurring corruptions", parts, NOTE)


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cifar", type=Path, required=True, help="holds test_batch.bin")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["tent", "eata", "roid"])
    parser.add_argument("--variants", nargs="+", default=["base", "published", "robust"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0], help="times 1e-3")
    parser.add_argument("--images", type=int, default=2000, help="test images of a seed")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--check", action="store_true", help="tell the accuracy on clean images")
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / "real_cls")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and summarise all that was asked for."""
    args = parse_args(argv)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that are started

    def benchmark() -> int:
        build_backbone(dict(type="cifar_resnet20", checkpoint=str(args.weights)))
        corrupted_cifar(str(args.cifar), args.images * max(args.seeds), args.images)
        configs = {
            (cell, seed): config_of(args, cell, seed)
            for cell in paired.cells_of(args.methods, args.rates, args.variants)
            for seed in dict.fromkeys(args.seeds)
        }
        for (_, seed), config in configs.items():
            check_all(config, seed)
        if args.check:
            print(f"clean test images: {clean_accuracy(args):.2f} % right", flush=True)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
            jobs = {}
            for (cell, seed), config in configs.items():
                folder = args.out.resolve() / cell.name / f"seed{seed}"
                jobs[cell, seed] = pool.submit(run_cell, config, folder, cell.name)
            runs, failures = paired.collect(jobs)
        print(f"\n{summarise(runs, args.out / 'summary.md')}")
        return min(failures, 1)

    return end_in_one_line(benchmark)


if __name__ == "__main__":
    sys.exit(main())
