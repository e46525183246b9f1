"""Tables of scores, as data: each score with its distance to the base and to what is published."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import ReservoirError
from ..figure_data import forgetting, milliseconds
from ..published import Row, beside_published, row_of
from ..shown_run import ShownRun
from ..tables import routing_purity, scores_by_domain


class Score(NamedTuple):
    """A score in percent, and its distance in points to the base and to the published one."""

    value: float | None
    to_base: float | None = None
    to_published: float | None = None


@dataclass(frozen=True)
class ScoreTable:
    """Condition x visit of one run.

    Args:
        run: Its name.
        base: That of its base; None if there is none on the page.
        published: The name of its published row; None if there is none.
        visits: The number of visits.
        rows: By domain and, at last, of the mean: a score per visit, then their mean.
    """

    run: str
    base: str | None
    published: str | None
    visits: int
    rows: dict[str, list[Score]]


def score_table(
    run: ShownRun, runs: Sequence[ShownRun], warn: Callable[[str], object]
) -> ScoreTable:
    """The table of one run among others; a metafile that cannot be read is told and left out."""
    base, row = run.base(runs), _published(run, warn)
    scores = scores_by_domain(run.results)
    theirs = {} if base is None else scores_by_domain(base.results)
    pairs = beside_published(run.results["visits"], row) if row else {}
    visits = max(map(len, scores.values()))
    rows = {}
    for domain, values in scores.items():
        before = theirs.get(domain, [])
        cells = [
            Score(
                _finite(value),
                _finite(value - before[i]) if i < len(before) else None,
                _difference(pairs, domain, i + 1),
            )
            for i, value in enumerate(values)
        ]
        cells += [Score(None)] * (visits - len(cells))
        both = min(len(values), len(before))
        to_base = _mean(values[:both]) - _mean(before[:both]) if both else None
        rows[domain] = [*cells, Score(_finite(_mean(values)), _finite(to_base))]
    return ScoreTable(
        run.name, base and base.name, row.name if pairs and row else None, visits, rows
    )


def overview(runs: Sequence[ShownRun], tables: Sequence[ScoreTable]) -> list[dict[str, Any]]:
    """One row per run: the scores that matter most, experts, purity, forgetting and time."""
    rows = []
    for run, table in zip(runs, tables, strict=True):
        routes, losses = run.results["routes"], forgetting(run.results["visits"])
        times = milliseconds(run.results)
        reservoir = run.results["reservoir"]
        *by_visit, mean = table.rows["mean"]
        rows.append(
            {
                "run": run.name,
                "first": by_visit[0] if by_visit else Score(None),
                "last": by_visit[-1] if by_visit else Score(None),
                "mean": mean,
                "lost": _mean([loss.lost for loss in losses.values()]) if losses else None,
                "k": routes[-1]["k"],
                "purity": routing_purity(routes) if reservoir else None,
                "milliseconds": sum(times.values()) if times else None,
            }
        )
    return rows


def _published(run: ShownRun, warn: Callable[[str], object]) -> Row | None:
    try:
        return row_of(run.results)
    except ReservoirError as error:
        warn(f"{run.name}: no published row: {error}")
        return None


def _difference(pairs: dict, domain: str, visit: int) -> float | None:
    if visit not in pairs.get(domain, {}):
        return None
    mine, theirs = pairs[domain][visit]
    return _finite(mine - theirs)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
