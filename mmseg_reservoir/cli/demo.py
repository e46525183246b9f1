"""Compare Source, TENT, two reservoirs and align on MiniCity.

The demonstration generates its data, runs the configs side by side over the same stream, prints
their tables, and saves a picture of hard frames, a plot and a page. It needs no downloads and no
GPU. With --all it is the whole table of segmentation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..io.files import shipped
from .command_line import Verb
from .options import shared, switch

CONFIGS = shipped("configs/minicity")
ROOT = Path.cwd() if ".mim" in CONFIGS.parts else CONFIGS.parents[1]
"""Folder of the data: the checkout, or the current folder for an installed package."""
RUNS = {
    "Source": "segformer-tiny_source",
    "TENT": "segformer-tiny_tent",
    "TENT + ReservoirTTA": "segformer-tiny_tent_reservoir",
    "TENT + robust": "segformer-tiny_tent_robust",
    "align": "segformer-tiny_align",
}
ANALYSIS = {
    "TENT + ReservoirTTA, preset paper": "segformer-tiny_tent_reservoir_paper",
    "TENT + oracle routing": "segformer-tiny_tent_oracle",
}
PICTURED = ("Source", "TENT", "TENT + robust", "align")
SHOWN_FRAMES = 8
"""Number of frames saved per visit. The picture shows the hardest of them."""
_POLL_SECONDS = 0.5


def chosen_runs(everything: bool, analysis: bool) -> dict[str, str]:
    """Return the configs of the runs by name, in the order of the table."""
    from ..report.published import METAFILE, load_rows

    rows = load_rows(CONFIGS / METAFILE) if everything else []
    runs = {row.name: Path(row.config).stem for row in rows} | RUNS
    return runs | (ANALYSIS if analysis else {})


def command(config: str, out: Path, rounds: int, seed: int) -> list[str]:
    """Return the command line of a run."""
    return [
        sys.executable,
        *("-m", "mmseg_reservoir.cli", "test"),
        str(CONFIGS / f"{config}.py"),
        f"--work-dir={out / config}",
        f"--show-dir={out / 'panels' / config}",
        f"--show-frames={SHOWN_FRAMES}",
        f"--progress-file={progress_file(out, config)}",
        f"--seed={seed}",
        "--overwrite",  # to repeat the demonstration
        "--cfg-options",
        f"test_cfg.rounds={rounds}",
        "log_level=WARNING",
    ]


def progress_file(out: Path, config: str) -> Path:
    """Return the file in which a run reports its position."""
    return out / config / "progress.json"


class Running(NamedTuple):
    """A started run."""

    process: subprocess.Popen
    start: float
    log: Path


def start_run(config: str, out: Path, rounds: int, seed: int) -> Running:
    """Start a run in a new process on one core, with a log file."""
    log = out / config / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    progress_file(out, config).unlink(missing_ok=True)  # from an earlier demonstration
    # One thread per process, because several processes share the cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command(config, out, rounds, seed),
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Running(process, time.monotonic(), log)


def run_all(
    chosen: Mapping[str, str], out: Path, rounds: int, seed: int, frames: int, workers: int
) -> dict[str, dict[str, Any]]:
    """Run all configs, several at once, and return their results in the order of ``chosen``.

    The last runs take longest. They start first, so that all cores are busy until the end.
    """
    # mmengine imports yapf. The first import writes a cache, which two processes would break.
    import yapf  # noqa: F401

    from ..report.progress import Position, RunsProgress

    waiting = list(chosen.items())
    running: dict[str, Running] = {}
    try:
        with RunsProgress(list(chosen), frames, workers) as progress:
            while waiting or running:
                while waiting and len(running) < workers:
                    name, config = waiting.pop()
                    running[name] = start_run(config, out, rounds, seed)
                    progress.start(name)
                time.sleep(_POLL_SECONDS)
                for name, run in list(running.items()):
                    position = Position.read(progress_file(out, chosen[name]))
                    if position is not None:
                        progress.update(name, position)
                    if run.process.poll() is not None:
                        _check(name, run)
                        del running[name]
                        progress.finish(name, time.monotonic() - run.start)
    finally:
        for run in running.values():
            run.process.terminate()
            run.process.wait()
    return {
        name: json.loads((out / config / "results.json").read_text())
        for name, config in chosen.items()
    }


def _check(name: str, run: Running) -> None:
    if run.process.returncode:
        print(run.log.read_text()[-2000:], file=sys.stderr)
        raise SystemExit(f"error: {name} ended with code {run.process.returncode}, see {run.log}")


def truth_of(image: Path) -> Path:
    """Return the file with the train ids of an image of MiniCity."""
    name = image.name.replace("_rgb_anon.png", "_gt_labelTrainIds.png")
    *root, _, condition, split, sequence, _ = image.parts
    return Path(*root, "gt", condition, split, sequence, name)


def draw(runs: Mapping[str, dict[str, Any]], chosen: Mapping[str, str], out: Path) -> list[Path]:
    """Write picture, plot and page, and return their files."""
    from ..report.charts import plot_comparison
    from ..report.frame_panels import hard_frame, plot_frames
    from ..report.page.document import write_page
    from ..report.shown_run import load_runs

    shown = load_runs([f"{name}={out / config}" for name, config in chosen.items()])
    pictured = [run for run in shown if run.name in PICTURED]
    frames = [hard_frame(pictured, domain, truth_of) for domain in ("fog", "night")]
    files = [out / name for name in ("frames.png", "comparison.png", "report.html")]
    plot_frames(frames, shown[0].results["palette"], files[0])
    plot_comparison(runs, files[1])
    write_page(shown, files[2], print, "ReservoirTTA on MiniCity")
    return files


def _run(args: argparse.Namespace) -> None:
    # Imported here, because processes that draw MiniCity import this file without needing these.
    from ..io.files import write_text
    from ..minicity import write_dataset
    from ..report.tables import comparison_table, last_visit_table
    from ..style.vgg import SHIPPED

    start, out = time.monotonic(), args.out.resolve()
    print("MiniCity: street scenes in clear air, fog, night, rain and snow ...", flush=True)
    data = write_dataset(ROOT / "data" / "minicity", workers=args.workers)
    print(f"MiniCity: {'is there already' if data.reused else 'written'}, {data.root}")
    print(f"Style: by the shipped front of an ImageNet-trained VGG-19, {SHIPPED}")
    rounds = args.rounds or (2 if args.all else 3)
    chosen = chosen_runs(args.all, args.analysis)
    stream = rounds * sum(n["train"] for name, n in data.counts.items() if name != "clear")
    print(f"{len(chosen)} runs, {args.workers} at once, {stream} frames each ...", flush=True)
    runs = run_all(chosen, out, rounds, args.seed, stream, args.workers)
    summary = last_visit_table(runs)
    write_text(out / "tables.txt", f"{summary}\n\n{comparison_table(runs)}\n")
    print(f"\n{summary}\n(one thread per run; every visit: {out / 'tables.txt'})\n")
    picture, plot, page = draw(runs, chosen, out)
    print(f"{time.monotonic() - start:.0f} s in all. Three things to look at:")
    print(f"1. {picture}: the frames of fog and night that the source gets most wrong")
    print(f"2. {plot}: mIoU by visit, and the expert of every frame")
    print(f"3. {page}: everything about the runs, with a slider over their labels")


main = Verb(
    __doc__,
    _run,
    shared("--rounds", help="visit each condition N times (default: 3, with --all 2)"),
    shared("--seed", default=0),
    switch("--all", "run every row of the table"),
    switch("--analysis", "add other routers: the paper's, an oracle"),
    shared("--workers", default=min(4, os.cpu_count() or 1)),
    shared("--out", default=Path("work_dirs/demo")),
)
