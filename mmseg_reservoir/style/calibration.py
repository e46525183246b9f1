"""Calibration: what the source domain looks like, and how far styles may scatter within it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..files import read_tensors, write_tensors
from .distance import Distance, euclidean

_FORMAT = "mmseg_reservoir.calibration.2"


@dataclass(frozen=True)
class Calibration:
    """Source styles, from which threshold and first centroid follow.

    The styles themselves are kept (2.5 MB for 2000 of them), so that another quantile needs no
    new pass over the source images.

    Args:
        styles: Style vectors of source batches, ``(N, d)``.
        about: Everything that the styles depend on, as plain JSON values.
        groups: Lengths of the blocks of a style, one per tap; None if not known.
    """

    styles: Tensor
    about: Mapping[str, object] = field(default_factory=dict)
    groups: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.styles.ndim != 2 or len(self.styles) < 2:
            raise ReservoirError(
                f"calibration needs the styles of at least 2 source batches, got "
                f"{len(self.styles)}: add source images or lower the batch size"
            )
        if not torch.isfinite(self.styles).all():
            raise ReservoirError(
                "a source style is not finite: look for broken images in the source folder"
            )

    @property
    def centroid(self) -> Tensor:
        """The first centroid: the mean source style."""
        return self.styles.mean(dim=0)

    def threshold(self, quantile: float = 0.999, distance: Distance = euclidean) -> float:
        """``tau``: a quantile of the pairwise distances of the source styles (paper, Eq. 7).

        Distances of exactly zero are repeated images, not evidence of a small spread, and are
        left out, as in the published implementation.

        Args:
            quantile: q.
            distance: The distance that tau will be compared with.
        """
        if not 0 < quantile <= 1:
            raise ReservoirError(f"the quantile q of tau must lie in (0, 1], got {quantile}")
        first, second = torch.triu_indices(len(self.styles), len(self.styles), offset=1)
        distances = distance(self.styles, self.styles)[first, second]
        distances = distances[distances > 0].sort().values
        if not len(distances):
            raise ReservoirError(
                "all source images have the same style, so no threshold can be derived: "
                "calibrate with different images"
            )
        # torch.quantile refuses more than 16 million values; 6000 source images have 18.
        position = quantile * (len(distances) - 1)
        low = int(position)
        high = min(low + 1, len(distances) - 1)
        return float(torch.lerp(distances[low], distances[high], position - low))

    def save(self, path: str | os.PathLike) -> Path:
        """Write a ``.safetensors`` file, all of it or nothing."""
        groups = None if self.groups is None else list(self.groups)
        about = {"about": json.dumps(self.about), "groups": json.dumps(groups)}
        return write_tensors(path, {"styles": self.styles}, {"format": _FORMAT, **about})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Calibration:
        """Read a file of :meth:`save`."""
        path = Path(path).expanduser()
        if not path.is_file():
            raise ReservoirError(
                f"no calibration file at {path}: make one by a run with source images, which "
                "writes calibration.safetensors into its work directory"
            )
        tensors, metadata = read_tensors(path, mend="calibrate again")
        if metadata.get("format") != _FORMAT:
            raise ReservoirError(
                f"{path} is not a calibration file of this version of mmseg_reservoir "
                f"({_FORMAT}): calibrate again"
            )
        groups = json.loads(metadata["groups"])
        return cls(tensors["styles"], json.loads(metadata["about"]), groups)


def cache_key(about: Mapping[str, object]) -> str:
    """A short name for everything that a calibration depends on."""
    text = json.dumps([_FORMAT, about], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
