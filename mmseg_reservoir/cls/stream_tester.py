"""A test of a classifier on its way through a stream: it can be saved, and go on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..core.outcome import Outcome
from ..report.progress import StreamProgress
from ..runs.generators import load_generators, save_generators
from ..runs.run_saver import RunSaver
from .classifier import AdaptiveClassifier
from .stream import Stream, StreamBatch
from .stream_results import StreamResults
from .streams import CCCStream


@dataclass(eq=False)
class StreamTest:
    """Gives batch after batch to a model, scores what it says, and saves where it is.

    Args:
        model: The model.
        stream: The stream.
        results: Where the scores go.
        device: Where the model is.
    """

    model: AdaptiveClassifier
    stream: Stream | CCCStream
    results: StreamResults
    device: torch.device
    batches: int = field(default=0, init=False)
    """How many are done."""

    def __post_init__(self) -> None:
        self._earlier, self._start = 0.0, time.process_time()

    @property
    def cpu_seconds(self) -> float:
        """Time of the processor, without what is lost by a kill."""
        return self._earlier + time.process_time() - self._start

    def run(self, saver: RunSaver, progress: StreamProgress) -> None:
        """Go through the rest of the stream."""
        record = self.results.record
        progress.skip(self.batches)
        try:
            for batch in self.stream.from_batch(self.batches):
                new_round = bool(record.routes) and record.routes[-1]["round"] != batch.round
                outcome = self._step(batch)
                visit = self.results.add(batch, outcome)
                progress.advance(
                    visit.round,
                    visit.domain,
                    expert=outcome.expert,
                    k=visit.k,
                    score=f"error {visit.score:.1f}",
                )
                self.batches = batch.index + 1
                saver.after(self.results.images, self.state_dict, landmark=new_round)
        except BaseException:
            if record.routes:
                record.write()  # marked as incomplete
            raise

    def state_dict(self) -> dict[str, Any]:
        """All that the next batch depends on."""
        return {
            "batches": self.batches,
            "cpu_seconds": self.cpu_seconds,
            "pipeline": self.model.pipeline.state_dict(),
            "results": self.results.state_dict(),
            "generators": save_generators(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.batches = state["batches"]
        self._earlier, self._start = state["cpu_seconds"], time.process_time()
        self.model.pipeline.load_state_dict(state["pipeline"])
        self.results.load_state_dict(state["results"])
        load_generators(state["generators"])

    def _step(self, batch: StreamBatch) -> Outcome:
        images = batch.images.to(self.device)
        start = time.perf_counter()
        outcome = self.model.step(images, domain=batch.domain)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return replace(outcome, seconds=time.perf_counter() - start)
