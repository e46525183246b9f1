"""The table of segmentation on MiniCity, over several draws of its frames.

    python benchmarks/minicity.py --rounds 10 --seeds 1 2 3 --jobs 2

Each seed has its own MiniCity (other scenes, other weather), with 16 frames per condition. It is
also the seed of the run. Seed 0 is the data of the demo, on which settings were tried, so it is
left out. A row is a config, with or without changes, such as
``segformer-tiny_align,reservoir.alignment.reach=0.25``. Complete runs are not repeated, so the
command can be interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.common import ROOT, add_run_arguments, read_results, run_test, threads_of
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity import make_counts, write_dataset
from mmseg_reservoir.report.charts import plot_curves
from mmseg_reservoir.report.published import load_rows
from mmseg_reservoir.report.summary import Group, summarize, summary_markdown, summary_table
from mmseg_reservoir.runs.reader import read_runs

CONFIGS = ROOT / "configs" / "minicity"
ANALYSIS = ("tent_reservoir_paper", "tent_oracle", "cotta_reservoir_paper", "cotta_oracle", "lora")
COUNTS = make_counts(400, 1, 16, 1)
"""Clear frames for the calibration, frames per condition for the adaptation, few for validation."""


def table_rows() -> list[str]:
    """Return the configs of the table in its order, then those of the analysis."""
    rows = [Path(row.config).stem for row in load_rows(CONFIGS / "metafile.yaml")]
    return rows + [f"segformer-tiny_{name}" for name in ANALYSIS]


def write_draws(folder: Path, seeds: Sequence[int]) -> None:
    """Write the MiniCity of each seed."""
    for seed in seeds:
        write_dataset(folder / f"seed{seed}" / "data" / "minicity", seed, COUNTS)


def run(
    row: str,
    seed: int,
    folder: Path,
    rounds: int,
    threads: int,
    name: str | None = None,
    options: Sequence[str] = (),
) -> str | None:
    """Run a row unless it is complete; return the end of its log if it fails.

    Args:
        row: Config without folder and suffix, with changes after commas.
        seed: Seed of the data and of the run.
        folder: Folder of all runs. Data of a seed is in its ``data/minicity``, as configs expect.
        rounds: Rounds of the stream.
        threads: Threads of the run.
        name: Folder of the run below that of its seed. Defaults to ``row``.
        options: More changes of the config.
    """
    config, *changes = row.split(",")
    name = name or row
    draw = folder / f"seed{seed}"
    if read_results(draw / name):
        return None
    arguments = [f"--seed={seed}", "--cfg-options", f"test_cfg.rounds={rounds}"]
    arguments += ["log_level=WARNING", *changes, *options]
    failure = run_test(CONFIGS / f"{config}.py", draw / name, arguments, threads, draw)
    print(f"seed {seed} {name}: {'failed' if failure else 'done'}", flush=True)
    return failure


def _plot(groups: Sequence[Group], path: Path) -> None:
    """Draw the plain base, and it with the paper's routing, ours and an oracle's."""
    by_name = {group.name: group.scores["mean"] for group in groups}
    panels = {}
    for base in ("tent", "cotta"):
        names = {"Source": "source", "plain": base, "preset paper": f"{base}_reservoir_paper"}
        names |= {"preset stream": f"{base}_reservoir", "oracle": f"{base}_oracle"}
        full = {label: f"segformer-tiny_{name}" for label, name in names.items()}
        present = {label: by_name[name] for label, name in full.items() if name in by_name}
        if len(present) > 1:
            panels[{"tent": "TENT", "cotta": "CoTTA*"}[base]] = present
    if panels:
        plot_curves(panels, path, "mIoU")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the missing runs and summarize all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=table_rows(), help="configs, with changes")
    add_run_arguments(parser, "minicity")
    args = parser.parse_args(argv)
    out, threads = args.out.resolve(), threads_of(args.jobs)
    write_draws(out, args.seeds)
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
