"""The base class of test streams: a plan of batches that are read when needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from ..datasets.base import DomainSet
from ..errors import ReservoirError
from ..io.files import digest
from ..option_types import Count, Natural, Positive

MOST_SLOTS = 100
"""Largest number of time slots over which a class is spread, as in RoTTA."""


@dataclass(frozen=True)
class StreamBatch:
    """One batch of a stream.

    Attributes:
        images: ``(N, 3, H, W)``, floats in [0, 1].
        labels: Classes ``(N,)``, int64, only for scores.
        domain: True domain, only for scores and oracle routers.
        round: Number of the pass over the domains, from 1.
        index: Number of the batch in the stream, from 0.
        severity: Severity of the corruption, if the stream sets it.
    """

    images: Tensor
    labels: Tensor
    domain: str
    round: int
    index: int
    severity: int | None = None


@dataclass(frozen=True)
class PlannedBatch:
    """A batch that is not read yet: indices of images of a domain."""

    domain: str
    round: int
    indices: np.ndarray
    severity: int | None = None


@dataclass(eq=False)
class Stream(ABC):
    """Rounds over the domains of a data set, in batches.

    A stream depends only on its seed and can be read several times.

    Args:
        data: Data set with the domains.
        batch_size: Images per batch. The last batch of a visit may be smaller.
        rounds: Number of passes over all images.
        seed: Seed of all random orders.
        shuffle: When to draw the order of a domain's images: ``"once"`` for all rounds, at each
            ``"visit"``, or ``"never"``.
        correlation: Concentration of a Dirichlet distribution that clusters the images of a class,
            0.1 in the paper. None does not cluster.
        workers: Number of threads that read ahead.
    """

    kind: ClassVar[str]
    scored_as: ClassVar[str | None] = None
    """Name under which all batches of a round are scored; None scores each domain."""

    data: DomainSet
    batch_size: Count = 200
    rounds: Count = 20
    seed: Natural = 0
    shuffle: Literal["once", "visit", "never"] = "once"
    correlation: Positive | None = None
    workers: Natural = 0

    def __post_init__(self) -> None:
        if self.correlation is not None and self.shuffle == "never":
            raise ReservoirError('correlation sets the order: leave out shuffle="never"')
        self._images = cache(self.data.domain)  # a domain is opened once

    @abstractmethod
    def plan(self) -> Iterator[PlannedBatch]:
        """Yield all batches in order, the same ones at each call."""

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.from_batch(0)

    def from_batch(self, start: int) -> Iterator[StreamBatch]:
        """Yield the batches from index ``start``. Earlier ones are not read."""
        steps = islice(enumerate(self.plan()), start, None)
        if self.workers == 0:
            for index, step in steps:
                yield self._read(index, step)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            waiting: deque[Future[StreamBatch]] = deque()
            for index, step in steps:
                waiting.append(pool.submit(self._read, index, step))
                if len(waiting) > self.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    @property
    def total(self) -> int | None:
        """Number of batches, None if it is unknown."""
        return len(self)

    def __len__(self) -> int:
        return sum(1 for _ in self.plan())

    def record(self) -> dict[str, Any]:
        """Return a description of the stream for the record of a run.

        ``order`` is a hash of all batches; ``manifests`` has a hash of the images of each domain.
        """
        order: list[bytes] = []
        images = batches = 0
        manifests: dict[str, str] = {}
        for step in self.plan():
            name = step.domain if step.severity is None else f"{step.domain} {step.severity}"
            if name not in manifests:
                manifests[name] = self._images(step.domain, step.severity).manifest()
            heading = f"{step.domain}\t{step.round}\t{step.severity}\t{len(step.indices)}\n"
            order += [heading.encode("utf-8"), np.asarray(step.indices, "<i8").tobytes()]
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
            "order": digest(order),
            "manifests": manifests,
            "data": self.data.describe(),
        }

    def _options(self) -> dict[str, Any]:
        """Return the options of a subclass for the record."""
        return {}

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _visit(
        self, round: int, domain: str, severity: int | None = None, position: int = 0
    ) -> list[PlannedBatch]:
        """Return the batches of one pass over one domain."""
        key = (round if self.shuffle == "visit" else 0, self.data.names.index(domain), position)
        labels, rng = self._images(domain, severity).labels, self._rng(*key)
        if self.correlation is not None:
            order = correlated(labels, self.correlation, rng)
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


def split_by_dirichlet(
    count: int, parts: int, concentration: float, rng: np.random.Generator
) -> list[int]:
    """Return sizes of ``parts`` that sum to ``count``, drawn from a symmetric Dirichlet."""
    shares = rng.dirichlet([concentration] * parts)
    cuts = np.floor(np.cumsum(shares)[:-1] * count).astype(int)
    return np.diff([0, *cuts, count]).tolist()


def correlated(
    labels: np.ndarray, concentration: float, rng: np.random.Generator, slots: int | None = None
) -> np.ndarray:
    """Return an order with clustered classes, as in NOTE and RoTTA (Yuan et al., CVPR 2023).

    The images of each class are spread over time slots by a draw from a Dirichlet distribution.
    With a smaller concentration, fewer slots get most of them.

    Args:
        labels: Class of every image.
        concentration: Concentration of the Dirichlet. RoTTA and the paper use 0.1.
        rng: Random generator.
        slots: Number of slots. Defaults to the number of classes, at most 100, as in RoTTA.
    """
    classes = np.unique(labels)
    slots = slots or min(len(classes), MOST_SLOTS)
    pieces: list[list[np.ndarray]] = [[] for _ in range(slots)]
    for label in classes:
        members = rng.permutation(np.flatnonzero(labels == label))
        sizes = split_by_dirichlet(len(members), slots, concentration, rng)
        for slot, piece in enumerate(np.split(members, np.cumsum(sizes)[:-1])):
            pieces[slot].append(piece)
    return np.concatenate([slot[i] for slot in pieces for i in rng.permutation(len(slot))])
