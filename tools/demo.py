"""The embedded demonstration: Source, TENT, and TENT with the published and the robust reservoir.

It generates the data, runs the configs over the same stream, prints their tables side by side and
saves a plot, panels and a page. No downloads, no GPU. With ``--all`` it is the whole table of
segmentation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.report.comparison import comparison_table, plot_comparison, routing_table
from mmseg_reservoir.report.page.document import write_page
from mmseg_reservoir.report.published import METAFILE, load_rows
from mmseg_reservoir.report.shown_run import load_runs
from mmseg_reservoir.style.vgg import SHIPPED

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "configs" / "minicity"
RUNS = {
    "Source": "segformer-tiny_source",
    "TENT": "segformer-tiny_tent",
    "TENT + ReservoirTTA": "segformer-tiny_tent_reservoir",
    "TENT + robust": "segformer-tiny_tent_robust",
}
ANALYSIS = {
    "TENT + ReservoirTTA, preset paper": "segformer-tiny_tent_reservoir_paper",
    "TENT + oracle routing": "segformer-tiny_tent_oracle",
}


def chosen_runs(everything: bool, analysis: bool) -> dict[str, str]:
    """Names and configs of the runs, in the order of the table."""
    if everything:
        rows = load_rows(CONFIGS / METAFILE)
        runs = {row.name: Path(row.config).stem for row in rows}
    else:
        runs = dict(RUNS)
    return runs | (ANALYSIS if analysis else {})


def run(name: str, config: str, out: Path, rounds: int, seed: int) -> dict:
    """Run one config as a user would, in a process of its own; returns its results."""
    work_dir, panels = out / config, out / "panels"
    has_experts = config.endswith(("_reservoir", "_robust"))
    command = [
        sys.executable,
        str(ROOT / "tools" / "test_tta.py"),
        str(CONFIGS / f"{config}.py"),
        f"--work-dir={work_dir}",
        f"--show-dir={panels / config}",
        f"--seed={seed}",
        "--overwrite",  # a demonstration may be shown again
        *([f"--baseline={panels / RUNS['TENT']}"] if has_experts else []),
        "--cfg-options",
        f"test_cfg.rounds={rounds}",
        "log_level=WARNING",
    ]
    start = time.monotonic()
    print(f"{name}: {rounds} rounds ...", flush=True)
    work_dir.mkdir(parents=True, exist_ok=True)
    with (work_dir / "log.txt").open("w") as log:
        # On a terminal the progress bar is worth seeing; everything else goes into the log.
        stdout = None if sys.stdout.isatty() else log
        done = subprocess.run(command, cwd=ROOT, stdout=stdout, stderr=log)
    if done.returncode:
        print((work_dir / "log.txt").read_text()[-2000:], file=sys.stderr)
        raise SystemExit(f"error: {' '.join(command)} ended with code {done.returncode}")
    results = json.loads((work_dir / "results.json").read_text())
    print(f"{name}: {len(results['routes'])} images in {time.monotonic() - start:.0f} s")
    return results


def write_report(chosen: Mapping[str, str], out: Path) -> Path:
    """One page about all runs, by their names and configs; returns its path."""
    runs = load_runs([f"{name}={out / config}" for name, config in chosen.items()])
    return write_page(runs, out / "report.html", print, "ReservoirTTA on MiniCity")


def main(argv: list[str] | None = None) -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, help="visits of each condition (default: 5, with --all 2)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="every row of the table")
    parser.add_argument(
        "--analysis", action="store_true", help="add other routers: the paper's, an oracle"
    )
    parser.add_argument("--out", type=Path, default=Path("work_dirs/demo"), help="where it goes")
    args = parser.parse_args(argv)
    out = args.out.resolve()

    print("MiniCity: street scenes in clear air, fog, night, rain and snow ...", flush=True)
    data = write_dataset(ROOT / "data" / "minicity")
    print(f"MiniCity: {'is there already' if data.reused else 'written'}, {data.root}")
    print(f"Style: by the shipped front of an ImageNet-trained VGG-19, {SHIPPED}")
    rounds = args.rounds or (2 if args.all else 5)
    chosen = chosen_runs(args.all, args.analysis)
    runs = {name: run(name, config, out, rounds, args.seed) for name, config in chosen.items()}
    plot_comparison(runs, out / "comparison.png")
    tables = f"{comparison_table(runs)}\n\n{routing_table(runs)}"
    (out / "tables.txt").write_text(f"{tables}\n")
    print(f"\n{tables}\n")
    print(f"plot:   {out / 'comparison.png'}")
    print(f"panels: {out / 'panels'}")
    print(f"report: {write_report(chosen, out)}")


if __name__ == "__main__":
    main()
