"""Compare classification methods with and without the reservoir.

The stream is scikit-learn's digits under recurring corruptions, the networks are a small one with
BatchNorm and a small vision transformer. The demonstration needs no downloads and no GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ..io.files import shipped, write_text
from .command_line import Verb
from .options import option, shared

CONFIGS = shipped("configs/cls")
CONVNET = {
    "Source": "source",
    "BatchNorm statistics": "norm",
    "align": "align",
    "TENT": "tent",
    "CoTTA*": "cotta",
    "RoTTA": "rotta",
    "ETA": "eta",
    "ETA + CoLA": "cola",
    "SAR": "sar",
    "RDumb": "rdumb",
    "PeTTA": "petta",
    "EATA": "eata",
    "ROID*": "roid",
}
VIT = {
    "Source": "source",
    "align": "align",
    "TENT": "tent",
    "EATA": "eata",
    "DPCore": "dpcore",
    "VPT": "vpt",
}
PLUG_INS = ("tent", "rotta", "eta", "sar", "eata", "roid", "vpt")
"""Methods that the paper also combines with the reservoir."""
NETS = {"ConvNet": ("digits_convnet", CONVNET), "ViT": ("digits_vit", VIT)}


class Run(NamedTuple):
    """A row of a config that is a table, with or without a preset of the reservoir."""

    table: str
    method: str
    preset: str | None


def chosen_runs(only: list[str] | None = None) -> dict[str, Run]:
    """Return the runs of all methods, or ``only`` of some, by name, in the order of the table."""
    from ..registry import choose
    from ..report.charts import PRESET_SUFFIXES

    methods = {method: method for _, methods in NETS.values() for method in methods.values()}
    for method in only or []:
        choose(method, methods, "method for --only")
    runs = {}
    for net, (table, methods) in NETS.items():
        for name, method in methods.items():
            if only and method not in only:
                continue
            # Without a reservoir, align is the source model.
            preset = "robust" if method == "align" else None
            runs[f"{net}: {name}"] = Run(table, method, preset)
            if method in PLUG_INS:
                for ending, plug_in in PRESET_SUFFIXES.items():
                    runs[f"{net}: {name}{ending}"] = Run(table, method, plug_in)
    return runs


def run_row(row: Run, out: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Run one row on one core, so that other processes do not affect the results."""
    import torch

    from ..cls.rows import choose_row, row_label
    from ..cls.run import run as run_stream
    from ..config.config_files import read_config

    torch.set_num_threads(1)
    path = CONFIGS / f"{row.table}.py"
    changes = {"stream.rounds": rounds, "randomness.seed": seed, "device": "cpu"}
    # Rows do not have these options, so they can be set before the row is chosen.
    options = choose_row(read_config(path, changes).to_dict(), row.method, row.preset or False)
    label = row_label(row.method, options)
    folder = out / f"{row.table}_{label}"
    written = {"config_file": str(path), "row": label}
    return run_stream(options, folder, **written, quiet=True, overwrite=True)


def clean_errors() -> dict[str, float]:
    """Return the error of each network on clean images, in percent."""
    from ..cls.backbones.trained import trained_net
    from ..datasets.digits import digits
    from .train_digits import error

    clean = digits(train=False)
    return {
        net: error(trained_net(prefix, pretrained=True), clean) for net, (prefix, _) in NETS.items()
    }


def run_all(
    rows: Mapping[str, Run], out: Path, rounds: int, seed: int, workers: int
) -> dict[str, dict[str, Any]]:
    """Run all rows, several at once, and return their results by name."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = {name: pool.submit(run_row, row, out, rounds, seed) for name, row in rows.items()}
        results = {}
        try:
            for name, future in waiting.items():
                results[name] = future.result()
                print(f"{name}: {results[name]['cpu_seconds']:.0f} s", flush=True)
        except BaseException:  # a signal, too; otherwise the pool finishes all runs first
            pool.shutdown(wait=False, cancel_futures=True)
            running = multiprocessing.active_children()
            for process in running:
                process.terminate()
            for process in running:
                process.join()
            raise
    return results


def _run(args: argparse.Namespace) -> None:
    # Threads of several processes on the same cores only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from ..report.charts import plot_errors
    from ..report.tables import error_table
    from ..style.vgg import SHIPPED

    start = time.monotonic()
    rows = chosen_runs(args.only)
    for net, wrong in clean_errors().items():
        print(f"{net}: {wrong:.1f} % error on clean images")
    print(f"Style: by the shipped front of an ImageNet-trained VGG-19, {SHIPPED}")
    out = args.out.resolve()
    print(f"{len(rows)} runs of {args.rounds} visits of six corruptions ...", flush=True)
    runs = run_all(rows, out, args.rounds, args.seed, args.workers)
    table = error_table(runs)
    write_text(out / "table.txt", f"{table}\n")
    plot_errors(runs, out / "errors.png")
    print(f"\n{table}\n\nplot: {out / 'errors.png'}")
    print(f"{time.monotonic() - start:.0f} s in all")


main = Verb(
    __doc__,
    _run,
    shared("--rounds", default=20),
    shared("--seed", default=0),
    option("--only METHOD", "run only these, such as: --only tent eata", nargs="+"),
    shared("--workers", default=min(2, os.cpu_count() or 1)),
    shared("--out", default=Path("work_dirs/demo_cls")),
)
