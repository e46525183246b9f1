"""Tables of a run: its score, mIoU or error, by condition and visit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from prettytable import PrettyTable, TableStyle


def metric_of(visits: Sequence[Mapping[str, Any]]) -> str:
    """``"mIoU"`` of segmentation, or ``"error"`` of classification, where lower is better."""
    return "error" if visits and "error" in visits[0] else "mIoU"


def by_domain(visits: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The score of each domain, in the order of its visits."""
    metric = metric_of(visits)
    scores: dict[str, list[float]] = defaultdict(list)
    for visit in visits:
        scores[visit["domain"]].append(visit[metric])
    return dict(scores)


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
    rounds = max(len(row) for row in scores.values())
    table = PrettyTable(["visit", *range(1, rounds + 1), "mean"])
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align = "r"
    table.align["visit"] = "l"
    for domain, row in scores.items():
        padded = [f"{value:.2f}" for value in row] + [""] * (rounds - len(row))
        table.add_row([domain, *padded, f"{sum(row) / len(row):.2f}"])
    complete = zip(*scores.values(), strict=False)  # a round may be unfinished
    means = [sum(column) / len(column) for column in complete]
    overall = sum(means) / len(means)
    padding = [""] * (rounds - len(means))
    table.add_row(["mean", *(f"{value:.2f}" for value in means), *padding, f"{overall:.2f}"])
    return table.get_string()
