"""What came out of a stream, told to the record of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.outcome import Outcome
from ..errors import ReservoirError
from ..runs.record import RunRecord, VisitRecord
from .stream import StreamBatch

INTERVAL = 30.0
"""Seconds between two writes of the files, within a round."""


@dataclass(eq=False)
class StreamResults:
    """Scores batches: a visit is one domain in one round, whatever order its batches came in.

    Args:
        record: Where to note them.
        one_domain: Score all batches of a round together under this name, for streams whose
            domains change too often to have visits; routes keep the true names.
    """

    record: RunRecord
    one_domain: str | None = None
    _wrong: Counter[tuple[int, str]] = field(default_factory=Counter, init=False, repr=False)

    @property
    def images(self) -> int:
        """How many have been scored."""
        return sum(visit.n_images for visit in self.record.visits.values())

    def state_dict(self) -> dict[str, Any]:
        """The record so far, and what its scores are made from."""
        return {"record": self.record.state_dict(), "wrong": dict(self._wrong)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.record.load_state_dict(state["record"])
        self._wrong = Counter(state["wrong"])

    def add(self, batch: StreamBatch, outcome: Outcome) -> VisitRecord:
        """Note a batch; returns its visit as it is now."""
        classes, largest = outcome.logits.shape[1], int(batch.labels.max())
        strange = largest if largest >= classes else int(batch.labels.min())
        if not 0 <= strange < classes:
            raise ReservoirError(
                f"the model knows {classes} classes, but an image of "
                f"{self.one_domain or batch.domain} is of class {strange} (from 0): it is for "
                "another data set"
            )
        if self.record.routes:
            new_round = self.record.routes[-1]["round"] != batch.round
            self.record.write(every=0.0 if new_round else INTERVAL)
        visit = self.record.add_batch(
            batch.round, batch.domain, batch.index, outcome, self.one_domain
        )
        place = (visit.round, visit.domain)
        predicted = outcome.logits.argmax(dim=1).cpu()
        self._wrong[place] += int((predicted != batch.labels).sum())
        visit.score = 100 * self._wrong[place] / visit.n_images
        return visit
