"""What several benchmarks share: runs in their own process, and times."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def add_run_arguments(parser: argparse.ArgumentParser, name: str, rounds: int = 10) -> None:
    """Add the seeds, the rounds, the number of runs at once, and the output folder."""
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / name)


def threads_of(jobs: int) -> int:
    """Return the threads of each of several runs at once."""
    return max(1, (os.cpu_count() or 1) // jobs)


def read_results(folder: Path) -> dict[str, Any] | None:
    """Return the results of a complete run; None if there is no such run."""
    file = folder / "results.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return results if results and results["complete"] else None


def run_test(
    config: Path, folder: Path, arguments: Sequence[str], threads: int, cwd: Path | None = None
) -> str | None:
    """Run ``tools/test_tta.py`` in its own process; return the end of its log if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    tool = str(ROOT / "tools" / "test_tta.py")
    # An incomplete run is overwritten.
    command = [sys.executable, tool, str(config), f"--work-dir={folder}", "--overwrite"]
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(
            [*command, *arguments],
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return (folder / "log.txt").read_text()[-1500:] if done.returncode else None


def median_seconds(calls: Iterable[Callable[[], object]]) -> float:
    """Return the median CPU time of some calls in seconds."""
    seconds = []
    for call in calls:
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)
