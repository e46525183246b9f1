"""The table of a summary, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from prettytable import PrettyTable, TableStyle

from .summary import VISITS, Group, Statistic

NOTE = (
    "mIoU, or error of classifiers, in percent at a visit, mean over the conditions: mean over the "
    "seeds ± sample deviation (- of one seed). The means of published rows are taken of the "
    "published conditions."
)


def summary_table(groups: Sequence[Group], markdown: bool = False) -> str:
    """One row per group; below it the published row where there is one."""
    visits = sorted({visit for group in groups for visit in VISITS[group.metric]})
    head = ["run", "seeds", "visits", *(f"visit {v}" for v in visits), "last", "experts K"]
    table = PrettyTable([*head, "routing purity", "ms per image"])
    table.set_style(TableStyle.MARKDOWN if markdown else TableStyle.SINGLE_BORDER)
    table.align = "r"
    table.align["run"] = "l"
    for group in groups:
        scores = group.scores["mean"]
        at = [scores[v - 1].text() if v <= len(scores) else "" for v in visits]
        table.add_row(
            [
                group.name,
                ", ".join(map(str, group.seeds)),
                len(scores),
                *at,
                scores[-1].text(),
                group.k.text(1),
                _or_dash(group.purity, 3),
                _or_dash(group.milliseconds, 0),
            ]
        )
        if group.row:
            theirs = [
                f"{group.row.mean(v):.2f}" if v in group.row.visits and v <= len(scores) else ""
                for v in visits
            ]
            table.add_row([f"  published: {group.row.name}", "", "", *theirs, "", "", "", ""])
    return table.get_string()


def summary_markdown(groups: Sequence[Group], warnings: Sequence[str]) -> str:
    """A Markdown document: the table, what it means, and the warnings."""
    parts = [summary_table(groups, markdown=True), NOTE]
    if warnings:
        parts.append("\n".join(f"- Warning: {warning}" for warning in warnings))
    return "\n\n".join(parts) + "\n"


def _or_dash(value: Statistic | None, digits: int) -> str:
    return "-" if value is None else value.text(digits)
