"""Make one HTML page of a run, or of several side by side.

reservoir report work_dirs/tent_reservoir
reservoir report TENT=work_dirs/tent work_dirs/tent_reservoir --out compared.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..report.page import needs_plotly
from .command_line import Verb
from .options import option, shared


def _run(args: argparse.Namespace) -> None:
    with needs_plotly():
        from ..report.page.document import write_page
    from ..report.shown_run import load_runs

    runs = load_runs(args.runs)
    out = args.out or _beside(args.runs[0])
    path = write_page(runs, out, lambda text: print(f"warning: {text}"), args.title)
    print(f"{len(runs)} runs: {path}")


def _beside(argument: str) -> Path:
    path = Path(argument if Path(argument).exists() else argument.partition("=")[2])
    return (path if path.is_dir() else path.parent) / "report.html"


main = Verb(
    __doc__,
    _run,
    "runs",
    shared(
        "--out",
        metavar="FILE",
        help="write the page here (default: report.html in the folder of the first RUN)",
    ),
    option("--title", "heading of the page", default=""),
)
