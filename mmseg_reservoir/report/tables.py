"""The one style of tables; and a run's score, mIoU or error, by condition and visit."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from prettytable import PrettyTable, TableStyle

from ..runs.reader import Results

INCOMPLETE = "*"
"""Marks a score of a visit of which images were skipped."""


def make_table(
    header: Sequence[Any],
    rows: Iterable[Sequence[Any] | None],
    text_columns: int = 1,
    markdown: bool = False,
) -> str:
    """A table as all of this package look.

    Args:
        header: The names of the columns.
        rows: Their cells; None stands for a line between two rows.
        text_columns: So many of the first columns begin at the left; numbers end at the right.
        markdown: For a Markdown file, not a terminal; it has no lines between rows.
    """
    table = PrettyTable(list(map(str, header)))
    table.set_style(TableStyle.MARKDOWN if markdown else TableStyle.SINGLE_BORDER)
    for i, name in enumerate(table.field_names):
        table.align[name] = "l" if i < text_columns else "r"
    rows = list(rows)
    for row, below in zip(rows, [*rows[1:], ()], strict=True):
        if row is not None:
            table.add_row(list(row), divider=below is None and not markdown)
    return table.get_string()


def metric_of(visits: Sequence[Mapping[str, Any]]) -> str:
    """``"mIoU"`` of segmentation, or ``"error"`` of classification, where lower is better."""
    return "error" if visits and "error" in visits[0] else "mIoU"


def by_domain(visits: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The score of each domain, in the order of its visits."""
    metric = metric_of(visits)
    scores: dict[str, list[float]] = defaultdict(list)
    for visit in visits:
        score = visit[metric]
        # A visit without a labelled pixel has no score, for which JSON has only null.
        scores[visit["domain"]].append(math.nan if score is None else score)
    return dict(scores)


def mean_by_visit(scores: Mapping[str, Sequence[float]]) -> list[float]:
    """The mean over the domains at every visit that all of them had: a round may be unfinished.

    A visit without a score does not count.
    """
    return [_mean(column) for column in zip(*scores.values(), strict=False)]


def _mean(scores: Sequence[float]) -> float:
    """The mean of the scores that there are; NaN if there are none."""
    known = [score for score in scores if not math.isnan(score)]
    return sum(known) / len(known) if known else math.nan


def scores_by_domain(results: Results) -> dict[str, list[float]]:
    """The score by visit of every domain, and of their mean."""
    scores = by_domain(results["visits"])
    return scores | {"mean": mean_by_visit(scores)}


def routing_purity(routes: Sequence[Mapping[str, Any]]) -> float:
    """Share of images whose domain is the majority domain of the expert they were sent to.

    One expert for everything has the share of the largest domain: 0.25 for four equal ones.
    """
    members: dict[int, Counter] = defaultdict(Counter)
    for route in routes:
        members[route["expert"]][route["domain"]] += 1
    right = sum(counts.most_common(1)[0][1] for counts in members.values())
    return right / len(routes)


def visit_table(visits: Sequence[Mapping[str, Any]]) -> str:
    """Rows are domains, columns are visits; what is incomplete is marked and explained below."""
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
        notes.append("- no labelled pixel")
    return "\n".join([table, *notes])


def score_cells(scores: Sequence[float], count: int) -> list[str]:
    """A cell for each score, empty ones up to ``count``, and one for the mean of all scores."""
    cells = [_cell(score) for score in scores]
    return [*cells, *[""] * (count - len(scores)), _cell(_mean(scores))]


def _cell(score: float) -> str:
    return "-" if math.isnan(score) else f"{score:.2f}"
