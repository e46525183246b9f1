"""Make one HTML page of a run, or of several beside each other.

python tools/report.py work_dirs/tent_reservoir
python tools/report.py TENT=work_dirs/tent work_dirs/tent_reservoir --out compared.html
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.report.page import needs_plotly


def main(argv: list[str] | None = None) -> int:
    """Make the page; mistakes of the user end in one line and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "runs", nargs="+", metavar="[NAME=]RUN", help="work directories, or folders above them"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: report.html in the first RUN's folder"
    )
    parser.add_argument("--title", default="", help="the heading")
    args = parser.parse_args(argv)

    def report() -> None:
        with needs_plotly():
            from mmseg_reservoir.report.page.document import write_page
        from mmseg_reservoir.report.shown_run import load_runs

        runs = load_runs(args.runs)
        path = write_page(
            runs,
            args.out or _beside(args.runs[0]),
            lambda text: print(f"warning: {text}"),
            args.title,
        )
        print(f"{len(runs)} runs: {path}")

    return run_cli(report)


def _beside(argument: str) -> Path:
    path = Path(argument if Path(argument).exists() else argument.partition("=")[2])
    return (path if path.is_dir() else path.parent) / "report.html"


if __name__ == "__main__":
    sys.exit(main())
