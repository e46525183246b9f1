"""Calibration: the styles of the source, the threshold tau, and the first centroid."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Protocol

import torch
from annotated_types import Ge
from torch import Tensor

from ..core.moments import Reference
from ..errors import ReservoirError, refusing
from ..io.files import cache_folder, digest, read_tensors, write_tensors
from ..registry import checked
from .statistics import Distance, euclidean

_logger = logging.getLogger(__name__)
_REFERENCE = "reference."
_FORMAT = "mmseg_reservoir.calibration.2"

ENOUGH = 50
"""Smallest number of source batches for a reliable tau: with 10 it varies by a factor of two."""
INTERVAL = 30.0
"""Seconds between two progress lines of a calibration."""


class SourceImages(Protocol):
    """Batches of source images, normalized for the model, that can be read several times."""

    @property
    def batch_size(self) -> int | None:
        """Return the number of images in a complete batch; None if any size is complete."""

    def __iter__(self) -> Iterator[Tensor]: ...

    def identity(self) -> Mapping[str, Any] | None:
        """Return values that identify the batches, as plain JSON values; None if unknown."""


@dataclass(frozen=True)
class Calibration:
    """Styles of the source, which give the threshold and the first centroid.

    The styles are stored (2.5 MB for 2000 of them), so that another quantile needs no new pass over
    the source images.

    Args:
        styles: Style vectors of source batches, ``(N, d)``.
        origin: Settings that the styles depend on, as plain JSON values.
        groups: Lengths of the blocks of a style vector, one per tap. Defaults to None, unknown.
        reference: Feature moments of source images in the model of the run, which alignment needs
            (``Reference.state_dict()``). Defaults to None, not measured.
    """

    styles: Tensor
    origin: Mapping[str, object] = field(default_factory=dict)
    groups: Sequence[int] | None = None
    reference: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.styles.ndim != 2 or len(self.styles) < 2:
            raise ReservoirError(
                f"calibration needs the styles of at least 2 source batches, got "
                f"{len(self.styles)}: add source images or lower the batch size"
            )
        if not torch.isfinite(self.styles).all():
            raise ReservoirError(
                "a source style is not finite: remove broken images from the source folder"
            )

    @property
    def centroid(self) -> Tensor:
        """Return the first centroid, the mean source style."""
        return self.styles.mean(dim=0)

    def threshold(self, quantile: float = 0.999, distance: Distance = euclidean) -> float:
        """Return ``tau``, a quantile of the pairwise distances of source styles (paper, Eq. 7).

        Distances of exactly zero come from repeated images. They are left out, as in the published
        implementation.

        Args:
            quantile: The quantile q. Defaults to 0.999.
            distance: Distance function of the router. Defaults to the Euclidean.
        """
        if not 0 < quantile <= 1:
            raise ReservoirError(f"the quantile q of tau must lie in (0, 1], got {quantile}")
        distances = distance(self.styles, self.styles).triu(diagonal=1)
        distances = distances[distances > 0].sort().values
        if not len(distances):
            raise ReservoirError(
                "all source images have the same style, so no threshold can be derived: "
                "calibrate with different images"
            )
        # torch.quantile accepts at most 16 million values; 6000 source images have 18.
        position = quantile * (len(distances) - 1)
        low = int(position)
        high = min(low + 1, len(distances) - 1)
        return float(torch.lerp(distances[low], distances[high], position - low))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a ``.safetensors`` file atomically; return its path."""
        groups = None if self.groups is None else list(self.groups)
        texts = {"about": json.dumps(self.origin), "groups": json.dumps(groups)}
        tensors = {"styles": self.styles}
        if self.reference is not None:
            moments = dict(self.reference)
            texts["layers"] = json.dumps(list(moments.pop("layers").items()))
            tensors |= {f"{_REFERENCE}{name}": value for name, value in moments.items()}
        return write_tensors(path, tensors, {"format": _FORMAT, **texts})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read a file of :meth:`save`."""
        path = Path(path).expanduser()
        if not path.is_file():
            raise ReservoirError(
                f"no calibration file at {path}: make one by a run with source images, which "
                "writes calibration.safetensors into its work directory"
            )
        tensors, metadata = read_tensors(path, "calibrate again")
        if metadata.get("format") != _FORMAT:
            raise ReservoirError(
                f"{path} is not a calibration file of this version of mmseg_reservoir "
                f"({_FORMAT}): calibrate again"
            )
        with refusing(f"{path} is damaged", "calibrate again"):
            groups, origin = json.loads(metadata["groups"]), json.loads(metadata["about"])
            reference: dict[str, Any] | None = None
            if "layers" in metadata:
                reference = {
                    name.removeprefix(_REFERENCE): value
                    for name, value in tensors.items()
                    if name.startswith(_REFERENCE)
                }
                reference["layers"] = dict(json.loads(metadata["layers"]))
                Reference(**reference)
            if not isinstance(origin, dict):
                raise TypeError(f"about must be a dict, got {origin!r}")
            if groups is not None and any(type(n) is not int or n < 1 for n in groups):
                raise ValueError(f"groups must be whole numbers above 0, got {groups!r}")
            # The bundled styles are stored in half precision.
            return cls(tensors["styles"].float(), origin, groups, reference)


@checked
def calibrate(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor] | None,
    batches: Annotated[int, Ge(2)] | None = None,
    file: str | None = None,
    cache: str | None = None,
) -> Calibration:
    """Measure the styles of source batches, or read them from a file or the cache.

    Example:
        >>> source = [torch.rand(2, 3, 8, 8) for _ in range(50)]
        >>> calibrate(lambda images: images.mean(dim=(0, 2, 3)), source).styles.shape
        torch.Size([50, 3])

    Args:
        encode: Function from a batch to its style vector. With a ``fingerprint()``, calibrations of
            other encoders are refused. Its ``groups``, if any, are stored.
        source: Batches of source images; None with a file.
        batches: Number of batches. The source is read repeatedly until there are enough, so it
            should shuffle. Defaults to None, one pass.
        file: Path of a saved calibration, ``calibration.safetensors`` of a run, which replaces the
            source. Defaults to None.
        cache: Folder of earlier calibrations, by the identity of the source. Defaults to None,
            the user's cache folder.
    """
    style = encode.fingerprint() if hasattr(encode, "fingerprint") else None
    if file is not None:
        calibration = Calibration.load(file)
        if style is not None and calibration.origin.get("style") != style:
            raise ReservoirError(
                f"{file} was made with another style encoder (weights, taps, statistic, size or "
                "crop): calibrate again, or use the same reservoir.style"
            )
        return calibration
    if source is None:
        raise ReservoirError(
            "the reservoir needs source images, or reservoir.calibration.file of an earlier run"
        )
    identity = source.identity() if hasattr(source, "identity") else None
    if identity is None:
        return _measured(encode, source, batches, {"style": style})
    origin = {"style": style, "batches": batches, **identity}
    folder = Path(cache or cache_folder() / "calibration").expanduser()
    path = folder / f"{cache_key(origin)}.safetensors"
    cached = _read_cache(path)
    if cached is not None:
        return cached
    calibration = _measured(encode, source, batches, origin)
    try:
        calibration.save(path)
    except OSError as error:
        _logger.warning(
            "calibrated on %d source batches, but they cannot be cached (%s): the next run will "
            "calibrate again. Set reservoir.calibration.cache to another folder",
            len(calibration.styles),
            error,
        )
    else:
        _logger.info("calibrated on %d source batches, cached as %s", len(calibration.styles), path)
    return calibration


def cache_key(origin: Mapping[str, object]) -> str:
    """Return a short hash of the settings that a calibration depends on."""
    text = json.dumps([_FORMAT, origin], sort_keys=True)
    return digest(text)[:20]


def _read_cache(path: Path) -> Calibration | None:
    if not path.is_file():
        return None
    try:
        calibration = Calibration.load(path)
    except ReservoirError as error:
        _logger.warning("ignoring a damaged file in the cache: %s", error)
        return None
    _logger.info("calibration of the source read from %s", path)
    return calibration


def _measured(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor],
    batches: int | None,
    origin: Mapping[str, Any],
) -> Calibration:
    """Encode complete batches, in as many passes over the source as are needed."""

    def one_pass(at_most: int | None) -> list[Tensor]:
        # Styles depend on the batch size, which a source may only know after its first batch.
        complete = (x for x in source if getattr(source, "batch_size", None) in (None, len(x)))
        return [encode(images).cpu() for images in _with_progress(islice(complete, at_most))]

    styles = one_pass(batches)
    if not styles:
        raise ReservoirError(
            f"the source has no complete batch of {getattr(source, 'batch_size', 1)} images: add "
            "images, or lower the batch size"
        )
    in_a_pass = len(styles)
    while batches is not None and len(styles) < batches:
        more = one_pass(batches - len(styles))
        if not more or torch.equal(more[0], styles[0]):
            raise ReservoirError(
                f"reservoir.calibration.batches asks for {batches} source batches, but the "
                f"source has the same {in_a_pass} in every pass: let it shuffle, as "
                "DataLoader(shuffle=True) does, or leave the option out"
            )
        styles += more
    if len(styles) < ENOUGH:
        _logger.warning(
            "only %d source batches: the reservoir's threshold tau, a quantile of their distances, "
            "is uncertain below %d (a handful gives a third of the right one). Give more source "
            "images, or let the source shuffle and set reservoir.calibration.batches=1000",
            len(styles),
            ENOUGH,
        )
    return Calibration(torch.stack(styles), dict(origin), getattr(encode, "groups", None))


def _with_progress(batches: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the batches; log how many there were so far, at most once per interval."""
    _logger.info("calibrating: reading the source images ...")
    last = time.monotonic()
    for count, images in enumerate(batches, start=1):
        yield images
        if time.monotonic() - last >= INTERVAL:
            last = time.monotonic()
            _logger.info("calibrating: %d source batches so far", count)
