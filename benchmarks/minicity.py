"""The whole segmentation table on MiniCity, over several draws of its frames.

    python benchmarks/minicity.py --rounds 10 --seeds 1 2 3 --jobs 2

A seed is a MiniCity of its own (other scenes, other weather) and the seed of the run, with 16
frames per condition. Seed 0 is the data of the demo, on which settings were tried: it is left out.
A row is a config, with or without changes: ``segformer-tiny_align,reservoir.alignment.reach=0.25``.
Runs that are complete already are not repeated, so the command can be interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity import make_counts, write_dataset
from mmseg_reservoir.report.charts import plot_curves
from mmseg_reservoir.report.published import load_rows
from mmseg_reservoir.report.summary import Group, summarize, summary_markdown, summary_table
from mmseg_reservoir.runs.reader import read_runs

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs" / "minicity"
ANALYSIS = ("tent_reservoir_paper", "tent_oracle", "cotta_reservoir_paper", "cotta_oracle", "lora")
COUNTS = make_counts(400, 1, 16, 1)
"""Clear frames to calibrate on, frames per condition to adapt to, and next to no validation."""


def table_rows() -> list[str]:
    """The configs of the table, in its order, then those that explain it."""
    rows = [Path(row.config).stem for row in load_rows(CONFIGS / "metafile.yaml")]
    return rows + [f"segformer-tiny_{name}" for name in ANALYSIS]


def run(
    row: str,
    seed: int,
    folder: Path,
    rounds: int,
    threads: int,
    name: str | None = None,
    options: Sequence[str] = (),
) -> str | None:
    """Run a row in its own process; return the tail of its log if it failed.

    Its folder has the name of the row, if no other name is given.
    """
    config, *changes = row.split(",")
    name = name or row
    work_dir = folder / f"seed{seed}" / name
    results = work_dir / "results.json"
    if results.is_file() and json.loads(results.read_text())["complete"]:
        return None
    work_dir.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        str(ROOT / "tools" / "test_tta.py"),
        str(CONFIGS / f"{config}.py"),
        f"--work-dir={work_dir}",
        f"--seed={seed}",
        "--overwrite",  # what is not complete
        "--cfg-options",
        f"test_cfg.rounds={rounds}",
        "log_level=WARNING",
        *changes,
        *options,
    ]
    with (work_dir / "log.txt").open("w") as log:
        # The data of a seed lies in its folder as data/minicity, where the configs look for it.
        done = subprocess.run(
            command,
            cwd=folder / f"seed{seed}",
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    print(f"seed {seed} {name}: {'failed' if done.returncode else 'done'}", flush=True)
    return (work_dir / "log.txt").read_text()[-1500:] if done.returncode else None


def _plot(groups: Sequence[Group], path: Path) -> None:
    """What routing is worth: the plain base, the paper's routing, ours, and an oracle's."""
    found = {group.name: group for group in groups}
    panels = {}
    for base in ("tent", "cotta"):
        names = {"Source": "source", "plain": base, "preset paper": f"{base}_reservoir_paper"}
        names |= {"preset stream": f"{base}_reservoir", "oracle": f"{base}_oracle"}
        full = {label: f"segformer-tiny_{name}" for label, name in names.items()}
        present = {k: found[name].scores["mean"] for k, name in full.items() if name in found}
        if len(present) > 1:
            panels[{"tent": "TENT", "cotta": "CoTTA*"}[base]] = present
    if panels:
        plot_curves(panels, path, "mIoU")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and summarise all there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=table_rows(), help="configs, and changes")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / "minicity")
    args = parser.parse_args(argv)
    out = args.out.resolve()
    for seed in args.seeds:
        write_dataset(out / f"seed{seed}" / "data" / "minicity", seed, COUNTS)
    threads = max(1, (os.cpu_count() or 1) // args.jobs)
    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = [
            pool.submit(run, row, seed, out, args.rounds, threads)
            for row in args.rows
            for seed in args.seeds
        ]
        failures = [job.result() for job in jobs]
    for failure in filter(None, failures):
        print(failure, file=sys.stderr)
    try:
        groups, warnings = summarize(read_runs([str(out)]))
    except ReservoirError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    order = {name: position for position, name in enumerate(table_rows())}
    groups = sorted(groups, key=lambda group: order.get(group.name, len(order)))
    print(summary_table(groups))
    _plot(groups, out / "curves.png")
    (out / "summary.md").write_text(summary_markdown(groups, warnings), encoding="utf-8")
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(main())
