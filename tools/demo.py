"""The embedded demonstration: Source, TENT and TENT + Reservoir on MiniCity's recurring weather.

It generates the data, runs the three configs over the same stream, prints their tables side by
side and saves a plot and panels. No downloads, no GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.report.comparison import comparison_table, plot_comparison, routing_table

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "configs" / "minicity"
RUNS = {
    "Source": "segformer-tiny_source",
    "TENT": "segformer-tiny_tent",
    "TENT + Reservoir": "segformer-tiny_tent_reservoir",
}


def run(name: str, config: str, out: Path, rounds: int, seed: int) -> dict:
    """Run one config as a user would, in a process of its own; returns its results."""
    work_dir = out / config
    command = [
        sys.executable,
        str(ROOT / "tools" / "test_tta.py"),
        str(CONFIGS / f"{config}.py"),
        f"--work-dir={work_dir}",
        f"--show-dir={out / 'panels' / config}",
        f"--seed={seed}",
        "--cfg-options",
        f"test_cfg.rounds={rounds}",
        "log_level=WARNING",
    ]
    start = time.monotonic()
    print(f"{name}: {rounds} rounds ...", flush=True)
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)} ended with code {done.returncode}")
    results = json.loads((work_dir / "results.json").read_text())
    print(f"{name}: {len(results['routes'])} images in {time.monotonic() - start:.0f} s")
    return results


def main(argv: list[str] | None = None) -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="visits of each condition")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("work_dirs/demo"), help="where it goes")
    args = parser.parse_args(argv)
    out = args.out.resolve()

    report = write_dataset(ROOT / "data" / "minicity")
    print(report)
    runs = {name: run(name, config, out, args.rounds, args.seed) for name, config in RUNS.items()}
    plot_comparison(runs, out / "comparison.png")
    tables = f"{comparison_table(runs)}\n\n{routing_table(runs)}"
    (out / "tables.txt").write_text(f"{tables}\n")
    print(f"\n{tables}\n")
    print(f"plot:   {out / 'comparison.png'}")
    print(f"panels: {out / 'panels'}")


if __name__ == "__main__":
    main()
