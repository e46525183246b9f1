"""Any torch classifier, adapting while it predicts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
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
from .calibrate import calibrate
from .images import ImageRange, first_images

Source = Iterable[Any] | Calibration

_logger = logging.getLogger(__name__)
_MARK = "_mmseg_reservoir_adapts"
"""Attribute of a net that has been wrapped."""


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
            weights loaded: it cannot be moved or cast afterwards. Its parameters become those of
            the adapted model, and its BatchNorm loses the source's statistics where the method
            goes by the batch, so keep a copy if you need the source model.
        method: Name of an adaptation method, or ``dict(type=name, **options)``.
        reservoir: Options of the reservoir (see ``mmseg_reservoir.presets``), the name of a preset,
            or None for the plain method.
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
        seed: Of everything random in the reservoir, and of the method and of ``params`` unless
            they say otherwise.
    """

    def __init__(
        self,
        net: nn.Module,
        method: str | Mapping[str, Any] = "tent",
        reservoir: Mapping[str, Any] | str | None = None,
        source: Source | None = None,
        optimizer: Mapping[str, Any] | OptimizerFactory | None = None,
        params: Mapping[str, Any] | None = None,
        images: str | tuple = "unit",
        batch_statistics: bool | None = None,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if getattr(net, _MARK, False):
            raise ReservoirError(
                "this net adapts already, or has: its parameters and BatchNorm statistics are not "
                "those of the source any more. Wrap a copy.deepcopy of it that was made before"
            )
        self.net = net.eval()
        self.range = ImageRange(images)
        self.batch_size = batch_size
        self.frozen = False
        self.last: Outcome | None = None
        """What happened to the last batch: prediction, route, number of experts."""
        self._seed = seed
        self._reservoir = None if reservoir is None else with_preset(_options(reservoir))
        self.method = build_method(
            net, method, optimizer, params, batch_statistics, images=self.range, seed=seed
        )
        setattr(net, _MARK, True)
        self._batches = _check_source(source)
        self.calibration = source if isinstance(source, Calibration) else None
        self._source_size: int | None = None
        self.pipeline: AdaptationPipeline | None = None
        # First the reservoir: a source that shuffles then calibrates it alike for all methods.
        if reservoir is None or source is not None or self._needs_no_style():
            self._build()
        if self.method.needs_source and self._batches is not None:
            self.method.prepare(self._source_images())

    def forward(self, images: Tensor, domain: str | None = None) -> Tensor:
        """Logits of a batch; adapts to it unless frozen, also within ``torch.no_grad()``.

        Args:
            images: The batch.
            domain: Its true domain; only an oracle router looks at it.
        """
        if self.pipeline is None:
            raise ReservoirError(
                "the reservoir knows no source images yet: give AdaptiveClassifier source=..., or "
                "load the state of one that had them"
            )
        if not isinstance(images, Tensor) or images.ndim != 4 or not len(images):
            what = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise ReservoirError(f"a batch must be a tensor (N, 3, H, W), got {what}")
        self._compare_with_source(len(images))
        if not torch.isfinite(images).all():
            raise ReservoirError("the batch holds NaN or infinite values: mend or drop its images")
        if self.frozen:
            # Not even here in inference mode: the router's centroids still follow the stream.
            with torch.inference_mode(False), torch.no_grad():
                images = images.clone() if images.is_inference() else images
                self.last = self.pipeline.infer(images, domain=domain)
        elif torch.is_inference_mode_enabled():
            raise ReservoirError(
                "adaptation needs gradients, and torch.inference_mode() forbids them: use "
                "torch.no_grad() or nothing, or freeze() the model"
            )
        else:
            self.batch_size = self.batch_size or len(images)
            complete = len(images) >= self.batch_size
            self.last = self.pipeline.step(images, complete=complete, domain=domain)
        return self.last.logits

    def freeze(self, frozen: bool = True) -> AdaptiveClassifier:
        """Stop adapting (or go on): batches are still routed to the experts that there are.

        Parameters stay as they are; the centroids of the router still follow the stream.
        """
        self.frozen = frozen
        return self

    def train(self, mode: bool = True) -> AdaptiveClassifier:
        """The net stays in evaluation mode: adaptation is not training."""
        return super().train(False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptiveClassifier:
        """Refuse to be moved or cast: experts and optimizers are elsewhere than the net."""
        values = self.method.space.values.detach()
        found = fn(values)
        if (found.device, found.dtype) != (values.device, values.dtype):
            raise ReservoirError(
                "an AdaptiveClassifier cannot be moved or cast: do that with the net, then wrap it"
            )
        return super()._apply(fn, recurse)

    # The state: everything but the frozen weights is one extra entry of torch's state_dict.

    def get_extra_state(self) -> dict[str, Any]:
        """Pipeline and calibration; plain tensors and numbers, so that safe loading works."""
        if self.pipeline is None:
            raise ReservoirError("there is no state to save: the reservoir has no source yet")
        styles = self.calibration.styles if self.calibration else None
        return {
            "about": self._about(),
            "pipeline": self.pipeline.state_dict(),
            "styles": styles,
            "batch_size": self.batch_size,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`get_extra_state`; builds what waited for source images."""
        for what, ours in self._about().items():
            if state["about"][what] != ours:
                raise ReservoirError(
                    f"the state is of another {what} ({state['about'][what]}), not {ours}: build "
                    "the AdaptiveClassifier with the options of the one that was saved"
                )
        if state["styles"] is not None:
            self.calibration = Calibration(state["styles"].cpu())  # where styles are compared
        if self.pipeline is None:
            self._build()
        self.batch_size = state["batch_size"]
        self.pipeline.load_state_dict(state["pipeline"])

    def _about(self) -> dict[str, str]:
        """What a state must agree in; the numbers among the options may differ."""
        reservoir = self._reservoir or {}
        router = (reservoir.get("router") or {}).get("type", "style")
        style = dict(reservoir.get("style") or {})
        features = {key: str(style.get(key)) for key in ("taps", "statistic", "size")}
        return {
            "method": type(self.method).__name__,
            "optimizer": type(self.method.optimizer).__name__,
            "router": router if self._reservoir is not None else "none, no reservoir",
            "style": ", ".join(f"{key}={value}" for key, value in features.items()),
        }

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

        self.calibration = construct(
            calibrate,
            calibration,
            "reservoir.calibration",
            read=partial(self._source_images, complete=True),
            encode=encode,
            known=self.calibration,
        )
        return encode, self.calibration, encoder.groups

    def _source_images(self, complete: bool = False) -> Iterable[Tensor]:
        """The images of the source batches, those of complete ones only if asked for."""
        device = self.method.space.values.device
        for batch in self._batches:
            images = first_images(batch).to(device)
            self.batch_size = self.batch_size or len(images)
            if not complete:
                yield images
            elif len(images) >= self.batch_size:
                self._source_size = len(images)
                yield images

    def _compare_with_source(self, size: int) -> None:
        """Warn, once, of batches that tau was not measured for."""
        known, self._source_size = self._source_size, None
        if known is not None and size != known:
            _logger.warning(
                "the first batch of the stream has %d images, those of the source have %d: tau "
                "is right for batches of one size only%s. Give source batches of the stream's size",
                size,
                known,
                ", and smaller ones open no domain" if size < known else "",
            )

    def _needs_no_style(self) -> bool:
        return (self._reservoir.get("router") or {}).get("type") == "oracle"


def _options(reservoir: Mapping[str, Any] | str) -> dict[str, Any]:
    """With the VGG-19 of the user's cache, or seeded filters: three lines must run anywhere."""
    if not isinstance(reservoir, (Mapping, str)):
        raise ReservoirError(f"reservoir must be options or a preset's name, got {reservoir!r}")
    options = {"preset": reservoir} if isinstance(reservoir, str) else dict(reservoir)
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
