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
    say: Callable[[str], object] = print,
) -> dict[str, str]:
    """Run all that is not complete; returns what was last said by those that failed, by name.

    Args:
        ray: The module, connected (see :func:`ray_session`).
        runs: All of them.
        retries: How often one that failed, or whose machine did, is tried again. It goes on with
            its last state.
        cpus: Cores, and threads, for each run.
        say: Takes a line when a run has ended.
    """
    missing = [run for run in runs if not run.is_complete()]
    say(f"{len(runs)} runs, {len(runs) - len(missing)} of them complete")
    task = ray.remote(num_cpus=cpus, max_retries=retries, retry_exceptions=[RunFailedError])(_run)
    waiting = {task.remote(run, cpus): run.name for run in missing}
    failures: dict[str, str] = {}
    while waiting:
        (done,), _ = ray.wait(list(waiting))
        name = waiting.pop(done)
        try:
            ray.get(done)
            say(f"{name}: done")
        except ray.exceptions.RayError as error:  # the others go on
            failed = isinstance(error, RunFailedError)
            failures[name] = str(error.cause) if failed else last_words(error)
            say(f"{name}: failed")
    return failures


def _run(run: SweepRun, threads: int) -> str:
    return run.run(threads)
