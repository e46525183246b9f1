"""The streams of the paper (Sec. 3.1 and the appendix on further evaluations).

Tables of classification have one column per round: the error over all its batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from ..config.schema import Options, pick
from ..datasets.base import DomainSet, check_severity
from ..datasets.ccc import CCC, Sample
from ..errors import ReservoirError
from ..option_types import Count, Positive
from ..registry import register
from .stream import PlannedBatch, Stream, StreamBatch, split_by_dirichlet

RAMP = (1, 2, 3, 4, 5, 4, 3, 2, 1)


@register("stream", "csc")
@dataclass(eq=False)
class RecurringStream(Stream):
    """Recurring Continual Structured Change (CSC): the same order of domains in each round."""

    kind: ClassVar[str] = "csc"

    def plan(self) -> Iterator[PlannedBatch]:
        for round, domain in product(range(1, self.rounds + 1), self.data.names):
            yield from self._visit(round, domain)


@register("stream", "cdc")
@dataclass(eq=False)
class DynamicStream(Stream):
    """Recurring Continual Dynamic Change (CDC): batches of one domain each, in random order.

    Every round contains each image once.

    Args:
        turns: ``"dirichlet"`` for visits of random length, as in DPCore, the origin of CDC;
            ``"uniform"`` for a new draw at every batch. The paper does not specify this.
        concentration: Concentration of the Dirichlet distribution.
        slots: Number of time slots over which the batches of a domain are spread.
    """

    kind: ClassVar[str] = "cdc"

    turns: Literal["dirichlet", "uniform"] = "dirichlet"
    concentration: Positive = 1.0
    slots: Count = 3

    def plan(self) -> Iterator[PlannedBatch]:
        for round in range(1, self.rounds + 1):
            visits = [self._visit(round, domain) for domain in self.data.names]
            counts = [len(steps) for steps in visits]
            rng = self._rng(round, len(visits), 0)  # no domain has this number
            if self.turns == "uniform":
                turns = uniform_turns(counts, rng)
            else:
                turns = dirichlet_turns(counts, rng, self.concentration, self.slots)
            left = [iter(steps) for steps in visits]
            for domain in turns:
                yield next(left[domain])

    def _options(self) -> dict[str, Any]:
        if self.turns == "uniform":
            return {"turns": self.turns}
        return {"turns": self.turns, "concentration": self.concentration, "slots": self.slots}


@register("stream", "gradual")
@dataclass(eq=False)
class GradualStream(Stream):
    """CSC with severities that rise and fall: 1, 2, 3, 4, 5, 4, 3, 2, 1.

    Args:
        severities: Severities of a visit in order. Each one has all images of the domain.
    """

    kind: ClassVar[str] = "gradual"

    severities: Sequence[int] = RAMP

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.severity is None or not self.severities:
            raise ReservoirError(
                f"a gradual stream needs severities, and a data set that has them: got "
                f"{list(self.severities)}, and {self.data.title} has "
                f"{'none' if self.data.severity is None else '1 to 5'}"
            )
        for severity in self.severities:
            check_severity(severity)

    def plan(self) -> Iterator[PlannedBatch]:
        for round, domain in product(range(1, self.rounds + 1), self.data.names):
            for position, severity in enumerate(self.severities):
                yield from self._visit(round, domain, severity, position)

    def _options(self) -> dict[str, Any]:
        return {"severities": list(self.severities)}


@register("stream", "ccc")
@dataclass(eq=False)
class CCCStream:
    """Continuously Changing Corruptions (CCC): one pass in the order of the generator.

    Args:
        data: Run of CCC.
        batch_size: Images per batch.
        interval: Batches per round. A round is a column of the paper's tables.
        limit: Number of batches. Defaults to all; the paper's tables have 80,400.
    """

    kind: ClassVar[str] = "ccc"
    rounds: ClassVar[int | None] = None

    data: CCC
    batch_size: Count = 64
    interval: Count = 6700
    limit: Count | None = None

    @property
    def scored_as(self) -> str:
        """Name under which all batches of a round are scored, as domains change inside batches."""
        return self.data.title

    @property
    def total(self) -> int | None:
        """Number of batches, None if it is unknown."""
        return self.limit

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.from_batch(0)

    def from_batch(self, start: int) -> Iterator[StreamBatch]:
        """Yield the batches from index ``start``. Earlier images are not decoded."""
        samples = self.data.from_image(start * self.batch_size)
        for index in islice(count(), start, self.limit):
            batch: list[Sample] = list(islice(samples, self.batch_size))
            if not batch:
                return
            yield StreamBatch(
                torch.stack([sample.image for sample in batch]),
                torch.tensor([sample.label for sample in batch]),
                batch[0].domain,
                index // self.interval + 1,
                index,
            )

    def record(self) -> dict[str, Any]:
        """Return a description of the stream for the record; the shards determine the order."""
        return {
            "kind": self.kind,
            "seed": None,
            "domains": None,
            "run": self.data.folder.name,
            "batch_size": self.batch_size,
            "interval": self.interval,
            "limit": self.limit,
            "shards": len(self.data.shards),
            "order": self.data.manifest(),
        }


def build_stream(options: Options, data: DomainSet | CCC, seed: int = 0) -> Stream | CCCStream:
    """Build a stream from options such as ``dict(type="csc", rounds=20)``.

    The options may contain another ``seed``.
    """
    choice = pick("stream", options, "stream", default="csc", injected=("data",))
    if (choice.factory is CCCStream) != isinstance(data, CCC):
        raise ReservoirError(f"stream {choice.name!r} does not fit {data.title}: CCC needs 'ccc'")
    return choice.build(data=data, seed=seed)


def uniform_turns(batches: list[int], rng: np.random.Generator) -> list[int]:
    """Return the domain of every batch in a random order; all orders are equally likely."""
    return rng.permutation(np.repeat(np.arange(len(batches)), batches)).tolist()


def dirichlet_turns(
    batches: list[int], rng: np.random.Generator, concentration: float = 1.0, slots: int = 3
) -> list[int]:
    """Return the domain of every batch, with domains that recur at irregular times.

    This is Continual Dynamic Change as in DPCore (Zhang et al., ICML 2025). The batches of each
    domain are spread over the slots by a draw from a Dirichlet distribution. Within a slot, the
    domains are in random order.
    """
    sizes = [split_by_dirichlet(count, slots, concentration, rng) for count in batches]
    turns = []
    for slot in range(slots):
        for domain in rng.permutation(len(batches)):
            turns += [int(domain)] * sizes[domain][slot]
    return turns
