"""A resumable test of a classifier on a stream, with its scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..core.outcome import Outcome
from ..errors import ReservoirError
from ..report.progress import StreamProgress
from ..runs.generators import load_generators, save_generators
from ..runs.record import RunRecord, VisitRecord
from ..runs.run_saver import RunSaver
from .classifier import AdaptiveClassifier
from .stream import Stream, StreamBatch
from .streams import CCCStream

WRITE_INTERVAL = 30.0
"""Minimum time between two writes of the record within a round, in seconds."""


@dataclass(eq=False)
class StreamTest:
    """A test of a model on a stream.

    A visit is one domain in one round, in whatever order its batches arrive.

    Args:
        model: Model that adapts.
        stream: Stream of batches.
        record: Record that receives routes and scores.
        device: Device of the model.
    """

    model: AdaptiveClassifier
    stream: Stream | CCCStream
    record: RunRecord
    device: torch.device
    batches: int = field(default=0, init=False)
    """Number of batches done."""

    def __post_init__(self) -> None:
        self._wrong: Counter[tuple[int, str]] = Counter()
        self._earlier, self._start = 0.0, time.process_time()

    @property
    def cpu_seconds(self) -> float:
        """Processor time in seconds, without steps that were lost when a run was killed."""
        return self._earlier + time.process_time() - self._start

    @property
    def images(self) -> int:
        """Number of scored images."""
        return sum(visit.n_images for visit in self.record.visits.values())

    def run(self, saver: RunSaver, progress: StreamProgress) -> None:
        """Test the model on the rest of the stream."""
        progress.skip(self.batches)
        try:
            for batch in self.stream.from_batch(self.batches):
                new_round = self._starts_round(batch)
                outcome = self._step(batch)
                visit = self.score(batch, outcome)
                progress.advance(
                    visit.round,
                    visit.domain,
                    expert=outcome.expert,
                    k=visit.k,
                    score=f"error {visit.score:.1f}",
                )
                self.batches = batch.index + 1
                saver.after(self.images, self.state_dict, landmark=new_round)
        except BaseException:
            if self.record.routes:
                self.record.write()  # marked as incomplete
            raise

    def score(self, batch: StreamBatch, outcome: Outcome) -> VisitRecord:
        """Record the outcome of a batch; return its visit with the new score."""
        classes, largest = outcome.logits.shape[1], int(batch.labels.max())
        label = largest if largest >= classes else int(batch.labels.min())
        if not 0 <= label < classes:
            raise ReservoirError(
                f"the model has {classes} classes, but an image of "
                f"{self.stream.scored_as or batch.domain} is of class {label} (from 0): it is for "
                "another data set"
            )
        if self.record.routes:
            self.record.write(every=0.0 if self._starts_round(batch) else WRITE_INTERVAL)
        visit = self.record.add_batch(
            batch.round, batch.domain, batch.index, outcome, self.stream.scored_as
        )
        key = (visit.round, visit.domain)
        self._wrong[key] += int((outcome.logits.argmax(dim=1).cpu() != batch.labels).sum())
        visit.score = 100 * self._wrong[key] / visit.n_images
        return visit

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next batch depends on."""
        return {
            "batches": self.batches,
            "cpu_seconds": self.cpu_seconds,
            "pipeline": self.model.pipeline.state_dict(),
            "results": {"record": self.record.state_dict(), "wrong": dict(self._wrong)},
            "generators": save_generators(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.batches = state["batches"]
        self._earlier, self._start = state["cpu_seconds"], time.process_time()
        self.model.pipeline.load_state_dict(state["pipeline"])
        self.record.load_state_dict(state["results"]["record"])
        self._wrong = Counter(state["results"]["wrong"])
        load_generators(state["generators"])

    def _starts_round(self, batch: StreamBatch) -> bool:
        routes = self.record.routes
        return bool(routes) and routes[-1]["round"] != batch.round

    def _step(self, batch: StreamBatch) -> Outcome:
        images = batch.images.to(self.device)
        start = time.perf_counter()
        outcome = self.model.step(images, domain=batch.domain)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return replace(outcome, seconds=time.perf_counter() - start)
