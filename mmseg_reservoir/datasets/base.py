"""The interface of a data set: domains by name, each with labeled images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ReservoirError
from ..io.files import digest
from ..registry import suggest

if TYPE_CHECKING:  # layouts are read without torch: its import takes seconds
    from torch import Tensor

SEVERITIES = (1, 2, 3, 4, 5)


class LabeledImages(ABC):
    """The images of one domain, which :meth:`read` decodes."""

    labels: np.ndarray
    """Class of every image, int64."""

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def read(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """Return images ``(N, 3, H, W)``, floats in [0, 1]."""

    def manifest(self) -> str:
        """Return a hash that identifies the images, here a hash of their labels in order."""
        return digest([np.asarray(self.labels, "<i8").tobytes()])

    def batch(self, indices: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor]:
        """Return images ``(N, 3, H, W)`` and labels ``(N,)``, int64."""
        import torch

        # A copy, because labels may be mapped from a read-only file.
        return self.read(indices), torch.from_numpy(np.array(self.labels[indices], np.int64))


class ArrayImages(LabeledImages):
    """Images from an array ``(n, H, W, 3)`` of bytes, such as a mapped ``.npy`` file."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != np.uint8:
            raise ReservoirError(
                f"images must be bytes (n, H, W, 3), got {pixels.dtype} {pixels.shape}"
            )
        if labels.shape != pixels.shape[:1]:
            raise ReservoirError(f"{len(pixels)} images, but labels of shape {labels.shape}")
        self.pixels = pixels
        self.labels = np.asarray(labels, np.int64)

    def read(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        import torch

        pixels = torch.from_numpy(np.ascontiguousarray(self.pixels[np.asarray(indices, np.int64)]))
        return pixels.permute(0, 3, 1, 2).float().div_(255).contiguous()


class DomainSet(ABC):
    """A data set of several domains.

    Args:
        names: Domains in the order of the stream. None uses all published domains.
        published: Valid names of domains.
        severity: Default severity of :meth:`domain`. None for a set without severities.
    """

    title: str
    classes: int

    def __init__(
        self, names: Sequence[str] | None, published: Sequence[str], severity: int | None = None
    ) -> None:
        if isinstance(names, str):
            raise ReservoirError(f"the domains must be a list, got {names!r}: write [{names}]")
        self.names = tuple(published if names is None else names)
        self.severity = severity
        for name in self.names:
            if name not in published:
                raise ReservoirError(
                    f"{self.title} has no domain {name!r}{suggest(name, published)}"
                )
        if not self.names or len(set(self.names)) < len(self.names):
            raise ReservoirError(f"name each domain of {self.title} once, got {list(self.names)}")
        if severity is not None:
            check_severity(severity)

    def domain(self, name: str, severity: int | None = None) -> LabeledImages:
        """Return the images of a domain. The severity defaults to that of the data set."""
        if name not in self.names:
            raise ReservoirError(f"no domain {name!r} was asked for{suggest(name, self.names)}")
        if severity is not None:
            if self.severity is None:
                raise ReservoirError(f"{self.title} has no severities: leave severity out")
            check_severity(severity)
        return self._open(name, self.severity if severity is None else severity)

    def describe(self) -> dict[str, Any]:
        """Return title, domains and severity for the record of a run."""
        return {"title": self.title, "domains": list(self.names), "severity": self.severity}

    @abstractmethod
    def _open(self, name: str, severity: int | None) -> LabeledImages:
        """Return the images of a domain. The arguments are checked already."""


def check_severity(severity: int) -> None:
    """Raise an error if a severity is not 1 to 5."""
    if severity not in SEVERITIES:
        raise ReservoirError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}")
