"""What went wrong in a run that came to its end all the same, so that nobody overlooks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .tables import Results, metric_of

_COLLAPSED = 0.01
"""Nats of the mean distribution of an image's pixels, or a batch's images: all of one class."""


def update_line(results: Results) -> str | None:
    """How many updates were made, and what became of the others; None of a run without any."""
    counts: Mapping[str, int] = results["updates"]
    if not counts.get("updates") and not counts.get("not_finite") and not counts.get("rollbacks"):
        return None
    words = {
        "skipped": "skipped by the method",
        "not_finite": "skipped as not finite",
        "rollbacks": "rolled back",
        "restarts": "resets to the source after three of these in a row",
    }
    told = [f"{counts[name]} {text}" for name, text in words.items() if counts.get(name)]
    trigger = results.get("trigger")
    if trigger:
        told.append(f"{trigger['rests']} of {trigger['batches']} batches rested at by the trigger")
    return ", ".join([f"{counts.get('updates', 0)} updates", *told])


def find_warnings(results: Results) -> Iterator[str]:
    """One line for everything that makes the scores less than they seem."""
    visits: list[dict[str, Any]] = results["visits"]
    yield from _rejected(results.get("updates") or {})
    skipped = sum(visit.get("skipped", 0) for visit in visits)
    if skipped:
        yield (
            f"{skipped} images could not be used and were skipped: the scores are incomplete "
            "(results.json names the images, skipped_images)"
        )
    strange = sum(visit.get("strange_labels", 0) for visit in visits)
    if strange:
        yield (
            f"{strange} images have labels outside the classes, such as labelIds in the place of "
            "trainIds: the scores are probably wrong"
        )
    unlabelled = [visit for visit in visits if visit[metric_of(visits)] is None]
    if unlabelled:
        names = ", ".join(sorted({visit["domain"] for visit in unlabelled}))
        yield f"no labelled pixel in {len(unlabelled)} visits ({names}): they have no score"
    yield from _collapsed(results["routes"])


def _rejected(counts: Mapping[str, int]) -> Iterator[str]:
    rejected = counts.get("not_finite", 0) + counts.get("rollbacks", 0)
    if rejected:
        tried = rejected + counts.get("updates", 0)
        yield (
            f"{rejected} of {tried} updates broke something and were not made or undone, and "
            f"{counts.get('restarts', 0)} times an expert was reset to the source: is "
            "method.optimizer.lr too large?"
        )


def _collapsed(routes: list[dict[str, Any]]) -> Iterator[str]:
    """Only the last round is looked at: what a model has become. A dropped frame says nothing."""
    last = [route for route in routes if route["round"] == routes[-1]["round"]]
    last = [route for route in last if route.get("handled") != "dropped"]
    known = [r["marginal_entropy"] for r in last if r.get("marginal_entropy") is not None]
    flat = sum(entropy < _COLLAPSED for entropy in known)
    if 2 * flat > len(last):
        yield (
            f"the predictions have collapsed: {flat} of {len(last)} in the last round are of one "
            "class only. Lower method.optimizer.lr, or take reservoir.preset=robust"
        )
    broken = len(last) - len(known)
    if broken and any("marginal_entropy" in route for route in last):
        yield f"{broken} of {len(last)} predictions in the last round are not finite"
