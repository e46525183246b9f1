"""Run configs with several seeds, and summarize the runs.

Every run has its own process.

reservoir sweep configs/minicity/segformer-tiny_*.py --seeds 0 1 2
reservoir sweep configs/cls/digits_convnet.py --method tent eata --with-reservoir
reservoir sweep configs/acdc/*.py --seeds 0 1 2 --ray auto

The same command again runs what is missing: complete runs are not repeated, others resume.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from ..errors import ReservoirError
from ..fleet.ray_session import ray_session
from ..fleet.sweep_runs import make_runs
from .command_line import Verb
from .options import at_least, check_seed, option, shared
from .summarize import show_summary


def _run(args: argparse.Namespace) -> int:
    for seed in args.seeds:
        check_seed(seed)
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
        from ..fleet.sweep import run_sweep

        with ray_session(args.ray, args.jobs) as ray:
            failures = run_sweep(ray, runs, args.retries, args.cpus, partial(print, flush=True))
    for name, lines in failures.items():
        print(f"\n{name} failed; its last lines:\n{lines}", file=sys.stderr)
    complete = [run.work_dir for run in runs if run.is_complete()]
    show_summary(complete, args.out / "summary.md", args.out / "summary.json")
    print(f"The summary is in {args.out / 'summary.md'} and .json")
    return 1 if failures else 0


main = Verb(
    __doc__,
    _run,
    option("configs", "config files, or names of bundled ones", nargs="+"),
    option("--seeds N", "run with these seeds", nargs="+", type=int, default=[0]),
    shared("--out", default=Path("work_dirs/sweep")),
    option("--method", "run these rows of the classifiers' tables", nargs="+", default=[]),
    option(
        "--with-reservoir PRESET",
        "add a reservoir to every method: that of the config, or of this preset",
        nargs="?",
        const="",
    ),
    shared("--cfg-options", action="store", default=[]),
    option("--retries N", "run a failed run again up to N times", type=at_least(0), default=1),
    option("--cpus N", "reserve N cores for each run", type=at_least(1), default=1),
    *("--ray", "--jobs"),
)
