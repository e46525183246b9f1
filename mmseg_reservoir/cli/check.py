"""Check a data set on disk, and print how to fix problems.

It checks counts, pairs, damage and label values.

reservoir check acdc data/acdc
reservoir check cityscapes data/cityscapes --fast

Exit code: 0 no problems, 1 problems found, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from rich.console import Console
from rich.progress import track

from ..datasets import LAYOUTS
from ..datasets.check.checks import check_all
from ..datasets.check.report import show, summarize
from ..datasets.check.survey import check_root, list_files, read_files
from ..io.files import write_text
from .command_line import Verb
from .options import at_least, option, shared, switch


def _run(args: argparse.Namespace) -> int:
    root = args.path.absolute()
    check_root(root, args.dataset)
    survey = list_files(LAYOUTS[args.dataset], root)
    total = sum(len(files.images) + len(files.labels) for files in survey.cells)
    progress = Console(stderr=True)
    for _ in track(
        read_files(survey, args.workers, args.fast),
        description="listing" if args.fast else "decoding",
        total=total,
        console=progress,
        disable=not progress.is_terminal,
    ):
        pass
    summary = summarize(survey, check_all(survey))
    show(summary, Console(), args.examples)
    if args.json is not None:
        write_text(args.json, json.dumps(summary, indent=1) + "\n")
    return 0 if summary["ok"] else 1


main = Verb(
    __doc__,
    _run,
    option("dataset", "check for this data set", choices=sorted(LAYOUTS)),
    option("path", "its root folder", type=Path),
    switch("--fast", "list the files without reading them"),
    shared("--workers", default=os.cpu_count() or 1),
    option("--examples N", "name N files per problem", type=at_least(0), default=5),
    "--json",
)
