"""From source images to a calibration: by a saved one, by the cache, or by encoding them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..files import cache_folder
from .calibration import Calibration, cache_key

_logger = logging.getLogger(__name__)

ENOUGH = 50
"""Source batches below which tau is uncertain: 10 of them scatter by a factor of two."""


class SourceImages(Protocol):
    """Batches of source images as the model gets them; can be read again and again."""

    batch_size: int | None
    """Images of a complete batch; None if any size is."""

    def __iter__(self) -> Iterator[Tensor]: ...

    def identity(self) -> Mapping[str, Any] | None:
        """What the batches depend on, as plain JSON values; None if that is not known."""


def calibrate(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor] | None,
    batches: int | None = None,
    file: str | None = None,
    cache: str | None = None,
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
    """
    if batches is not None and batches < 2:
        raise ReservoirError(
            f"reservoir.calibration.batches must be a whole number, 2 or more, got {batches!r}"
        )
    style = encode.fingerprint() if hasattr(encode, "fingerprint") else None
    if file is not None:
        calibration = Calibration.load(file)
        if style is not None and calibration.about.get("style") != style:
            raise ReservoirError(
                f"{file} was made with another style encoder (weights, taps, statistic or size): "
                "calibrate again, or use the same reservoir.style"
            )
        return calibration
    if source is None:
        raise ReservoirError(
            "the reservoir needs source images, or reservoir.calibration.file of an earlier run"
        )
    identity = source.identity() if hasattr(source, "identity") else None
    if identity is None:
        return _encode_all(encode, source, batches, {"style": style})
    about = {"style": style, "batches": batches, **identity}
    path = Path(cache or cache_folder() / "calibration").expanduser()
    path = path / f"{cache_key(about)}.safetensors"
    if path.is_file():
        _logger.info("calibration of the source taken from %s", path)
        return Calibration.load(path)
    calibration = _encode_all(encode, source, batches, about)
    calibration.save(path)
    _logger.info("calibrated on %d source batches, cached as %s", len(calibration.styles), path)
    return calibration


def _encode_all(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor],
    batches: int | None,
    about: Mapping[str, Any],
) -> Calibration:
    def one_pass(at_most: int | None) -> list[Tensor]:
        return [encode(images).cpu() for images in islice(_complete(source), at_most)]

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
            "images, or let the source shuffle and say reservoir.calibration.batches=1000",
            len(styles),
            ENOUGH,
        )
    return Calibration(torch.stack(styles), dict(about), getattr(encode, "groups", None))


def _complete(source: SourceImages | Iterable[Tensor]) -> Iterator[Tensor]:
    """The batches without smaller ones: the style of a batch depends on its size."""
    for images in source:
        size = getattr(source, "batch_size", None)  # its first batch may have told
        if size is None or len(images) == size:
            yield images
