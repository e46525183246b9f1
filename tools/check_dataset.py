"""Check a data set on disk: counts, pairs, damage, label values; and how to mend what is wrong.

python tools/check_dataset.py acdc data/acdc
python tools/check_dataset.py cityscapes data/cityscapes --fast
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track

from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.check.checks import check_all
from mmseg_reservoir.datasets.check.report import show, summarize
from mmseg_reservoir.datasets.check.survey import check_root, list_files, read_files
from mmseg_reservoir.io.files import write_text


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="Exit code: 0 fine, 1 problems found, 2 wrong usage.",
    )
    parser.add_argument("dataset", choices=sorted(LAYOUTS), help="what it should be")
    parser.add_argument("path", type=Path, help="its root folder")
    parser.add_argument("--fast", action="store_true", help="do not read the files, only list them")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes that decode"
    )
    parser.add_argument("--examples", type=int, default=5, help="files to name per problem")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything here too")
    args = parser.parse_args(argv)
    if args.workers < 1 or args.examples < 0:
        parser.error("--workers must be 1 or more, --examples 0 or more")
    return args


def check(args: argparse.Namespace) -> bool:
    """Check and report; returns whether all is well."""
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
    return summary["ok"]


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    return run_cli(lambda: int(not check(parse_args(argv))))


if __name__ == "__main__":
    sys.exit(main())
