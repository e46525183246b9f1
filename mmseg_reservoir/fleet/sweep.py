"""A sweep on Ray: a task for each run, retried by Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .camera_fleet import last_words
from .sweep_runs import RunFailedError, SweepRun


def run_sweep(
    ray: Any,
    runs: Sequence[SweepRun],
    retries: int = 1,
    cpus: int = 1,
    report: Callable[[str], object] = print,
) -> dict[str, str]:
    """Run all runs that are not complete; return the last lines of those that failed, by name.

    Args:
        ray: The module, connected (see :func:`ray_session`).
        runs: The runs.
        retries: How often a run is tried again if it, or its machine, failed. It resumes from its
            last state.
        cpus: Cores and threads for each run.
        report: Called with a line when a run has ended.
    """
    missing = [run for run in runs if not run.is_complete()]
    report(f"{len(runs)} runs, {len(runs) - len(missing)} of them complete")
    task = ray.remote(num_cpus=cpus, max_retries=retries, retry_exceptions=[RunFailedError])(_run)
    waiting = {task.remote(run, cpus): run.name for run in missing}
    failures: dict[str, str] = {}
    while waiting:
        (done,), _ = ray.wait(list(waiting))
        name = waiting.pop(done)
        try:
            ray.get(done)
            report(f"{name}: done")
        except ray.exceptions.RayError as error:  # the others continue
            failed = isinstance(error, RunFailedError)
            failures[name] = str(error.cause) if failed else last_words(error)
            report(f"{name}: failed")
    return failures


def _run(run: SweepRun, threads: int) -> str:
    return run.run(threads)
