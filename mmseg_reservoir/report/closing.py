"""The tables and warnings at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..runs.reader import Results
from ..runs.visits import image_times, milliseconds_text
from .published import row_of
from .scores import metric_of, routing_purity
from .tables import published_table, visit_table

_COLLAPSED = 0.01
"""Entropy in nats below which a mean class distribution counts as a single class."""


def closing_tables(results: Results, warn: Callable[[str], object]) -> str:
    """Return the scores of a run, a summary of its routing, and its published row.

    ``warn`` receives one line for each part that cannot be made, such as the published row of an
    invalid ``metafile.yaml``. Such an error must not end a run that is complete.
    """
    texts = []
    for name, describe in _PARTS.items():
        try:
            texts.append(describe(results))
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            warn(f"cannot show {name} ({reason}); results.json is complete all the same")
    return "\n".join(filter(None, texts))


def _scores(results: Results) -> str:
    visits = results["visits"]
    metric = metric_of(visits)
    if visits and all(visit[metric] is None for visit in visits):
        return "nothing was scored: there were no labels, or they were not used"
    title = "Error (%)" if metric == "error" else metric
    return f"{title} by domain and visit\n{visit_table(visits)}"


def _extra_sets(results: Results) -> str | None:
    visits = results.get("also")
    if not visits:
        return None
    return f"{metric_of(visits)} of the extra evaluation sets by round\n{visit_table(visits)}"


def _routing(results: Results) -> str | None:
    if not results["reservoir"]:
        return None
    routes = results["routes"]
    return f"{routes[-1]['k']} experts, routing purity {routing_purity(routes):.3f}"


def update_line(results: Results) -> str | None:
    """Return a line with the numbers of updates, skipped and undone; None without updates."""
    counts: Mapping[str, int] = results["updates"]
    if not counts.get("updates") and not counts.get("not_finite") and not counts.get("rollbacks"):
        return None
    words = {
        "skipped": "skipped by the method",
        "not_finite": "skipped as not finite",
        "rollbacks": "rolled back",
        "restarts": "resets to the source after three of these in a row",
    }
    texts = [f"{counts[name]} {text}" for name, text in words.items() if counts.get(name)]
    trigger = results.get("trigger")
    if trigger:
        texts.append(f"{trigger['rests']} of {trigger['batches']} batches skipped by the trigger")
    updates = counts.get("updates", 0)
    return ", ".join([f"{updates} update{'s' * (updates != 1)}", *texts])


def _times(results: Results) -> str | None:
    times = image_times(results["routes"])
    return times and f"{milliseconds_text(times)} ms per image, median and quartiles"


def _clock(results: Results) -> str | None:
    if "clock" not in results:
        return None
    visits = results["visits"]
    images, adapted, missed = (
        sum(visit.get(name, 0) for visit in visits) for name in ("n_images", "adapted", "missed")
    )
    rate = results["clock"]["frame_rate"]
    return f"at {rate:g} frames per second: {missed} of {images} missed, {adapted} adapted to"


def _published(results: Results) -> str | None:
    row = row_of(results)
    table = published_table(results["visits"], row) if row else None
    return f"compared with the published row {row.name!r}\n{table}" if row and table else None


_PARTS: dict[str, Callable[[Results], str | None]] = {
    "the table of scores": _scores,
    "the extra evaluation sets": _extra_sets,
    "the routing": _routing,
    "the updates": update_line,
    "the times": _times,
    "the clock": _clock,
    "the published row": _published,
}


def run_warnings(results: Results) -> Iterator[str]:
    """Yield one line for each reason to doubt the scores."""
    visits: list[dict[str, Any]] = results["visits"]
    counts: Mapping[str, int] = results.get("updates") or {}
    rejected = counts.get("not_finite", 0) + counts.get("rollbacks", 0)
    if rejected:
        yield (
            f"{rejected} of {rejected + counts.get('updates', 0)} updates were skipped as not "
            f"finite or rolled back, and an expert was reset to the source "
            f"{counts.get('restarts', 0)} times: is method.optimizer.lr too large?"
        )
    skipped = sum(visit.get("skipped", 0) for visit in visits)
    if skipped:
        yield (
            f"{skipped} images could not be used and were skipped: the scores are incomplete "
            "(the images are listed in results.json, skipped_images)"
        )
    strange = sum(visit.get("strange_labels", 0) for visit in visits)
    if strange:
        yield (
            f"{strange} images have labels outside the classes, such as labelIds instead of "
            "trainIds: the scores are probably wrong"
        )
    unlabeled = [visit for visit in visits if visit[metric_of(visits)] is None]
    if unlabeled:
        names = ", ".join(sorted({visit["domain"] for visit in unlabeled}))
        yield f"no labeled pixel in {len(unlabeled)} visits ({names}): they have no score"
    yield from _collapse(results["routes"])


def _collapse(routes: list[dict[str, Any]]) -> Iterator[str]:
    # Only the last round shows the final model. Dropped frames have no prediction.
    last = [route for route in routes if route["round"] == routes[-1]["round"]]
    last = [route for route in last if route.get("handled") != "dropped"]
    finite = [r["marginal_entropy"] for r in last if r.get("marginal_entropy") is not None]
    collapsed = sum(entropy < _COLLAPSED for entropy in finite)
    if 2 * collapsed > len(last):
        yield (
            f"the predictions have collapsed: {collapsed} of {len(last)} in the last round have "
            "only one class. Lower method.optimizer.lr, or use reservoir.preset=robust"
        )
    broken = len(last) - len(finite)
    if broken and any("marginal_entropy" in route for route in last):
        yield f"{broken} of {len(last)} predictions in the last round are not finite"
