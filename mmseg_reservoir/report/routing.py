"""How good a routing was, where the true conditions are known."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mode
from typing import Any, NamedTuple

from sklearn.metrics import normalized_mutual_info_score


class Step(NamedTuple):
    """What became of a frame."""

    condition: str
    visit: int
    expert: int
    k: int


def measure(steps: Sequence[Step]) -> dict[str, Any]:
    """All figures of one run.

    The expert that owns a condition got most of its frames; the condition that an expert owns is
    the one most of its frames are of. ``recall_strict`` only counts the visits before: of
    the first one most frames may have come before the expert was open.
    """
    truth = [step.condition for step in steps]
    experts = [step.expert for step in steps]
    conditions = list(dict.fromkeys(truth))
    owned = {e: mode(s.condition for s in steps if s.expert == e) for e in set(experts)}
    owner = {c: mode(s.expert for s in steps if s.condition == c) for c in conditions}
    recalled, strictly, returning = 0, 0, 0
    delays: dict[str, list[int]] = {"first": [], "return": []}
    for condition, wanted in owner.items():
        mine = [step for step in steps if step.condition == condition]
        for number in sorted({step.visit for step in mine}):
            visit = [step.expert for step in mine if step.visit == number]
            before = [step.expert for step in mine if step.visit < number]
            if before:
                recalled += visit.count(wanted)
                strictly += visit.count(mode(before))
                returning += len(visit)
            delay = visit.index(wanted) if wanted in visit else len(visit)
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
    """The mean, None of nothing."""
    return sum(values) / len(values) if values else None
