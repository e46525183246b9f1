"""What the source looks like, how far its styles scatter, and how that is learned from images."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.moments import Reference
from ..errors import ReservoirError, refusing
from ..io.files import cache_folder, read_tensors, write_tensors
from .distance import Distance, euclidean
from .source_styles import SourceImages, encoded_styles, pooled_styles

_logger = logging.getLogger(__name__)
_REFERENCE = "reference."
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
        reference: Feature moments of source images in the model of the run, which alignment needs
            (``Reference.state_dict()``); None if they were not measured.
    """

    styles: Tensor
    about: Mapping[str, object] = field(default_factory=dict)
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
        distances = distance(self.styles, self.styles).triu(diagonal=1)
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
        texts = {"about": json.dumps(self.about), "groups": json.dumps(groups)}
        tensors = {"styles": self.styles}
        if self.reference is not None:
            moments = dict(self.reference)
            texts["layers"] = json.dumps(list(moments.pop("layers").items()))
            tensors |= {f"{_REFERENCE}{name}": value for name, value in moments.items()}
        return write_tensors(path, tensors, {"format": _FORMAT, **texts})

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
        with refusing(f"{path} is damaged", "calibrate again"):
            groups, about = json.loads(metadata["groups"]), json.loads(metadata["about"])
            reference: dict[str, Any] | None = None
            if "layers" in metadata:
                reference = {
                    name.removeprefix(_REFERENCE): value
                    for name, value in tensors.items()
                    if name.startswith(_REFERENCE)
                }
                reference["layers"] = dict(json.loads(metadata["layers"]))
                Reference(**reference)
            if not isinstance(about, dict):
                raise TypeError(f"about must be a dict, got {about!r}")
            if groups is not None and any(type(n) is not int or n < 1 for n in groups):
                raise ValueError(f"groups must be whole numbers above 0, got {groups!r}")
            # What is shipped is stored in half precision.
            return cls(tensors["styles"].float(), about, groups, reference)


def calibrate(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor] | None,
    batches: int | None = None,
    file: str | None = None,
    cache: str | None = None,
    once: bool = False,
) -> Calibration:
    """What the source looks like, to be compared with by a router.

    Example:
        >>> source = [torch.rand(2, 3, 8, 8) for _ in range(50)]
        >>> calibrate(lambda images: images.mean(dim=(0, 2, 3)), source).styles.shape
        torch.Size([50, 3])

    Args:
        encode: From a batch to its style. If it tells its ``fingerprint()``, a calibration by
            another encoder is refused; if it tells its ``groups``, the calibration keeps them.
        source: Batches of source images; None if there is a file.
        batches: How many of them to take; the source is read again and again until there are so
            many, which makes sense if it shuffles. None for one pass over it.
        file: A saved calibration, ``calibration.safetensors`` of a run; no source is needed then.
        cache: Folder of earlier calibrations by sources that know their identity; None for the
            user's cache folder.
        once: Read the source once, encode each of its images once, and put ``batches`` random
            batches together from their statistics. They are not those of further passes, but
            like them.
    """
    if batches is not None and batches < 2:
        raise ReservoirError(
            f"reservoir.calibration.batches must be a whole number, 2 or more, got {batches!r}"
        )
    if once and batches is None:
        raise ReservoirError(
            "reservoir.calibration.once puts batches together: say how many, "
            "reservoir.calibration.batches=1000"
        )
    style = encode.fingerprint() if hasattr(encode, "fingerprint") else None
    if file is not None:
        calibration = Calibration.load(file)
        if style is not None and calibration.about.get("style") != style:
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
        return _look(encode, source, batches, once, {"style": style})
    origin = {"style": style, "batches": batches, **identity}
    if once:
        origin["once"] = True
    folder = Path(cache or cache_folder() / "calibration").expanduser()
    path = folder / f"{cache_key(origin)}.safetensors"
    cached = _read_cache(path)
    if cached is not None:
        return cached
    calibration = _look(encode, source, batches, once, origin)
    try:
        calibration.save(path)
    except OSError as error:
        _logger.warning(
            "calibrated on %d source batches, but they cannot be cached (%s): the next run will "
            "calibrate again. reservoir.calibration.cache names another folder",
            len(calibration.styles),
            error,
        )
    else:
        _logger.info("calibrated on %d source batches, cached as %s", len(calibration.styles), path)
    return calibration


def _read_cache(path: Path) -> Calibration | None:
    """An earlier calibration; None if there is none, or it is damaged."""
    if not path.is_file():
        return None
    try:
        calibration = Calibration.load(path)
    except ReservoirError as error:
        _logger.warning("%s: it is made anew", error)
        return None
    _logger.info("calibration of the source taken from %s", path)
    return calibration


def _look(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor],
    batches: int | None,
    once: bool,
    origin: Mapping[str, Any],
) -> Calibration:
    if once:
        assert batches is not None, "calibrate() has asked for it"
        styles = pooled_styles(encode, source, batches)
    else:
        styles = encoded_styles(encode, source, batches)
    return Calibration(torch.stack(styles), dict(origin), getattr(encode, "groups", None))


def cache_key(about: Mapping[str, object]) -> str:
    """A short name for everything that a calibration depends on."""
    text = json.dumps([_FORMAT, about], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
