"""Draw one of the paper's figures from results files.

reservoir figures assignment work_dirs/tent_reservoir --out assignment.png
reservoir figures domain-count work_dirs/tent_reservoir_s0 work_dirs/tent_reservoir_s1
reservoir figures sensitivity work_dirs/k2 work_dirs/k4 work_dirs/k8 --option k_max
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReservoirError
from ..io.files import write_figure
from ..report.charts import (
    assignment_figure,
    domain_count_figure,
    memory_figure,
    sensitivity_figure,
    style_figure,
)
from ..report.shown_run import ShownRun, load_runs
from ..report.summary import OPTIONS, sweep
from ..runs.style_sample import FILE
from .command_line import Verb
from .options import option, shared

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _assignment(runs: list[ShownRun], args: argparse.Namespace) -> Figure:
    """Which share of every domain's images went to which expert."""
    return assignment_figure({run.name: run.results for run in runs})


def _tsne(runs: list[ShownRun], args: argparse.Namespace) -> Figure:
    """t-SNE of the styles, with the trajectories of the experts' means."""
    shown = {}
    for run in runs:
        if run.styles is None:
            raise ReservoirError(
                f"{run.name} has no {FILE} beside its results.json: a run with a reservoir that "
                "uses styles writes it"
            )
        shown[run.name] = run.results, run.styles
    return style_figure(shown)


def _domain_count(runs: list[ShownRun], args: argparse.Namespace) -> Figure:
    """How many domains are detected over the stream; one line per run, such as one per seed."""
    return domain_count_figure({run.name: run.results for run in runs})


def _memory(runs: list[ShownRun], args: argparse.Namespace) -> Figure:
    """FIFO against reservoir sampling on the stream of one run: domains in a style memory."""
    if len(runs) != 1:
        raise ReservoirError(f"the figure is of the stream of one run, got {len(runs)}")
    return memory_figure(runs[0].results, args.sizes)


def _sensitivity(runs: list[ShownRun], args: argparse.Namespace) -> Figure:
    """Score and experts over the values of one option that the runs differ in."""
    if args.option is None:
        raise ReservoirError(f"give the option that differs: --option {'|'.join(OPTIONS)}")
    return sensitivity_figure(sweep(args.option, [run.results for run in runs]))


FIGURES: dict[str, Callable[[list[ShownRun], argparse.Namespace], Figure]] = {
    "assignment": _assignment,
    "tsne": _tsne,
    "domain-count": _domain_count,
    "memory": _memory,
    "sensitivity": _sensitivity,
}


def _run(args: argparse.Namespace) -> None:
    figure = FIGURES[args.figure](load_runs(args.runs), args)
    path = args.out or Path(f"{args.figure}.png")
    write_figure(path, figure, dpi=110)
    print(path)


_DRAWN = "\n".join(f"{name}: {draw.__doc__}" for name, draw in FIGURES.items())
main = Verb(
    f"{__doc__}\n{_DRAWN}",
    _run,
    option("figure", "draw this figure", choices=list(FIGURES)),
    "runs",
    shared("--out", help="a .png, .pdf or .svg file (default: FIGURE.png)", metavar="FILE"),
    option("--option", "for sensitivity: the option that differs", choices=list(OPTIONS)),
    option(
        "--sizes N",
        "for memory: numbers of styles that a memory holds",
        nargs="+",
        type=int,
        default=[16, 64],
    ),
)
