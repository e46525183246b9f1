"""Methods and reservoirs on real frames of ACDC, with any Cityscapes model of mmseg.

    python benchmarks/real_seg.py --config CONFIG --weights FILE --acdc ACDC --cityscapes CITYSCAPES

CONFIG needs only ``model``, and ``custom_imports`` for parts that are not in mmseg. ACDC has its
usual folders. The clear images in ``leftImg8bit/train`` of CITYSCAPES are the source. Each seed
gives another order of the frames at each visit. The variant ``source`` is the unadapted model at
one visit, which no order changes. ``base`` is the plain method. Any other variant is a preset of
the reservoir, with or without changes (``robust,pooling=None``). Complete runs with the same
options are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from mmengine.config import Config

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import paired
from benchmarks.common import ROOT, read_results, run_test, threads_of
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.config.builder import SEGMENTATION, RunBuilder
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import suggest
from mmseg_reservoir.runs.reader import Results

BASE = ROOT / "configs" / "_base_"
CONDITIONS = ("fog", "night", "rain", "snow")
NOTE = (
    "mIoU in percent, mean over the seeds ± sample deviation. Differences are paired by seed: mean "
    "± standard error. Second passes: share of the frames that the ensemble predicted; the "
    "guard's passes: share of the frames that the source model predicted, too."
)


def config_of(args: argparse.Namespace, cell: paired.Cell, seed: int) -> dict[str, Any]:
    """Return all options of a run: the user's model in the project's protocol."""
    own, runtime = _read(args.config), _read(BASE / "runtime.py")
    imports = [*runtime["custom_imports"]["imports"]]  # first: mmseg needs it where mmcv is lite
    imports += own.get("custom_imports", {}).get("imports", [])
    size = tuple(args.size)
    pipeline = [
        dict(type="LoadImageFromFile"),
        dict(type="Resize", scale=size, keep_ratio=False),
        dict(type="LoadAnnotations"),  # after Resize: labels stay at their size
        dict(type="PackSegInputs"),
    ]
    data = _read(BASE / "datasets" / "acdc_960x540.py")
    frames = dict(data_root=str(args.acdc.resolve()), split=args.split, pipeline=pipeline)
    source = dict(data_root=str(_source_folder(args).resolve()), num_images=args.source_images)
    loop = dict(rounds=args.rounds, domains=list(CONDITIONS), shuffle="visit")
    options = {
        **runtime,
        "custom_imports": dict(imports=list(dict.fromkeys(imports)), allow_failed_imports=False),
        "model": own["model"],
        "load_from": str(args.weights.resolve()),
        "test_dataloader": dict(
            batch_size=1,
            num_workers=0,  # the frames are small, and the cores are for the runs
            sampler=dict(type="DefaultSampler", shuffle=False),
            dataset={**data["test_dataloader"]["dataset"], **frames},
        ),
        "test_evaluator": data["test_evaluator"],
        "source_images": {**data["source_images"], **source},
        "test_cfg": {**_read(BASE / "protocols" / "recurring.py")["test_cfg"], **loop},
        "randomness": dict(seed=seed),
        "log_level": "WARNING",
    }
    if cell.method is None:
        options["test_cfg"]["rounds"] = 1
        return {**options, "method": dict(type="source")}
    method = _read(BASE / "methods" / f"{cell.method}.py")["method"]
    optimizer = {**method.get("optimizer", dict(type="Adam")), "lr": args.lr * cell.rate}
    options |= {"method": {**method, "optimizer": optimizer}, "statistics": args.statistics}
    if cell.variant != "base":
        options["reservoir"] = paired.reservoir_of(cell.variant)
    return options


def text_of(options: dict[str, Any]) -> str:
    """Return the text of a config file, after a check of its options.

    It includes the resolved options, so that a run with other defaults is repeated.
    """
    keys = ("method", "params", "statistics", "reservoir")
    adaptation = {key: options[key] for key in keys if key in options}
    plan = RunBuilder(SEGMENTATION, **adaptation, seed=options["randomness"]["seed"])
    lines = [f"{name} = {value!r}" for name, value in options.items()]
    return "\n".join([*lines, f"# in force: {plan.options}"]) + "\n"


def run(text: str, folder: Path, threads: int) -> Results:
    """Run a config in its own process unless it is complete; return its results."""
    # Beside the folder, in which mmengine writes a config of that name.
    config = folder.with_suffix(".py")
    results = read_results(folder)
    if not results or not config.is_file() or config.read_text("utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").unlink(missing_ok=True)
        config.write_text(text, encoding="utf-8")
        failure = run_test(config, folder, [], threads)
        if failure:
            raise ReservoirError(failure.strip())
        results = read_results(folder)
        assert results is not None
    return results


def check(args: argparse.Namespace) -> None:
    """Check files, folders and names of methods before the first run."""
    for folder in (args.acdc / "rgb_anon", args.acdc / "gt", _source_folder(args)):
        if not folder.is_dir():
            raise ReservoirError(f"there is no folder {folder}: check --acdc and --cityscapes")
    for file in (args.config, args.weights):
        if not file.is_file():
            raise ReservoirError(f"there is no file {file}: check --config and --weights")
    if "model" not in _read(args.config):
        raise ReservoirError(f"{args.config} has no model: name a config of mmseg")
    methods = [path.stem for path in (BASE / "methods").glob("*.py")]
    for method in args.methods:
        if method not in methods:
            raise ReservoirError(f"unknown method {method!r}{suggest(method, methods)}")


def summarize(runs: paired.Runs, path: Path) -> str:
    """Write and return all tables, by time in the stream."""
    domains = (*CONDITIONS, "mean")
    moments = {
        moment: [(domain, paired.at(domain)[moment]) for domain in domains]
        for moment in paired.at("mean")
    }
    parts = {f"mIoU, {moment}": paired.score_table(runs, of) for moment, of in moments.items()}
    for variant in ("source", "base", "published", "stream"):
        for moment, of in moments.items():
            heading = f"Difference to {variant}, {moment}"
            parts[heading] = paired.difference_table(runs, variant, of)
    parts["Routing and guard"] = paired.routing_table(runs)
    return paired.write_summary(path, "Real frames of ACDC", parts, NOTE)


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="an mmseg config with a model")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--acdc", type=Path, required=True, help="holds rgb_anon and gt")
    parser.add_argument("--cityscapes", type=Path, required=True, help="holds leftImg8bit")
    parser.add_argument("--methods", nargs="+", default=["tent", "eata"])
    parser.add_argument("--variants", nargs="+", default=["source", "base", "stream", "robust"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0], help="times --lr")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument(
        "--statistics",
        type=_statistics,
        default=0.03,
        help="of BatchNorm: the weight of the frame, or a name (running, ...); not for the source",
    )
    parser.add_argument("--split", default="val")
    parser.add_argument("--size", nargs=2, type=int, default=[512, 256], help="width and height")
    parser.add_argument("--source-images", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / "real_seg")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the missing runs and summarize all."""
    args = parse_args(argv)

    def benchmark() -> int:
        check(args)
        out, seeds = args.out.resolve(), list(dict.fromkeys(args.seeds))
        threads = threads_of(args.jobs)
        texts = {
            (cell, seed): text_of(config_of(args, cell, seed))
            for cell in paired.cells_of(args.methods, args.rates, args.variants)
            # No order of the frames changes the source.
            for seed in (seeds if cell.method else seeds[:1])
        }
        with ThreadPoolExecutor(args.jobs) as pool:
            jobs = {}
            for (cell, seed), text in texts.items():
                folder = out / cell.name / f"seed{seed}"
                jobs[cell, seed] = pool.submit(run, text, folder, threads)
            runs, failures = paired.collect(jobs)
        print(f"\n{summarize(runs, out / 'summary.md')}")
        return min(failures, 1)

    return run_cli(benchmark)


@cache  # the same few files for every run
def _read(path: Path) -> dict[str, Any]:
    return Config.fromfile(path, import_custom_modules=False).to_dict()


def _source_folder(args: argparse.Namespace) -> Path:
    return args.cityscapes / "leftImg8bit" / "train"


def _statistics(word: str) -> str | float:
    try:
        return float(word)
    except ValueError:
        return word


if __name__ == "__main__":
    sys.exit(main())
