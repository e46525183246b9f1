"""A sweep on Ray: one task per run. Ray retries tasks that fail."""

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
    """Run all runs that are not complete.

    Args:
        ray: The module, connected (see :func:`ray_session`).
        runs: All runs of the sweep, including complete ones.
        retries: Largest number of retries of a run if it, or its machine, fails. A retry resumes
            from the last state. Defaults to 1.
        cpus: Cores and threads for each run. Defaults to 1.
        report: Called with a line when a run has ended. Defaults to ``print``.

    Returns:
        The last lines of the log of each run that failed, by its name.
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
