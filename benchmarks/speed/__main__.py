"""Measure the cost of the reservoir into benchmarks/results/speed.json.

    make bench                 some minutes: small networks
    make bench FULL=1          SegFormer-B5, all methods, K up to 64
    python -m benchmarks.speed --only b5 --clock cpu

All costs are ratios of interleaved steps. Networks have random weights, since time does not depend
on them; VGG-19's front has the shipped ones. The stream has K recurring styles, see recurring.py.
Figures of another run on the same machine stay in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # to run from anywhere

from benchmarks.speed import growth, page, ratios
from benchmarks.speed.cases import VARIANTS, Case
from benchmarks.speed.interleaved import CLOCKS
from benchmarks.speed.ratios import Clock, Figures
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.io.files import write_text

ROOT = Path(__file__).resolve().parents[2]
Job = tuple[str, Callable[[], Figures]]


PRESETS = ["stream", "robust", "robust-unguarded"]


def quick_jobs(clock: Clock) -> list[Job]:
    """Return what `make bench` measures."""
    tiny, b0 = ("segformer-tiny", "128x256"), ("segformer-b0", "512x1024")
    cifar = Case("tent", "resnet20", "batch64")
    return [
        ("tiny", lambda: ratios.compare(Case("tent", *tiny), PRESETS, 4, 31, clock)),
        ("tiny", lambda: ratios.compare(Case("align", *tiny), ["robust"], 4, 31, clock)),
        ("b0", lambda: ratios.compare(Case("tent", *b0), [*PRESETS, "naive"], 4, 5, clock)),
        ("b0", lambda: ratios.compare(Case("align", *b0), ["robust"], 4, 11, clock)),
        ("cifar", lambda: ratios.compare(cifar, [*VARIANTS, "naive"], 16, 15, clock)),
        ("vit", lambda: ratios.compare(Case("tent", "vit-s", "batch8"), PRESETS, 4, 7, clock)),
        ("cotta", lambda: ratios.literal_cotta(1, clock, "128x256")),
        ("growth", lambda: growth.with_experts((2, 16), 30, clock)),
        ("bytes", lambda: growth.bytes_per_expert("segformer-b0")),
        ("calibration", lambda: growth.calibration_cost("256x512", 6, clock)),
    ]


def full_jobs(clock: Clock) -> list[Job]:
    """Return what `make bench FULL=1` measures."""
    big = Case("tent", "segformer-b5", "540x960")
    b2 = Case("tent", "segformer-b2", "512x1024")
    jobs: list[Job] = [
        ("b5", lambda: ratios.compare(big, [*VARIANTS, "naive"], 16, 5, clock)),
        ("b2", lambda: ratios.compare(b2, PRESETS, 4, 5, clock)),
        ("bytes", lambda: growth.bytes_per_expert("segformer-b5")),
    ]
    for name in ("tent", "eata", "cotta", "lora"):
        for k in (1, 4, 16):
            jobs.append(_row("b0", Case(name, "segformer-b0", "256x512"), k, clock))
    for name in ("tent", "eata"):
        for size in ("batch64", "batch200"):
            for k in (1, 4, 16):
                jobs.append(_row("cifar", Case(name, "resnet20", size), k, clock))
    sizes = ("128x256", "256x512", "540x960")
    return [
        *jobs,
        ("cotta", lambda: ratios.literal_cotta(3, clock)),
        ("growth", lambda: growth.with_experts((2, 4, 8, 16, 32, 64), 50, clock)),
        ("growth", lambda: growth.with_memory((256, 1024, 4096), 50, clock)),
        ("growth", lambda: growth.swap_cost("segformer-b0", "256x512", 5, clock)),
        ("growth", lambda: growth.style_cost(sizes, 5, clock)),
        ("calibration", lambda: growth.calibration_cost("540x960", 6, clock)),
    ]


def _row(group: str, case: Case, k: int, clock: Clock) -> Job:
    rounds = 3 if case.method == "cotta" else 7
    return group, lambda: ratios.compare(case, [*VARIANTS], k, rounds, clock)


def machine(clock: str) -> Figures:
    """Return the facts that the figures depend on."""
    return {
        "about/cpu": _cpu_model(),
        "about/cores": os.cpu_count() or 1,
        "about/threads": torch.get_num_threads(),
        "about/torch": torch.__version__,
        "about/clock": clock,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def merged(path: Path, machine: Figures) -> Figures:
    """Return the figures of the file if they are of this machine, else only the machine's facts."""
    if not path.is_file():
        return dict(machine)
    figures = json.loads(path.read_text(encoding="utf-8"))
    same = all(figures.get(name) == value for name, value in machine.items())
    return figures if same else dict(machine)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="up to half an hour")
    parser.add_argument("--only", nargs="+", help="groups: tiny b0 b2 b5 cifar vit cotta ...")
    parser.add_argument("--clock", choices=[*CLOCKS], default="wall")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/speed.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/performance.md")
    args = parser.parse_args(argv)
    clock = CLOCKS[args.clock]
    figures = merged(args.out, machine(args.clock))
    jobs = (full_jobs if args.full else quick_jobs)(clock)
    for number, (group, job) in enumerate(jobs, start=1):
        if args.only and group not in args.only:
            continue
        start = time.monotonic()
        measured = job()
        figures |= measured
        # After every job, so that a stopped run keeps its figures.
        write_text(args.out, json.dumps(figures, indent=1, sort_keys=True) + "\n")
        seconds = time.monotonic() - start
        print(f"[{number}/{len(jobs)}] {group}, {seconds:.0f} s", flush=True)
        for name in measured:
            if not name.startswith("split/") and not name.endswith(("/q1", "/q3")):
                print(f"  {name}: {page.spread_text(figures, name)}", flush=True)
    if args.page.is_file():
        page.update(args.page, figures, args.page.parent / "images/speed.png")


if __name__ == "__main__":
    sys.exit(run_cli(main))
