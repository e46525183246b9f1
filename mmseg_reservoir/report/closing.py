"""What a run says when it is finished."""

from __future__ import annotations

from collections.abc import Callable

from ..runs.image_times import image_times, milliseconds_text
from .published import published_table, row_of
from .run_warnings import find_warnings, update_line
from .tables import Results, metric_of, routing_purity, visit_table

_TITLES = {"mIoU": "mIoU by condition and visit", "error": "Error (%) by domain and visit"}


def closing_tables(results: Results, warn: Callable[[str], object]) -> str:
    """The scores, how the routing went, and the run beside its published row.

    Args:
        results: The content of a ``results.json`` that has been written as complete.
        warn: Gets one line about each part that cannot be made. None of them is worth more than
            the run, which must end well whatever a user's ``metafile.yaml`` holds.
    """
    texts = []
    for name, describe in _PARTS.items():
        try:
            texts.append(describe(results))
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            warn(f"cannot show {name} ({reason}); results.json is complete all the same")
    return "\n".join(filter(None, texts))


def tell_troubles(results: Results, warn: Callable[[str], object]) -> None:
    """Warn of all that makes the scores less than they seem; after the tables, to be seen."""
    for trouble in find_warnings(results):
        warn(trouble)


def _scores(results: Results) -> str:
    visits = results["visits"]
    if visits and all(visit[metric_of(visits)] is None for visit in visits):
        return "nothing was scored: there were no labels, or they were not to be looked at"
    return f"{_TITLES[metric_of(visits)]}\n{visit_table(visits)}"


def _also(results: Results) -> str | None:
    also = results.get("also")
    if not also:
        return None
    return f"{metric_of(also)} of sets beside the stream, after every round\n{visit_table(also)}"


def _routing(results: Results) -> str | None:
    if not results["reservoir"]:
        return None
    routes = results["routes"]
    return f"{routes[-1]['k']} experts, routing purity {routing_purity(routes):.3f}"


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


def _beside_published(results: Results) -> str | None:
    row = row_of(results)
    beside = row and published_table(results["visits"], row)
    return beside and f"beside the published row {row.name!r}\n{beside}"


_PARTS: dict[str, Callable[[Results], str | None]] = {
    "the table of scores": _scores,
    "the sets beside the stream": _also,
    "the routing": _routing,
    "the updates": update_line,
    "the times": _times,
    "the clock": _clock,
    "the published row": _beside_published,
}
