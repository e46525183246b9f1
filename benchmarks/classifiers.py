"""What the benchmarks of classifiers share: run the missing cells of a table, summarize all."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks import (
    classifier_parts,  # noqa: F401 (registers its parts in the processes of runs, too)
    paired,
)
from mmseg_reservoir.cls.run import check_all, run
from mmseg_reservoir.config.builder import CLASSIFICATION, RunBuilder
from mmseg_reservoir.config.presets import with_preset
from mmseg_reservoir.runs.reader import Results
from mmseg_reservoir.runs.record import strict_json

NOTE = (
    "Error in percent, mean over the corruptions: mean over the seeds ± sample deviation. "
    "Differences are paired by seed: mean ± standard error. Second passes: share of the batches "
    "that the ensemble predicted; the guard's passes: share of the batches that the source model "
    "predicted as well."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the cells."""
    parser.add_argument("--variants", nargs="+", default=["base", "published", "robust"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--rates", nargs="+", type=float, default=[1.0], help="factors of the learning rate"
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")


def reservoir_of(
    variant: str, styles: Path, written: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the options of a variant's reservoir, which stores its styles in a folder."""
    reservoir = paired.reservoir_of(variant, written)
    style = with_preset(reservoir)["style"]
    if style.get("type") == "vgg":
        reservoir["style"] = {**style, "type": "remembered_vgg", "folder": str(styles.resolve())}
    return reservoir


def run_cell(config: Mapping[str, Any], folder: Path, label: str) -> Results:
    """Run a config on one core unless the folder has it; return its results."""
    torch.set_num_threads(1)
    file = folder / "results.json"
    if file.is_file():
        results = json.loads(file.read_text(encoding="utf-8"))
        keys = ("method", "params", "statistics", "reservoir")
        adaptation = {key: config[key] for key in keys if key in config}
        # Compare resolved options, too: a preset may have changed.
        options = RunBuilder(
            CLASSIFICATION, **adaptation, seed=config["randomness"]["seed"]
        ).options
        wanted = json.loads(strict_json({"config": config, "options": options}))
        if results["complete"] and all(results[key] == wanted[key] for key in wanted):
            return results
    return run(config, folder, row=label, quiet=True, overwrite=True)


def run_all(
    args: argparse.Namespace, title: str, config_of: Callable[[paired.Cell, int], dict[str, Any]]
) -> int:
    """Run the missing runs and summarize all; return 1 if a run failed, else 0."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that are started
    configs = {
        (cell, seed): config_of(cell, seed)
        for cell in paired.cells_of(args.methods, args.rates, args.variants)
        for seed in dict.fromkeys(args.seeds)
    }
    for (_, seed), config in configs.items():
        check_all(config, seed)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        jobs = {}
        for (cell, seed), config in configs.items():
            folder = args.out.resolve() / cell.name / f"seed{seed}"
            jobs[cell, seed] = pool.submit(run_cell, config, folder, cell.name)
        runs, failures = paired.collect(jobs)
    print(f"\n{summarize(runs, title, args.out / 'summary.md')}")
    paired.draw(runs, args.out / "curves.png")
    return min(failures, 1)


def summarize(runs: paired.Runs, title: str, path: Path) -> str:
    """Write and return all tables."""
    columns = list(paired.at("mean").items())
    parts = {"Error": paired.score_table(runs, columns)}
    for variant in ("source", "base", "published"):
        parts[f"Difference to {variant}"] = paired.difference_table(runs, variant, columns)
    parts["Routing and guard"] = paired.routing_table(runs)
    return paired.write_summary(path, title, parts, NOTE)
