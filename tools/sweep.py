"""Run configs with several seeds, one process each, and summarise them.

python tools/sweep.py configs/minicity/segformer-tiny_*.py --seeds 0 1 2
python tools/sweep.py configs/cls/digits_convnet.py --method tent eata --with-reservoir
python tools/sweep.py configs/acdc/*.py --seeds 0 1 2 --ray auto

The same command again runs what is missing: runs that are complete are not repeated, others go on.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from mmseg_reservoir.cli.command_line import check_seed, run_cli
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.fleet.ray_session import ray_session
from mmseg_reservoir.fleet.sweep_runs import SweepRun, make_runs
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.report.summary import (
    NOTE,
    summarize,
    summary_markdown,
    summary_table,
    to_json,
)
from mmseg_reservoir.runs.reader import read_runs
from mmseg_reservoir.runs.record import strict_json


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", help="files, or names of shipped ones")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("work_dirs/sweep"))
    parser.add_argument("--method", nargs="+", default=[], help="rows of classifiers' tables")
    parser.add_argument("--with-reservoir", nargs="?", const="", metavar="PRESET")
    parser.add_argument("--cfg-options", nargs="+", default=[], help="key=value ..., of all runs")
    parser.add_argument("--retries", type=int, default=1, help="of a run that failed")
    parser.add_argument("--cpus", type=int, default=1, help="cores for each run")
    parser.add_argument("--jobs", type=int, help="cores of this machine to use (default: all)")
    parser.add_argument("--ray", metavar="ADDRESS", help="a cluster (default: this machine)")
    return parser.parse_args(argv)


def sweep(args: argparse.Namespace) -> int:
    """Run what is missing and summarise all; returns how many runs failed."""
    for seed in args.seeds:
        check_seed(seed)
    if args.retries < 0 or args.cpus < 1:
        raise ReservoirError(
            f"--retries is 0 or more, --cpus 1 or more, got {args.retries}, {args.cpus}"
        )
    words: list[str] = []
    if args.with_reservoir is not None:
        if not args.method:
            raise ReservoirError("--with-reservoir is for rows of a table: give --method, too")
        words.append(f"--with-reservoir={args.with_reservoir}".removesuffix("="))
    if args.cfg_options:
        words += ["--cfg-options", *args.cfg_options]
    seeds = list(dict.fromkeys(args.seeds))
    runs = make_runs(args.configs, seeds, args.out, args.method, words)
    failures: dict[str, str] = {}
    if not all(run.is_complete() for run in runs):
        from mmseg_reservoir.fleet.sweep import run_sweep

        with ray_session(args.ray, args.jobs) as ray:
            failures = run_sweep(ray, runs, args.retries, args.cpus, partial(print, flush=True))
    for name, said in failures.items():
        print(f"\n{name} failed; its last lines:\n{said}", file=sys.stderr)
    _summarise([run for run in runs if run.is_complete()], args.out)
    return len(failures)


def _summarise(runs: list[SweepRun], out: Path) -> None:
    if not runs:
        raise ReservoirError("none of the runs is complete: there is nothing to summarise")
    groups, warnings = summarize(read_runs([run.work_dir for run in runs]))
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{summary_table(groups)}\n{NOTE}")
    write_text(out / "summary.md", summary_markdown(groups, warnings))
    write_text(out / "summary.json", strict_json(to_json(groups, warnings)))
    print(f"The summary is in {out / 'summary.md'} and .json")


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2, failed runs in 1."""
    return run_cli(lambda: min(sweep(parse_args(argv)), 1))


if __name__ == "__main__":
    sys.exit(main())
