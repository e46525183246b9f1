"""Reads all files of a survey, in several processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing import get_context

from mmseg_reservoir.errors import ReservoirError

from .examine import examine, glance
from .survey import Survey


def read_files(survey: Survey, workers: int = 1, fast: bool = False) -> Iterator[int]:
    """Fill in the survey's facts; yields how many files are done, for a progress bar.

    Args:
        survey: What `list_files` found.
        workers: Processes that decode.
        fast: Only ask for sizes.

    Raises:
        ReservoirError: If the system ends a process.
    """
    jobs = [(path, False) for files in survey.found for path in files.images.values()]
    jobs += [(path, True) for files in survey.found for path in files.labels.values()]
    paths, are_labels = [path for path, _ in jobs], [is_label for _, is_label in jobs]
    with ExitStack() as stack:
        if fast:
            results = map(glance, paths)
        elif workers == 1:
            results = map(examine, paths, are_labels)
        else:
            # Spawned, since a progress bar's thread runs here, and forks of threads can hang.
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            results = stack.enter_context(pool).map(examine, paths, are_labels, chunksize=4)
        try:
            for count, (path, facts) in enumerate(zip(paths, results, strict=True), start=1):
                survey.facts[path] = facts
                yield count
        except BrokenProcessPool as error:
            raise ReservoirError(
                "a process that decoded files was ended, perhaps for want of memory; "
                "use fewer with --workers"
            ) from error
    survey.decoded = not fast
