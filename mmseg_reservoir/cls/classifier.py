"""Any torch classifier, adapting while it predicts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..config.builder import CLASSIFICATION, RunBuilder, TaskContext
from ..core.image_range import ImageRange
from ..core.outcome import Outcome
from ..core.side_effects import snapshot
from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..style.calibration import Calibration
from .logits import classification_forward
from .source_stream import SourceStream

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

    It may be called from several threads: one call runs at a time, the others wait. Then take
    logits and route from what :meth:`step` returns.

    Args:
        net: The classifier: images ``(N, 3, H, W)`` to logits ``(N, C)``. On its device, with its
            weights loaded: it cannot be moved or cast afterwards. Its parameters become those of
            the adapted model, and its BatchNorm loses the source's statistics where the method
            goes by the batch, so keep a copy if you need the source model.
        method: An adaptation method: its name, ``dict(type=name, optimizer=dict(type="Adam",
            lr=1e-3), **options)``, or one that is ready made around this net.
        reservoir: Options of the reservoir (see ``config/presets.py``), the name of a preset,
            or None for the plain method. Its router, its style encoder and its calibration may be
            ready made: ``dict(router=MyRouter(), style=my_encoder, calibration=saved)``. With
            ``dict(start_from=FOLDER)`` it goes on with a saved one, and needs no source.
        source: Batches of source images, such as a ``DataLoader`` or a list (labels beside them
            are ignored): for the reservoir, unless it has a calibration, and for methods that
            learn from the source. None if neither does, or if a saved state is to be loaded.
        params: What adapts, ``dict(type=..., **options)``: ``norm_affine``, ``all``, ``lora``,
            ``prompt``.
        statistics: What BatchNorm normalizes by: ``"batch"``, as TENT does; ``"running"``, the
            source's, for streams of single images; or a number from 0 to 1, the share of the
            batch. None: the default of the method.
        images: What the images of the stream are: ``"unit"`` for values in [0, 1], ``"imagenet"``
            if normalised by ImageNet's mean and deviation, or a pair ``(mean, std)``. The net gets
            them as they are; it is the style that needs to know, and augmentations.
        batch_size: Images of a complete batch; smaller ones open no domain. The source is cut to
            it. By default the first batch, of the source or the stream, tells.
        seed: Of everything random in the reservoir, in the method and in ``params``, unless these
            have their own.
        plan: The plan of these options, where it has been made already.
    """

    def __init__(
        self,
        net: nn.Module,
        method: str | Mapping[str, Any] | AdaptationMethod = "tent",
        reservoir: Mapping[str, Any] | str | None = None,
        source: Iterable[Any] | None = None,
        params: Mapping[str, Any] | None = None,
        statistics: str | float | None = None,
        images: str | tuple = "unit",
        batch_size: int | None = None,
        seed: int = 0,
        plan: RunBuilder | None = None,
    ) -> None:
        super().__init__()
        if getattr(net, _MARK, False):
            raise ReservoirError(
                "this net adapts already, or has: its parameters and BatchNorm statistics are not "
                "those of the source any more. Wrap a copy.deepcopy of it that was made before"
            )
        self.range = ImageRange(images)
        self.plan = plan or RunBuilder(CLASSIFICATION, method, params, statistics, reservoir, seed)
        self.net = net.eval()
        self.batch_size = batch_size
        self.frozen = self.plan.start.frozen
        self.last: Outcome | None = None
        """The outcome of the last call of any thread: prediction, route, number of experts."""
        self.calibration: Calibration | None = None
        """What the router knows of the source; None if it looks at no styles."""
        if source is not None:
            device = next((p.device for p in net.parameters()), torch.device("cpu"))
            source = SourceStream(source, batch_size, self.range, device)
        place = TaskContext(net, classification_forward, self.range, source)
        self.pipeline = self.plan.assemble(place)
        self.pipeline.check = self.range.check_extremes
        self.method = self.pipeline.method
        setattr(net, _MARK, True)
        self._source_size: int | None = None
        learns = self.method.needs_source and not isinstance(method, AdaptationMethod)
        needed = self.plan.needs_calibration or (learns and self.plan.start.start_from is None)
        self.waits_for_source: bool = needed and source is None
        """Whether it can do nothing until a state is loaded."""
        if self.waits_for_source and reservoir is not None and not self.plan.needs_calibration:
            raise ReservoirError(
                f"{type(self.method).__name__} learns from source images, beside what the "
                "calibration tells the reservoir: give source=..., too"
            )
        if not self.waits_for_source:
            self.calibration = self.plan.calibrate(self.pipeline, place)
        if source is not None and self.calibration is not None and batch_size is None:
            self.batch_size = self._source_size = source.batch_size

    def forward(self, images: Tensor, domain: str | None = None) -> Tensor:
        """Return the logits of a batch: ``step(images, domain).logits``."""
        return self.step(images, domain).logits

    def step(self, images: Tensor, domain: str | None = None) -> Outcome:
        """Predict a batch, and adapt to it unless frozen, also within ``torch.no_grad()``.

        Args:
            images: A batch ``(N, 3, H, W)``.
            domain: The true domain, which only an oracle router reads. Defaults to None.

        Returns:
            The logits, the route of the batch, and the number of experts.
        """
        with self.pipeline.lock:
            return self._step(images, domain)

    def _step(self, images: Tensor, domain: str | None) -> Outcome:
        if self.waits_for_source:
            raise ReservoirError(
                f"{type(self.method).__name__} or its reservoir knows no source images yet: give "
                "AdaptiveClassifier source=..., or load the state of one that had them"
            )
        if not isinstance(images, Tensor) or images.ndim != 4 or not len(images):
            what = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise ReservoirError(f"a batch must be a tensor (N, 3, H, W), got {what}")
        batch_size = self._check_size(len(images))
        if self.frozen:
            # Not even here in inference mode: a router may follow the stream.
            with torch.inference_mode(False), torch.no_grad():
                images = images.clone() if images.is_inference() else images
                self.last = self.pipeline.infer(images, domain=domain)
        elif torch.is_inference_mode_enabled():
            raise ReservoirError(
                "adaptation needs gradients, and torch.inference_mode() forbids them: use "
                "torch.no_grad() or nothing, or freeze() the model"
            )
        else:
            complete = len(images) >= batch_size
            self.last = self.pipeline.step(images, complete=complete, domain=domain)
        self.batch_size = batch_size
        return self.last

    def _check_size(self, size: int) -> int:
        """Return the size of complete batches; refuse a first batch of another than the source's.

        The threshold tau is measured for batches of one size.
        """
        if self.last is not None and self.batch_size is not None:
            return self.batch_size
        if self._source_size is not None and size != self._source_size:
            raise ReservoirError(
                f"the first batch of the stream has {size} images, those of the source have "
                f"{self._source_size}, and tau is right for batches of one size only: say "
                f"batch_size={size}, and the source is cut to it"
            )
        if self.batch_size is not None and size < self.batch_size:
            _logger.warning(
                "the first batch has %d images, a complete one batch_size=%d: smaller batches "
                "open no domain",
                size,
                self.batch_size,
            )
        return self.batch_size or size

    def freeze(self, frozen: bool = True) -> AdaptiveClassifier:
        """Stop adapting (or go on): batches are still routed to the experts that there are.

        Parameters stay as they are, and so do centroids; a router that goes by the evidence of
        several batches still follows the stream.
        """
        with self.pipeline.lock:
            self.frozen = frozen
        return self

    def train(self, mode: bool = True) -> AdaptiveClassifier:
        """The net stays in evaluation mode: adaptation is not training."""
        return super().train(False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptiveClassifier:
        """Refuse to be moved or cast: experts and optimizers are elsewhere than the net."""
        values = self.method.space.values.detach()
        applied = fn(values)
        if (applied.device, applied.dtype) != (values.device, values.dtype):
            raise ReservoirError(
                "an AdaptiveClassifier cannot be moved or cast: do that with the net, then wrap it"
            )
        return super()._apply(fn, recurse)

    # The state: everything but the frozen weights is one extra entry of torch's state_dict.

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Return torch's state dict, whose extra entry is a copy, between two calls."""
        with self.pipeline.lock:
            return super().state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Restore :meth:`state_dict` between two calls."""
        with self.pipeline.lock:
            return super().load_state_dict(*args, **options)

    def get_extra_state(self) -> dict[str, Any]:
        """Pipeline and calibration; plain tensors and numbers, so that safe loading works."""
        if self.waits_for_source:
            raise ReservoirError("there is no state to save: the source has not been seen yet")
        return {
            "about": self._about(),
            "pipeline": snapshot(self.pipeline),
            "styles": getattr(self.calibration, "styles", None),
            "groups": getattr(self.calibration, "groups", None),
            "batch_size": self.batch_size,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`get_extra_state`, also where no source images were given."""
        for what, ours in self._about().items():
            if state["about"][what] != ours:
                raise ReservoirError(
                    f"the state is of another {what} ({state['about'][what]}), not {ours}: build "
                    "the AdaptiveClassifier with the options of the one that was saved"
                )
        if state["styles"] is not None:
            # On the CPU, where styles are compared.
            self.calibration = Calibration(state["styles"].cpu(), groups=state["groups"])
            self.pipeline.router.calibrate(self.calibration)
        self.batch_size = state["batch_size"]
        self.waits_for_source, self._source_size = False, None
        self.pipeline.load_state_dict(state["pipeline"])

    def _about(self) -> dict[str, str]:
        """What a state must agree in; the numbers among the options may differ."""
        router = getattr(self.pipeline, "router", None)
        encoder = getattr(self.pipeline, "encoder", None)
        style = encoder.fingerprint() if hasattr(encoder, "fingerprint") else str(encoder)
        return {
            "method": type(self.method).__name__,
            "optimizer": type(self.method.optimizer).__name__,
            "router": "none, no reservoir" if router is None else type(router).__name__,
            "style": json.dumps(style, sort_keys=True),
        }
