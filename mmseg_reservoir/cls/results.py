"""What came out of a stream: the same ``results.json`` that segmentation writes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..core.losses import entropy
from ..core.pipeline import Outcome
from ..errors import ReservoirError
from ..report.record import installed_versions, write_results
from .stream import StreamBatch

COLUMNS = ("round", "domain", "error", "n_images", "k", "seconds_per_image")
PACKAGES = ("mmengine", "numpy", "scikit-learn", "timm", "peft", "pillow")
INTERVAL = 30.0
"""Seconds between two writes of the files, within a round."""


class ResultsRecord:
    """Collects errors and routes; the files are whole at every moment.

    A visit is one domain in one round, whatever order their batches came in.

    Args:
        about: What is known before the stream begins.
        folder: Where the files go.
        one_domain: Score all batches of a round together under this name, for streams whose
            domains change too often to have visits; routes keep the true names.
    """

    def __init__(
        self, about: Mapping[str, Any], folder: Path, one_domain: str | None = None
    ) -> None:
        self.folder = folder
        self.one_domain = one_domain
        self.results: dict[str, Any] = {
            "complete": False,
            **about,
            "versions": {
                "mmseg_reservoir": __version__,
                "torch": torch.__version__,
                **installed_versions(PACKAGES),
            },
            "visits": [],
            "routes": [],
        }
        self._visits: dict[tuple[int, str], dict[str, Any]] = {}
        self._wrong: dict[tuple[int, str], int] = {}
        self._round: int | None = None
        self._written = time.monotonic()

    def add(self, batch: StreamBatch, outcome: Outcome, seconds: float) -> dict[str, Any]:
        """Note a batch; returns its visit as it is now."""
        count, domain = len(batch.labels), self.one_domain or batch.domain
        if batch.labels.max() >= outcome.logits.shape[1]:
            raise ReservoirError(
                f"the model knows {outcome.logits.shape[1]} classes, but an image of {domain} is "
                f"of class {int(batch.labels.max())} (from 0): it is for another data set"
            )
        key = (batch.round, domain)
        if self._round is not None:
            self._maybe_write(new_round=self._round != batch.round)
        self._round = batch.round
        self.results["routes"].append(_route(batch, outcome, seconds / count))
        if key not in self._visits:
            self._wrong[key] = 0
            self._visits[key] = {
                "round": batch.round,
                "domain": domain,
                "error": 0.0,
                "n_images": 0,
                "k": outcome.k,
                "seconds_per_image": 0.0,
            }
            self.results["visits"].append(self._visits[key])
        visit = self._visits[key]
        predicted = outcome.logits.argmax(dim=1).cpu()
        self._wrong[key] += int((predicted != batch.labels).sum())
        total = visit["n_images"] + count
        before = visit["seconds_per_image"] * visit["n_images"]
        visit["seconds_per_image"] = (before + seconds) / total
        visit.update(n_images=total, k=outcome.k, error=100 * self._wrong[key] / total)
        return visit

    def finish(self, updates: Mapping[str, int], cpu_seconds: float) -> dict[str, Any]:
        """Mark the record as complete and write it."""
        self.results.update(complete=True, updates=dict(updates), cpu_seconds=cpu_seconds)
        self.write()
        return self.results

    def write(self) -> None:
        """Write the files."""
        rows = [[visit[column] for column in COLUMNS] for visit in self.results["visits"]]
        write_results(self.folder, self.results, [COLUMNS, *rows])
        self._written = time.monotonic()

    def _maybe_write(self, new_round: bool) -> None:
        if new_round or time.monotonic() - self._written > INTERVAL:
            self.write()


def _route(batch: StreamBatch, outcome: Outcome, seconds: float) -> dict[str, Any]:
    route, logits = outcome.route, outcome.logits.detach().float()
    return {
        "round": batch.round,
        "domain": batch.domain,
        "batch": batch.index,
        "n_images": len(batch.labels),
        "expert": route.index,
        "k": outcome.k,
        "weight": float(route.weights[route.index]),
        "opened": bool(route.is_new),
        "seconds": seconds,
        "entropy": _number(entropy(logits).mean()),
        "marginal_entropy": _number(_marginal_entropy(logits)),
    }


def _marginal_entropy(logits: Tensor) -> Tensor:
    p = logits.softmax(dim=1).mean(dim=0)
    return -(p * p.clamp_min(1e-12).log()).sum()


def _number(value: Tensor) -> float | None:
    """JSON has no NaN."""
    return float(value) if torch.isfinite(value) else None
