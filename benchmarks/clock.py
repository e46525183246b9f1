"""mIoU against frame rate on MiniCity: methods that must keep pace with a camera.

    python benchmarks/clock.py --rates 5 10 20 --seeds 1 2 3 --jobs 2

The stages of a step are timed once per row, on one thread, one row after the other. They are stored
in OUT/costs.json, which a second run reads: the same costs give the same table. Each seed has its
own MiniCity (see benchmarks/minicity.py). Complete runs are not repeated, so the command can be
interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.common import add_run_arguments, read_results, threads_of
from benchmarks.minicity import run, write_draws
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.report.summary import Statistic
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.runs.record import strict_json

BASES = {"tent": "TENT", "eata": "EATA", "cotta": "CoTTA*", "becotta": "BECoTTA"}
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "": ("", ()),
    "_robust": ("_robust", ()),
    "_trigger": ("_robust", ("reservoir.trigger.type=settled",)),
}
"""By suffix of a row's name: suffix of its config's name, and its options."""
ALONE = ("source", "align")
ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (f"segformer-tiny_{name}", ()) for name in ALONE},
    **{
        base + kind: (f"segformer-tiny_{base}{config}", options)
        for base in BASES
        for kind, (config, options) in KINDS.items()
    },
}
"""By name: the config and the options of a row."""
Costs = dict[str, float]


def measured_costs(rows: Sequence[str], seed: int, out: Path) -> dict[str, Costs]:
    """Return the seconds by stage of every row; measure those that the file does not have."""
    file = out / "costs.json"
    costs: dict[str, Costs] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    for row in rows:
        if row in costs:
            continue
        # At this rate all frames but the first are dropped. The first one measures the costs.
        options = ["test_cfg.frame_rate=1e9", "test_cfg.missed=drop", "test_cfg.domains=[fog]"]
        name = f"costs/{row}"
        config, more = ROWS[row]
        failure = run(config, seed, out, 1, 1, name, [*options, *more])
        if failure:
            raise ReservoirError(f"the costs of {row} cannot be measured:\n{failure}")
        costs[row] = read_results(out / f"seed{seed}" / name)["clock"]["step_seconds"]
        write_text(file, strict_json(costs))
    return costs


def options_of(rate: float, missed: str, costs: Costs) -> list[str]:
    """Return the options of a run by the clock."""
    seconds = [f"test_cfg.step_seconds.{stage}={cost}" for stage, cost in costs.items()]
    return [f"test_cfg.frame_rate={rate}", f"test_cfg.missed={missed}", *seconds]


def name_of(row: str, rate: float, missed: str) -> str:
    """Return the name of a run's folder."""
    return f"{row}_{rate:g}fps_{missed}"


def summarize(runs: Sequence[Mapping[str, Any]], costs: Costs) -> tuple[Statistic, float, float]:
    """Return mIoU over the stream by seed, and the shares of frames missed and adapted to.

    Raises:
        ReservoirError: If a run was made with other costs.
    """
    for results in runs:
        if results["clock"]["step_seconds"] != costs:
            raise ReservoirError(
                f"a run had the costs {results['clock']['step_seconds']}, costs.json has {costs}: "
                "choose another --out"
            )
    visits = [visit for results in runs for visit in results["visits"]]
    frames = sum(visit["n_images"] for visit in visits)
    shares = (sum(visit[name] for visit in visits) / frames for name in ("missed", "adapted"))
    scores = [mean(visit["mIoU"] for visit in results["visits"]) for results in runs]
    return Statistic.of(scores), *shares


Table = dict[str, dict[float, tuple[Statistic, float, float]]]
"""By row and frame rate."""


def markdown(table: Table, costs: Mapping[str, Costs]) -> str:
    """Return the table: the cost of an update, and at every rate mIoU and the missed frames."""
    rates = list(dict.fromkeys(rate for cells in table.values() for rate in cells))
    header = ["row", "ms with an update", "ms without"]
    for rate in rates:
        header += [f"{name} at {rate:g} fps" for name in ("mIoU", "missed", "adapted to")]
    rows = []
    for row, cells in table.items():
        style = costs[row].get("style", 0.0)
        line = [row, *(f"{1000 * (style + costs[row][name]):.0f}" for name in ("adapt", "predict"))]
        for rate in rates:
            score, missed, adapted = cells[rate]
            line += [score.text(), f"{missed:.0%}", f"{adapted:.0%}"]
        rows.append(line)
    return make_table(header, rows, 1, markdown=True)


def plot(table: Table, path: Path) -> None:
    """Draw mIoU against frame rate, one panel per method."""
    from matplotlib.figure import Figure

    bases = [base for base in BASES if any(base + kind in table for kind in KINDS)] or [""]
    figure = Figure(figsize=(3.8 * len(bases), 3.4), layout="constrained")
    axes = figure.subplots(1, len(bases), squeeze=False)[0]
    for axis, base in zip(axes, bases, strict=True):
        rows = [*ALONE, *(base + kind for kind in KINDS if base)]
        for i, row in enumerate(rows):
            if row in table:
                rates = sorted(table[row])
                means = [table[row][rate][0].mean for rate in rates]
                axis.plot(rates, means, "--o" if row in ALONE else "-o", color=f"C{i}", label=row)
        axis.set(title=BASES.get(base, ""), xlabel="frames per second", ylabel="mean mIoU (%)")
        axis.set_xscale("log")
        ticks = sorted({rate for cells in table.values() for rate in cells})
        axis.set_xticks(ticks, [f"{rate:g}" for rate in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=130)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the missing runs and summarize all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--rates", nargs="+", type=float, default=[5.0, 10.0, 20.0])
    parser.add_argument("--missed", default="answer", choices=("answer", "drop"))
    add_run_arguments(parser, "clock")
    args = parser.parse_args(argv)
    out, threads = args.out.resolve(), threads_of(args.jobs)
    write_draws(out, args.seeds)
    try:
        costs = measured_costs(args.rows, args.seeds[0], out)
        with ThreadPoolExecutor(args.jobs) as pool:
            jobs = [
                pool.submit(
                    run,
                    *(ROWS[row][0], seed, out, args.rounds, threads),
                    name_of(row, rate, args.missed),
                    [*options_of(rate, args.missed, costs[row]), *ROWS[row][1]],
                )
                for seed in args.seeds
                for row in args.rows
                for rate in args.rates
            ]
            failures = [failure for failure in (job.result() for job in jobs) if failure]
        if failures:
            print(*failures, sep="\n", file=sys.stderr)
            return 1
        table: Table = {row: {} for row in args.rows}
        for row in args.rows:
            for rate in args.rates:
                name = name_of(row, rate, args.missed)
                runs = [read_results(out / f"seed{seed}" / name) for seed in args.seeds]
                table[row][rate] = summarize(runs, costs[row])
    except ReservoirError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = markdown(table, costs)
    print(text)
    write_text(out / f"summary_{args.missed}.md", f"{text}\n")
    plot(table, out / f"clock_{args.missed}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
