"""The table of a summary, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from .summary import VISITS, Group, Statistic
from .tables import make_table

NOTE = (
    "mIoU, or error of classifiers, in percent at a visit, mean over the conditions: mean over the "
    "seeds ± sample deviation (- of one seed). The means of published rows are taken of the "
    "published conditions."
)
_SAME = "†"
SAME_NOTE = f"{_SAME} nothing random in this row: every seed gives exactly these scores."


def summary_table(groups: Sequence[Group], markdown: bool = False) -> str:
    """One row per group; below it the published row where there is one."""
    visits = sorted({visit for group in groups for visit in VISITS[group.metric]})
    header = ["run", "seeds", "visits", *(f"visit {v}" for v in visits), "last", "experts K"]
    rows = []
    for group in groups:
        scores = group.scores["mean"]
        rows.append(
            [
                f"{group.name} {_SAME}" if group.constant else group.name,
                ", ".join(map(str, group.seeds)),
                len(scores),
                *(_cell(group, scores[v - 1], 2) if v <= len(scores) else "" for v in visits),
                _cell(group, scores[-1], 2),
                _cell(group, group.k, 1),
                _cell(group, group.purity, 3),
                _cell(group, group.milliseconds, 0),
            ]
        )
        if group.row:
            theirs = [
                f"{group.row.mean(v):.2f}" if v in group.row.visits and v <= len(scores) else ""
                for v in visits
            ]
            rows.append([f"  published: {group.row.name}", "", "", *theirs, "", "", "", ""])
    table = make_table([*header, "routing purity", "ms per image"], rows, markdown=markdown)
    if not any(group.constant for group in groups):
        return table
    return table + ("\n\n" if markdown else "\n") + SAME_NOTE


def summary_markdown(groups: Sequence[Group], warnings: Sequence[str]) -> str:
    """A Markdown document: the table, what it means, and the warnings."""
    parts = [summary_table(groups, markdown=True), NOTE]
    if warnings:
        parts.append("\n".join(f"- Warning: {warning}" for warning in warnings))
    return "\n\n".join(parts) + "\n"


def _cell(group: Group, value: Statistic | None, digits: int) -> str:
    if value is None:
        return "-"
    # Where nothing is random, a deviation of 0 is no measurement.
    same = group.constant and value.deviation == 0
    return f"{value.mean:.{digits}f}" if same else value.text(digits)
