"""Any torch classifier, adapting while it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..core.calibration import Calibration
from ..core.pipeline import AdaptationPipeline, Outcome, SingleModelPipeline
from ..core.style import StyleEncoder
from ..errors import ReservoirError
from ..methods import OptimizerFactory
from ..options import construct
from ..presets import Style, build_reservoir, with_preset
from .build import build_method
from .images import ImageRange, first_images

Source = Iterable[Any] | Calibration


class AdaptiveClassifier(nn.Module):
    """Wraps a classifier; every call predicts a batch and adapts to it.

    Example:
        >>> from mmseg_reservoir.cls import AdaptiveClassifier
        >>> model = AdaptiveClassifier(net, method="eata", reservoir=dict(k_max=16), source=loader)
        >>> for images in stream:
        ...     logits = model(images)
        >>> model.last.k  # experts so far
        1

    Args:
        net: The classifier: images ``(N, 3, H, W)`` to logits ``(N, C)``. On its device, with its
            weights loaded. Its parameters become those of the adapted model.
        method: Name of an adaptation method, or ``dict(type=name, **options)``.
        reservoir: Options of the reservoir (see ``mmseg_reservoir.presets``), or None for the plain
            method.
        source: Batches of source images, such as a ``DataLoader`` or a list (labels beside them
            are ignored), in the size of the stream's batches: for the reservoir and for methods
            that learn from the source. A :class:`Calibration` saves the reservoir the look at
            them. None if neither needs it, or if a saved state is to be loaded.
        optimizer: ``dict(type=name of torch.optim, lr=...)`` or a function from parameters to an
            optimizer.
        params: What adapts, ``dict(type=..., **options)``: ``norm_affine``, ``all``, ``lora``,
            ``prompt``.
        images: What the images of the stream are: ``"unit"`` for values in [0, 1], ``"imagenet"``
            if normalised by ImageNet's mean and deviation, or a pair ``(mean, std)``. The net gets
            them as they are; it is the style that needs to know, and augmentations.
        batch_statistics: Let BatchNorm normalise by the batch, as TENT does. Turn it off for
            streams of single images. None: as the method wishes.
        batch_size: Images of a complete batch; smaller ones open no domain. By default the first
            batch, of the source or the stream, tells.
        seed: Of everything random in the reservoir.
    """

    def __init__(
        self,
        net: nn.Module,
        method: str | Mapping[str, Any] = "tent",
        reservoir: Mapping[str, Any] | None = None,
        source: Source | None = None,
        optimizer: Mapping[str, Any] | OptimizerFactory | None = None,
        params: Mapping[str, Any] | None = None,
        images: str | tuple = "unit",
        batch_statistics: bool | None = None,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.net = net.eval()
        self.range = ImageRange(images)
        self.batch_size = batch_size
        self.frozen = False
        self.last: Outcome | None = None
        """What happened to the last batch: prediction, route, number of experts."""
        self._seed = seed
        self._reservoir = None if reservoir is None else with_preset(_with_auto_weights(reservoir))
        self.method = build_method(
            net, method, optimizer, params, batch_statistics, images=self.range
        )
        self._batches = _check_source(source)
        self.calibration = source if isinstance(source, Calibration) else None
        self.pipeline: AdaptationPipeline | None = None
        if self.method.needs_source and self._batches is not None:
            self.method.prepare(self._source_images())
        if reservoir is None or source is not None or self._needs_no_style():
            self._build()

    def forward(self, images: Tensor, domain: str | None = None) -> Tensor:
        """Logits of a batch; adapts to it unless frozen.

        Args:
            images: The batch.
            domain: Its true domain; only an oracle router looks at it.
        """
        if self.pipeline is None:
            raise ReservoirError(
                "the reservoir knows no source images yet: give AdaptiveClassifier source=..., or "
                "load the state of one that had them"
            )
        if not torch.isfinite(images).all():
            raise ReservoirError("the batch holds NaN or infinite values: mend or drop its images")
        if self.frozen:
            self.last = self.pipeline.infer(images, domain=domain)
        else:
            self.batch_size = self.batch_size or len(images)
            complete = len(images) >= self.batch_size
            self.last = self.pipeline.step(images, complete=complete, domain=domain)
        return self.last.logits

    def freeze(self, frozen: bool = True) -> AdaptiveClassifier:
        """Stop adapting (or go on): batches are still routed to the experts that there are."""
        self.frozen = frozen
        return self

    def train(self, mode: bool = True) -> AdaptiveClassifier:
        """The net stays in evaluation mode: adaptation is not training."""
        return super().train(False)

    # The state: everything but the frozen weights is one extra entry of torch's state_dict.

    def get_extra_state(self) -> dict[str, Any]:
        """Pipeline and calibration; plain tensors and numbers, so that safe loading works."""
        if self.pipeline is None:
            raise ReservoirError("there is no state to save: the reservoir has no source yet")
        styles = self.calibration.styles if self.calibration else None
        return {
            "pipeline": self.pipeline.state_dict(),
            "styles": styles,
            "batch_size": self.batch_size,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`get_extra_state`; builds what waited for source images."""
        if state["styles"] is not None:
            self.calibration = Calibration(state["styles"])
        if self.pipeline is None:
            self._build()
        self.batch_size = state["batch_size"]
        self.pipeline.load_state_dict(state["pipeline"])

    # How it comes about.

    def _build(self) -> None:
        if self._reservoir is None:
            self.pipeline = SingleModelPipeline(self.method)
            return
        self.pipeline = construct(
            build_reservoir,
            self._reservoir,
            "reservoir",
            method=self.method,
            make_style=self._make_style,
            seed=self._seed,
        )

    def _make_style(self, style: Mapping[str, Any], calibration: Mapping[str, Any]) -> Style:
        encoder = construct(StyleEncoder, style, "reservoir.style")

        def encode(images: Tensor) -> Tensor:
            return encoder(self.range.normalised(images))

        if calibration:
            raise ReservoirError(
                f"reservoir.calibration has no option {next(iter(calibration))!r}; valid: quantile"
            )
        if self.calibration is None:
            styles = [encode(images).cpu() for images in self._source_images(complete=True)]
            self.calibration = Calibration(torch.stack(styles))
        return encode, self.calibration, encoder.groups

    def _source_images(self, complete: bool = False) -> Iterable[Tensor]:
        """The images of the source batches, those of complete ones only if asked for."""
        device = self.method.space.values.device
        for batch in self._batches:
            images = first_images(batch).to(device)
            self.batch_size = self.batch_size or len(images)
            if not complete or len(images) >= self.batch_size:
                yield images

    def _needs_no_style(self) -> bool:
        return (self._reservoir.get("router") or {}).get("type") == "oracle"


def _with_auto_weights(reservoir: Mapping[str, Any]) -> dict[str, Any]:
    """The VGG-19 of the user's cache, or seeded filters: three lines must run anywhere."""
    options = dict(reservoir)
    options["style"] = {"weights": "auto", **options.get("style", {})}
    return options


def _check_source(source: Source | None) -> Iterable[Any] | None:
    if source is None or isinstance(source, Calibration):
        return None
    if iter(source) is source:
        raise ReservoirError(
            "source is an iterator, which can be read only once: give a list or a DataLoader"
        )
    return source
