"""Make tables of scores: one run, one run beside its published row, or several runs."""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..runs.reader import Results
from ..runs.visits import image_times, milliseconds_text
from .published import MEAN, Row, beside_published
from .scores import (
    Visits,
    by_domain,
    finite_mean,
    mean_by_visit,
    metric_of,
    routing_purity,
    scores_by_domain,
)

INCOMPLETE = "*"
"""Marks the score of a visit with skipped images."""
ERROR_VISITS = (1, 5, 10, 15, 20)
COLLAPSE_FACTOR = 1.5
"""A run has collapsed if its last error is this many times its lowest error ..."""
COLLAPSE_POINTS = 5.0
"""... and at least this many percentage points above it."""


def make_table(
    header: Sequence[Any],
    rows: Iterable[Sequence[Any] | None],
    text_columns: int = 1,
    markdown: bool = False,
) -> str:
    """Return a table as text.

    A row of None is a line between two rows, except in Markdown. The first ``text_columns``
    columns are aligned left.
    """
    columns = [str(name) for name in header]
    cells = [None if row is None else [str(cell) for cell in row] for row in rows]
    if markdown:
        rules = [":---" if i < text_columns else "---:" for i in range(len(columns))]
        lines = [columns, rules, *filter(None, cells)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    table = Table(box=box.SQUARE)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < text_columns else "right", no_wrap=True)
    for row in cells:
        if row is None:
            table.add_section()
        else:
            table.add_row(*row)
    text = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    Console(file=text, width=10_000, color_system=None, legacy_windows=False, **options).print(
        table
    )
    return text.getvalue().rstrip("\n")


def score_cells(scores: Sequence[float], count: int) -> list[str]:
    """Return one cell per score, padded to ``count`` cells, and a cell with the mean."""
    cells = [_cell(score) for score in scores]
    return [*cells, *[""] * (count - len(scores)), _cell(finite_mean(scores))]


def _cell(score: float) -> str:
    return "-" if math.isnan(score) else f"{score:.2f}"


def visit_table(visits: Visits) -> str:
    """Return a table of a run's scores: rows are domains, columns are visits."""
    scores = by_domain(visits)
    rounds = max(map(len, scores.values()))
    incomplete: dict[str, list[bool]] = defaultdict(list)
    for visit in visits:
        incomplete[visit["domain"]].append(bool(visit.get("skipped")))
    columns = zip_longest(*incomplete.values(), fillvalue=False)
    incomplete["mean"] = [any(column) for column in columns]
    scores["mean"] = mean_by_visit(scores)
    rows = []
    for domain, row in scores.items():
        marks = [*incomplete[domain][: len(row)], *[False] * (rounds - len(row))]
        cells = score_cells(row, rounds)
        marked = zip(cells, [*marks, any(marks)], strict=True)
        rows.append([domain, *(cell + INCOMPLETE * mark for cell, mark in marked)])
    table = make_table(["visit", *range(1, rounds + 1), "mean"], rows)
    notes = []
    if any(map(any, incomplete.values())):
        notes.append(f"{INCOMPLETE} incomplete: images were skipped")
    if any(map(math.isnan, chain(*scores.values()))):
        notes.append("- no labeled pixel")
    return "\n".join([table, *notes])


def published_table(visits: Visits, row: Row) -> str | None:
    """Return a table of scores, published scores and differences; None without a common visit.

    The run's scores are marked as in `visit_table` if images were skipped.
    """
    pairs = beside_published(visits, row)
    if not pairs:
        return None
    rows: list[list[str] | None] = []
    ours = "ours" + INCOMPLETE * any(visit.get("skipped") for visit in visits)
    for domain, cells in pairs.items():
        digits = 2 if domain == MEAN else 1  # as published; the mean has one more
        rows.append([domain, ours, *(f"{mine:.2f}" for mine, _ in cells.values())])
        rows.append(["", "published", *(f"{theirs:.{digits}f}" for _, theirs in cells.values())])
        rows.append(
            ["", "difference", *(f"{mine - theirs:+.2f}" for mine, theirs in cells.values())]
        )
        rows.append(None)
    return make_table(["visit", "", *pairs[MEAN]], rows, text_columns=2)


def comparison_table(runs: Mapping[str, Results]) -> str:
    """Return a table of several runs: a block per domain, a row per run, a column per visit."""
    scores = {name: scores_by_domain(results) for name, results in runs.items()}
    rounds = max(len(rows["mean"]) for rows in scores.values())
    lines: list[list[str] | None] = []
    for domain in next(iter(scores.values())):
        for i, (name, rows) in enumerate(scores.items()):
            lines.append([domain if i == 0 else "", name, *score_cells(rows[domain], rounds)])
        lines.append(None)
    header = [_metric(runs), "visit", *range(1, rounds + 1), "mean"]
    return make_table(header, lines, text_columns=2)


def last_visit_table(runs: Mapping[str, Results]) -> str:
    """Return a table with a row per run: scores of the last visit, experts, purity and cost.

    The cost is the median time per image, with quartiles.
    """
    scores = {name: scores_by_domain(results) for name, results in runs.items()}
    domains = list(next(iter(scores.values())))
    rounds = max(len(rows["mean"]) for rows in scores.values())
    facts = ["experts K", "routing purity", "updates", "ms per image"]
    rows = []
    for name, results in runs.items():
        cells = [f"{scores[name][domain][-1]:.2f}" for domain in domains]
        routes = results["routes"]
        purity = f"{routing_purity(routes):.3f}" if results["reservoir"] else "-"
        cost = milliseconds_text(image_times(routes))
        updates = results["updates"]["updates"]
        rows.append([name, *cells, routes[-1]["k"], purity, updates, cost])
    return make_table([f"{_metric(runs)} at visit {rounds}", *domains, *facts], rows)


def error_table(runs: Mapping[str, Results], visits: Sequence[int] = ERROR_VISITS) -> str:
    """Return a table with a row per classifier: errors by visit, experts, purity, CPU time."""
    means = {name: scores_by_domain(results)["mean"] for name, results in runs.items()}
    length = max(map(len, means.values()))
    shown = [visit for visit in visits if visit <= length]
    header = ["error (%) at visit", *shown, "mean", "", "experts K", "purity", "CPU s"]
    rows = []
    for name, results in runs.items():
        row, routes = means[name], results["routes"]
        rows.append(
            [
                name,
                *(f"{row[visit - 1]:.1f}" if visit <= len(row) else "" for visit in shown),
                f"{sum(row) / len(row):.1f}",
                "collapses" if has_collapsed(row) else "",
                routes[-1]["k"],
                f"{routing_purity(routes):.2f}" if results["reservoir"] else "-",
                f"{results['cpu_seconds']:.0f}",
            ]
        )
    return make_table(header, rows)


def has_collapsed(errors: Sequence[float]) -> bool:
    """Return whether the last error is far above the lowest error."""
    best, last = min(errors), errors[-1]
    return last > COLLAPSE_FACTOR * best and last > best + COLLAPSE_POINTS


def _metric(runs: Mapping[str, Results]) -> str:
    return metric_of(next(iter(runs.values()))["visits"])
