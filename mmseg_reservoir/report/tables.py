"""The one style of tables; and a run's score, mIoU or error, by condition and visit."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prettytable import PrettyTable, TableStyle

Results = Mapping[str, Any]
"""The content of a ``results.json``."""


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
    """The mean over the domains at every visit that all of them had: a round may be unfinished."""
    return [sum(column) / len(column) for column in zip(*scores.values(), strict=False)]


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
    """Rows are domains, columns are visits."""
    scores = by_domain(visits)
    rounds = max(map(len, scores.values()))
    scores["mean"] = mean_by_visit(scores)
    rows = [[domain, *score_cells(row, rounds)] for domain, row in scores.items()]
    return make_table(["visit", *range(1, rounds + 1), "mean"], rows)


def score_cells(scores: Sequence[float], count: int) -> list[str]:
    """A cell for each score, empty ones up to ``count``, and one for the mean of all scores."""
    cells = [f"{score:.2f}" for score in scores]
    return [*cells, *[""] * (count - len(scores)), f"{sum(scores) / len(scores):.2f}"]
