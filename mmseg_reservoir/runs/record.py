"""The record of a run: ``results.json`` and ``results.csv``."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import io
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import ReservoirError
from ..io.files import write_text
from .route_log import RouteLog
from .style_sample import StyleSample
from .visits import Spread, VisitRecord, finite, image_times

if TYPE_CHECKING:  # tables are made without torch, which takes seconds to import
    from ..core.outcome import Outcome

PACKAGES = {
    "mIoU": ("mmengine", "mmsegmentation", "mmcv", "mmcv-lite", "opencv-python", "numpy", "peft"),
    "error": ("mmengine", "numpy", "scikit-learn", "timm", "peft", "pillow"),
}
"""Other packages that can change results, by metric."""


@dataclass
class RunRecord:
    """The visits and routes of a run.

    ``results.json`` and ``results.csv`` are replaced as a whole, so an interruption damages
    neither. Routes are appended to ``routes.jsonl``. A complete run has them in ``results.json``.

    Args:
        folder: Folder of the files.
        metric: ``"mIoU"`` or ``"error"``.
        header: Entries that are set before the stream begins.
    """

    folder: Path
    metric: str
    header: Mapping[str, Any]
    visits: dict[tuple[int, str], VisitRecord] = field(default_factory=dict, init=False)
    """By round and domain, in the order in which they began."""
    routes: list[dict[str, Any]] = field(default_factory=list, init=False)
    """Entries of ``results.json``, one per image (segmentation) or batch (classification)."""
    styles: StyleSample = field(default_factory=StyleSample, init=False)
    extra_scores: list[dict[str, Any]] = field(default_factory=list, init=False)
    """Scores of the extra evaluation sets, each like the entry of a visit."""

    def __post_init__(self) -> None:
        self._versions = versions(PACKAGES[self.metric])
        self._stage_seconds: dict[str, float] = {}
        self._end: dict[str, Any] | None = None
        self._log = RouteLog(self.folder)
        self._written = time.monotonic()

    def add_images(
        self, round: int, domain: str, images: Sequence[str], outcome: Outcome
    ) -> VisitRecord:
        """Record the routes of a batch's images; return their visit, without its score.

        Args:
            round: Number of the round, from 1.
            domain: True domain.
            images: Paths of the images.
            outcome: Outcome of the batch.
        """
        self._observe(outcome)
        visit_key = {"round": round, "domain": domain}
        for image, route in zip(images, outcome.to_json(len(images)), strict=True):
            visit = self._add({**visit_key, "image": image, "n_images": 1, **route}, domain)
        return visit

    def add_batch(
        self, round: int, domain: str, batch: int, outcome: Outcome, scored_as: str | None = None
    ) -> VisitRecord:
        """Record the route of a batch; return its visit, without its score.

        Args:
            round: Number of the round, from 1.
            domain: True domain.
            batch: Number of the batch in the stream, from 0.
            outcome: Outcome of the batch.
            scored_as: Domain of the visit. Defaults to the true domain.
        """
        self._observe(outcome)
        head = {"round": round, "domain": domain, "batch": batch, "n_images": len(outcome.logits)}
        (route,) = outcome.to_json()
        return self._add({**head, **route}, scored_as or domain)

    def _observe(self, outcome: Outcome) -> None:
        if outcome.style is not None:
            self.styles.add(len(self.routes), outcome.style)
        for stage, seconds in outcome.stage_seconds.items():
            self._stage_seconds[stage] = self._stage_seconds.get(stage, 0.0) + seconds

    def _add(self, route: dict[str, Any], scored_as: str) -> VisitRecord:
        self.routes.append(route)
        visit = self.visit(route["round"], scored_as)
        visit.n_images += route["n_images"]
        visit.k = route["k"]
        if route["seconds"] is not None:
            visit.seconds = (visit.seconds or 0.0) + route["seconds"] * route["n_images"]
        if "handled" in route:
            visit.adapted = (visit.adapted or 0) + (route["handled"] == "adapted")
            visit.missed = (visit.missed or 0) + (route["handled"] in ("answered", "dropped"))
        return visit

    def visit(self, round: int, domain: str) -> VisitRecord:
        """Return the record of a visit, which the first call creates."""
        return self.visits.setdefault((round, domain), VisitRecord(round, domain))

    def finish(self, updates: Mapping[str, int], **more: Any) -> dict[str, Any]:
        """Mark the record as complete, write it, and return the content of ``results.json``.

        Args:
            updates: Counts of the method's updates.
            **more: Other entries that are available only at the end.
        """
        times = image_times(self.routes)
        timed = {} if times is None else times.to_json()
        self._end = {"updates": dict(updates), **more, **timed, "stages": self._stages()}
        self.write()
        return self.to_json()

    def state_dict(self) -> dict[str, Any]:
        """Write the routes to ``routes.jsonl``, and return the rest of the record."""
        self._append_routes()
        return {
            "about": strict_json(self.header),
            "visits": [dict(vars(visit)) for visit in self.visits.values()],
            "n_routes": len(self.routes),
            "styles": self.styles.state_dict(),
            "stages": dict(self._stage_seconds),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        if "n_routes" not in state:
            raise ReservoirError(
                "the state was saved by an earlier version, which kept its routes elsewhere: start "
                "the run again with --overwrite"
            )
        self.header = json.loads(state["about"])
        visits = [VisitRecord(**visit) for visit in state["visits"]]
        self.visits = {(visit.round, visit.domain): visit for visit in visits}
        self.styles.load_state_dict(state["styles"])
        self._stage_seconds = dict(state["stages"])
        self.routes = self._log.restore(state["n_routes"])

    def _times(self) -> dict[tuple[int, str], Spread]:
        """Return the seconds per image by visit."""
        # A stream that is scored as one domain has one visit, but many domains, per round.
        last = {round: (round, domain) for round, domain in self.visits}
        seconds = defaultdict(list)
        for route in self.routes:
            if route["seconds"] is not None:
                key = route["round"], route["domain"]
                visit = key if key in self.visits else last[route["round"]]
                seconds[visit].append(route["seconds"])
        return {key: Spread.of(values) for key, values in seconds.items()}

    def _stages(self) -> dict[str, float] | None:
        """Return the seconds per image in each stage; None if nothing adapted."""
        total = sum(visit.seconds or 0.0 for visit in self.visits.values())
        images = sum(visit.n_images for visit in self.visits.values())
        if not self._stage_seconds or not total:
            return None
        stages = dict(self._stage_seconds)
        stages["adapt and predict"] = max(total - sum(stages.values()), 0.0)
        return {name: seconds / images for name, seconds in stages.items()}

    def to_json(self, with_routes: bool = True) -> dict[str, Any]:
        """Return everything as plain data. Without routes, return their number instead."""
        times = self._times()
        return {
            "complete": self._end is not None,
            **self.header,
            "versions": self._versions,
            "visits": [
                visit.to_json(self.metric, times.get(key)) for key, visit in self.visits.items()
            ],
            **({"routes": self.routes} if with_routes else {"n_routes": len(self.routes)}),
            **({"also": self.extra_scores} if self.extra_scores else {}),
            **(self._end or {}),
        }

    def write(self, every: float = 0.0) -> None:
        """Write ``results.json`` and ``results.csv``, which has one row per visit.

        The sample of styles is written to ``styles.safetensors``. New routes are written to
        ``routes.jsonl``, or all routes to ``results.json`` if the run is complete. Nothing is
        written within ``every`` seconds after the last call that wrote.
        """
        if time.monotonic() - self._written < every:
            return
        complete = self._end is not None
        if not complete:
            self._append_routes()
        results = self.to_json(with_routes=complete)
        write_text(self.folder / "results.json", strict_json(results))
        write_text(self.folder / "results.csv", self._to_csv(results["visits"]))
        self.styles.write(self.folder)
        if complete:
            self._log.remove()
        self._written = time.monotonic()

    def _append_routes(self) -> None:
        self._log.append(self.routes[self._log.count :])

    def _to_csv(self, visits: list[dict[str, Any]]) -> str:
        columns = ("round", "domain", self.metric, "n_images", "k", "seconds_per_image")
        classes = list(visits[0].get("per_class", {})) if visits else []
        rows = [
            [visit[name] for name in columns]
            + [visit.get("per_class", {}).get(name) for name in classes]
            for visit in visits
        ]
        table = io.StringIO()
        csv.writer(table).writerows([[*columns, *classes], *finite(rows)])
        return table.getvalue()


def about_pipeline(pipeline: Any) -> dict[str, Any]:
    """Return the entries of a record about a pipeline, or about the unadapted model for None."""
    method, router = getattr(pipeline, "method", None), getattr(pipeline, "router", None)
    return {
        "method": None if method is None else type(method).__name__,
        "reservoir": router is not None,
        "tau": getattr(router, "tau", None),
    }


def strict_json(value: Any) -> str:
    """Return JSON that every reader accepts, with null for numbers that are not finite."""
    return json.dumps(finite(value), indent=1, default=str, allow_nan=False)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of this package, of torch, and of other installed packages."""
    import torch

    installed = {"mmseg_reservoir": __version__, "torch": str(torch.__version__)}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed
