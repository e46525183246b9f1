"""Summarize runs over their seeds: mean and deviation by visit.

The scores are mIoU or error, beside published rows.

reservoir summarize work_dirs
reservoir summarize work_dirs/tent_seed* --markdown summary.md --json summary.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import ReservoirError
from ..io.files import write_text
from ..report.summary import NOTE, summarize, summary_markdown, summary_table, to_json
from ..runs.reader import read_runs
from ..runs.record import strict_json
from .command_line import Verb, warn
from .options import shared


def _run(args: argparse.Namespace) -> None:
    show_summary(args.runs, args.markdown, args.json)


def show_summary(runs: list[str], markdown: Path | None, json: Path | None) -> None:
    """Print the table of runs in work directories, and write it to files."""
    groups, warnings = summarize(read_runs(runs))
    for warning in warnings:
        warn(warning)
    if not groups:
        raise ReservoirError("none of the runs is complete: there is nothing to summarize")
    print(f"{summary_table(groups)}\n{NOTE}")
    if markdown:
        write_text(markdown, summary_markdown(groups, warnings))
    if json:
        write_text(json, strict_json(to_json(groups, warnings)))


main = Verb(
    __doc__,
    _run,
    shared("runs", metavar="RUN"),
    *("--markdown", "--json"),
)
