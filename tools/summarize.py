"""Summarise runs over their seeds: mean and deviation of mIoU by visit, beside published rows.

python tools/summarize.py work_dirs
python tools/summarize.py work_dirs/tent_seed* --markdown summary.md --json summary.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.report.summary import (
    NOTE,
    summarize,
    summary_markdown,
    summary_table,
    to_json,
)
from mmseg_reservoir.runs.reader import read_runs
from mmseg_reservoir.runs.record import strict_json


def main(argv: list[str] | None = None) -> int:
    """Summarise; mistakes of the user end in one line and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="work directories, or folders above them")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number")
    args = parser.parse_args(argv)

    def show() -> None:
        groups, warnings = summarize(read_runs(args.runs))
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
        if not groups:
            raise ReservoirError("none of the runs is complete: there is nothing to summarise")
        print(f"{summary_table(groups)}\n{NOTE}")
        if args.markdown:
            write_text(args.markdown, summary_markdown(groups, warnings))
        if args.json:
            write_text(args.json, strict_json(to_json(groups, warnings)))

    return run_cli(show)


if __name__ == "__main__":
    sys.exit(main())
