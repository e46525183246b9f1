"""How well a router separates the true domains of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mode
from typing import Any, NamedTuple

from sklearn.metrics import normalized_mutual_info_score


class Step(NamedTuple):
    """The route of one frame."""

    condition: str
    visit: int
    expert: int
    k: int


def routing_scores(steps: Sequence[Step]) -> dict[str, Any]:
    """Return all scores of one run.

    A condition is owned by the expert that got most of its frames, and an expert owns the
    condition that most of its frames are of. ``recall_strict`` takes the owner from the visits
    before: at the first visit, most frames may come before the expert was opened.
    """
    truth = [step.condition for step in steps]
    experts = [step.expert for step in steps]
    conditions = list(dict.fromkeys(truth))
    owned = {e: mode(s.condition for s in steps if s.expert == e) for e in set(experts)}
    owner = {c: mode(s.expert for s in steps if s.condition == c) for c in conditions}
    recalled, strictly, returning = 0, 0, 0
    delays: dict[str, list[int]] = {"first": [], "return": []}
    for condition, expert in owner.items():
        mine = [step for step in steps if step.condition == condition]
        for number in sorted({step.visit for step in mine}):
            visit = [step.expert for step in mine if step.visit == number]
            before = [step.expert for step in mine if step.visit < number]
            if before:
                recalled += visit.count(expert)
                strictly += visit.count(mode(before))
                returning += len(visit)
            delay = visit.index(expert) if expert in visit else len(visit)
            delays["return" if before else "first"].append(delay)
    rounds = sorted({step.visit for step in steps})
    return {
        "k": steps[-1].k,
        "k_by_round": [[s.k for s in steps if s.visit == number][-1] for number in rounds],
        "purity": sum(owned[e] == c for c, e in zip(truth, experts, strict=True)) / len(steps),
        "nmi": float(normalized_mutual_info_score(truth, experts)),
        "recall": recalled / returning if returning else None,
        "recall_strict": strictly / returning if returning else None,
        "delay_first": mean(delays["first"]),
        "delay_return": mean(delays["return"]),
        "leak": {
            c: mean([owned[s.expert] != c for s in steps if s.condition == c]) for c in conditions
        },
    }


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values."""
    return sum(values) / len(values) if values else None
