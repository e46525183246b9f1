"""What a test stream is: a plan of batches, which are read when their turn comes."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from ..datasets.base import DomainSet
from ..errors import ReservoirError
from ..option_types import Count, Natural, Positive
from . import orders


@dataclass(frozen=True)
class StreamBatch:
    """One batch.

    Attributes:
        images: ``(N, 3, H, W)``, floats in [0, 1].
        labels: ``(N,)``, int64; for scores only.
        domain: The true domain; only an oracle may look at it.
        round: How often the domains have come round, from 1: the visit that a score belongs to.
        index: The number of the batch in the stream, from 0.
        severity: Where the stream sets it, else None.
    """

    images: Tensor
    labels: Tensor
    domain: str
    round: int
    index: int
    severity: int | None = None


@dataclass(frozen=True)
class PlannedBatch:
    """A batch that has not been read: the images of a domain by number."""

    domain: str
    round: int
    indices: np.ndarray
    severity: int | None = None


@dataclass(eq=False)
class Stream(ABC):
    """Rounds over the domains of a data set.

    A stream depends on its seed, never on the global generators of torch or numpy, and gives the
    same batches however often it is read.

    Args:
        data: The domains.
        batch_size: Images in a batch; the last one of a visit may be smaller.
        rounds: How often every image comes.
        seed: Of all orders.
        shuffle: The images of a domain are in one random order in all rounds (``"once"``), in a
            new one at each visit (``"visit"``), or as stored (``"never"``).
        correlation: Concentration of a Dirichlet distribution by which images of a class come
            together, 0.1 in the paper; None for classes in random order.
        workers: Threads that read ahead; with 0 a batch is read when it is asked for.
    """

    kind: ClassVar[str]

    data: DomainSet
    batch_size: Count = 200
    rounds: Count = 20
    seed: Natural = 0
    shuffle: Literal["once", "visit", "never"] = "once"
    correlation: Positive | None = None
    workers: Natural = 0

    def __post_init__(self) -> None:
        if self.correlation is not None and self.shuffle == "never":
            raise ReservoirError('correlation sets an order of its own: leave out shuffle="never"')
        self._images = cache(self.data.domain)  # a domain is opened once

    @abstractmethod
    def plan(self) -> Iterator[PlannedBatch]:
        """All batches in order, the same ones each time."""

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.from_batch(0)

    def from_batch(self, start: int) -> Iterator[StreamBatch]:
        """The stream from this batch on; those before it are not read."""
        steps = islice(enumerate(self.plan()), start, None)
        if self.workers == 0:
            for index, step in steps:
                yield self._read(index, step)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            waiting = deque()
            for index, step in steps:
                waiting.append(pool.submit(self._read, index, step))
                if len(waiting) > self.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def __len__(self) -> int:
        """Batches in the stream."""
        return sum(1 for _ in self.plan())

    def record(self) -> dict[str, Any]:
        """What the stream was, as plain data: ``order`` is a hash over every batch.

        The ``manifests`` are hashes over the images of every domain.
        """
        digest = hashlib.sha256()
        images = batches = 0
        manifests: dict[str, str] = {}
        for step in self.plan():
            name = step.domain if step.severity is None else f"{step.domain} {step.severity}"
            if name not in manifests:
                manifests[name] = self._images(step.domain, step.severity).manifest()
            heading = f"{step.domain}\t{step.round}\t{step.severity}\t{len(step.indices)}\n"
            digest.update(heading.encode("utf-8"))
            digest.update(np.asarray(step.indices, "<i8").tobytes())
            images += len(step.indices)
            batches += 1
        return {
            "kind": self.kind,
            "seed": self.seed,
            "domains": list(self.data.names),
            "rounds": self.rounds,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "correlation": self.correlation,
            **self._options(),
            "batches": batches,
            "images": images,
            "order": digest.hexdigest(),
            "manifests": manifests,
            "data": self.data.describe(),
        }

    def _options(self) -> dict[str, Any]:
        """What else belongs in the record."""
        return {}

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _visit(
        self, round: int, domain: str, severity: int | None = None, position: int = 0
    ) -> list[PlannedBatch]:
        """The batches of one pass over one domain."""
        key = (round if self.shuffle == "visit" else 0, self.data.names.index(domain), position)
        labels, rng = self._images(domain, severity).labels, self._rng(*key)
        if self.correlation is not None:
            order = orders.correlated(labels, self.correlation, rng)
        elif self.shuffle == "never":
            order = np.arange(len(labels))
        else:
            order = rng.permutation(len(labels))
        starts = range(0, len(order), self.batch_size)
        parts = [order[start : start + self.batch_size] for start in starts]
        return [PlannedBatch(domain, round, part, severity) for part in parts]

    def _read(self, index: int, step: PlannedBatch) -> StreamBatch:
        images, labels = self._images(step.domain, step.severity).batch(step.indices)
        return StreamBatch(images, labels, step.domain, step.round, index, step.severity)
