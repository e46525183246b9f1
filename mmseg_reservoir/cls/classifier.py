"""A torch classifier that adapts while it predicts."""

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
from ..core.reservoir_pipeline import ReservoirPipeline
from ..core.side_effects import snapshot
from ..core.unfit_images import explain_unfit
from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..style.calibration import Calibration
from .source_stream import SourceStream

_logger = logging.getLogger(__name__)
_MARK = "_mmseg_reservoir_adapts"
"""Name of the attribute that marks a wrapped network."""


def classification_forward(net: nn.Module, images: Tensor) -> Tensor:
    """Return the logits ``(N, C)`` of a network that returns a tensor, mapping, tuple or object."""
    with explain_unfit(net, images):
        output = net(images)
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif isinstance(output, (tuple, list)):
        output = output[0]
    output = getattr(output, "logits", output)
    if not isinstance(output, Tensor) or output.ndim != 2:
        what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ReservoirError(
            f"{type(net).__name__} must return logits (N, C), got {what}: wrap it in a module that "
            "returns them"
        )
    return output


class AdaptiveClassifier(nn.Module):
    """A classifier with test-time adaptation: every call predicts a batch and adapts to it.

    With a reservoir, each batch is routed by its style to one of several domain experts. Calls from
    several threads run one at a time; :meth:`step` returns the result of that call.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from mmseg_reservoir.cls import AdaptiveClassifier
        >>> net = nn.Sequential(
        ...     nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        ...     nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
        ... )
        >>> source = [torch.rand(8, 3, 32, 32) for _ in range(4)]  # or a DataLoader
        >>> model = AdaptiveClassifier(net, "eata", reservoir=dict(k_max=16), source=source)
        >>> outcome = model.step(torch.rand(8, 3, 32, 32))
        >>> outcome.logits.shape, outcome.k  # number of experts
        (torch.Size([8, 4]), 1)
        >>> model.freeze()(torch.rand(8, 3, 32, 32)).shape  # predict without adaptation
        torch.Size([8, 4])

    Args:
        net: Classifier of images ``(N, 3, H, W)``, with its weights loaded and on its device. It is
            adapted in place and cannot be moved or cast afterwards. BatchNorm may lose the source's
            statistics, so keep a copy if you need the source model.
        method: Name of an adaptation method, ``dict(type=name, optimizer=dict(type="Adam",
            lr=1e-3), **options)``, or a method that was built around this network.
        reservoir: Name of a preset, or options (see ``config/presets.py``). Router, style encoder
            and calibration may be objects: ``dict(router=MyRouter(), calibration=saved)``.
            ``dict(start_from=FOLDER)`` resumes a saved reservoir and needs no source. Defaults to
            None, the method without a reservoir.
        source: List or ``DataLoader`` of source images; labels are ignored. Required by a reservoir
            without calibration and by some methods, unless a saved state is loaded.
        params: Parameters to adapt: ``dict(type=..., **options)`` with the type ``norm_affine``
            (default), ``all``, ``lora`` or ``prompt``.
        statistics: Statistics of BatchNorm: ``"batch"``, ``"running"`` (the source's, for streams
            of single images), or the weight of the batch from 0 to 1. Defaults to the method's.
        images: Range of the images: ``"unit"`` for [0, 1], ``"imagenet"``, or ``(mean, std)``. The
            network gets the images unchanged; styles and augmentations need the range.
        batch_size: Images of a complete batch. The source is split into such batches, and smaller
            batches open no domain. Defaults to the first batch of the source or of the stream.
        seed: Seed of reservoir, method and ``params``, unless their options contain one.
        plan: Builder for the same options, if it exists already. Defaults to None.
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
                "this network was wrapped before, so its parameters and BatchNorm statistics are "
                "no longer those of the source: wrap a copy.deepcopy that was made earlier"
            )
        self.range = ImageRange(images)
        self.plan = plan or RunBuilder(CLASSIFICATION, method, params, statistics, reservoir, seed)
        self.net = net.eval()
        self.batch_size = batch_size
        self.frozen = self.plan.start.frozen
        self.last: Outcome | None = None
        """Outcome of the last call of any thread: logits, route, number of experts."""
        self.calibration: Calibration | None = None
        """Styles of the source; None if the router needs no styles."""
        if source is not None:
            device = next((p.device for p in net.parameters()), torch.device("cpu"))
            source = SourceStream(source, batch_size, self.range, device)
        context = TaskContext(net, classification_forward, self.range, source)
        self.pipeline = self.plan.assemble(context)
        self.pipeline.check = self.range.check_extremes
        self.method = self.pipeline.method
        setattr(net, _MARK, True)
        self._source_size: int | None = None
        learns = self.method.needs_source and not isinstance(method, AdaptationMethod)
        needed = self.plan.needs_calibration or (learns and self.plan.start.start_from is None)
        self.waits_for_source: bool = needed and source is None
        """Whether a state must be loaded before the first call."""
        if self.waits_for_source and reservoir is not None and not self.plan.needs_calibration:
            raise ReservoirError(
                f"{type(self.method).__name__} learns from source images, in addition to the "
                "calibration of the reservoir: give source=..., too"
            )
        if not self.waits_for_source:
            self.calibration = self.plan.calibrate(self.pipeline, context)
        if source is not None and self.calibration is not None and batch_size is None:
            self.batch_size = self._source_size = source.batch_size

    def forward(self, images: Tensor, domain: str | None = None) -> Tensor:
        """Return the logits of a batch: ``step(images, domain).logits``."""
        return self.step(images, domain).logits

    def step(self, images: Tensor, domain: str | None = None) -> Outcome:
        """Predict a batch and, unless frozen, adapt to it. It works within ``torch.no_grad()``.

        Args:
            images: Batch of images, ``(N, 3, H, W)``.
            domain: True domain, for oracle routers only. Defaults to None.

        Returns:
            Logits, route and number of experts of this batch.
        """
        with self.pipeline.lock:
            return self._step(images, domain)

    def _step(self, images: Tensor, domain: str | None) -> Outcome:
        if self.waits_for_source:
            raise ReservoirError(
                f"{type(self.method).__name__} or its reservoir needs source images: give "
                "AdaptiveClassifier source=..., or load the state of one that had them"
            )
        if not isinstance(images, Tensor) or images.ndim != 4 or not len(images):
            what = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise ReservoirError(f"a batch must be a tensor (N, 3, H, W), got {what}")
        batch_size = self._check_size(len(images))
        if self.frozen:
            # Leave inference mode, because a router may update its state.
            with torch.inference_mode(False), torch.no_grad():
                images = images.clone() if images.is_inference() else images
                self.last = self.pipeline.infer(images, domain=domain)
        elif torch.is_inference_mode_enabled():
            raise ReservoirError(
                "adaptation needs gradients, which torch.inference_mode() forbids: use "
                "torch.no_grad() or nothing, or freeze() the model"
            )
        else:
            complete = len(images) >= batch_size
            self.last = self.pipeline.step(images, complete=complete, domain=domain)
        self.batch_size = batch_size
        return self.last

    def _check_size(self, size: int) -> int:
        """Return the size of complete batches.

        The first batch must have the size of the source's batches, for which tau was calibrated.
        """
        if self.last is not None and self.batch_size is not None:
            return self.batch_size
        if self._source_size is not None and size != self._source_size:
            raise ReservoirError(
                f"the first batch of the stream has {size} images, those of the source have "
                f"{self._source_size}, and tau is valid for batches of one size only: set "
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
        """Stop or resume adaptation. A frozen model still routes batches to its experts.

        Parameters and centroids do not change, but a router with evidence of several batches still
        updates this evidence.
        """
        with self.pipeline.lock:
            self.frozen = frozen
        return self

    def train(self, mode: bool = True) -> AdaptiveClassifier:
        """Keep the network in evaluation mode, whatever ``mode`` is."""
        return super().train(False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptiveClassifier:
        """Raise an error: moving or casting would miss the experts and optimizers."""
        values = self.method.space.values.detach()
        applied = fn(values)
        if (applied.device, applied.dtype) != (values.device, values.dtype):
            raise ReservoirError(
                "an AdaptiveClassifier cannot be moved or cast: move the network, then wrap it"
            )
        return super()._apply(fn, recurse)

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return torch's state dict. Its extra entry is the state of the adaptation."""
        with self.pipeline.lock:
            return super().state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Restore :meth:`state_dict`."""
        with self.pipeline.lock:
            return super().load_state_dict(*args, **options)

    def get_extra_state(self) -> dict[str, Any]:
        """Return copies of pipeline and calibration as tensors and plain values."""
        if self.waits_for_source:
            raise ReservoirError(
                "there is no state to save before the source images were read: give source=..."
            )
        return {
            "about": self._identity(),
            "pipeline": snapshot(self.pipeline),
            "styles": getattr(self.calibration, "styles", None),
            "groups": getattr(self.calibration, "groups", None),
            "batch_size": self.batch_size,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`get_extra_state`. No source images are needed."""
        for part, expected in self._identity().items():
            if state["about"][part] != expected:
                raise ReservoirError(
                    f"the state is of another {part} ({state['about'][part]}), not {expected}: "
                    "build the AdaptiveClassifier with the options of the one that was saved"
                )
        if state["styles"] is not None:
            # The router compares styles on the CPU.
            self.calibration = Calibration(state["styles"].cpu(), groups=state["groups"])
            assert isinstance(self.pipeline, ReservoirPipeline)
            self.pipeline.router.calibrate(self.calibration)
        self.batch_size = state["batch_size"]
        self.waits_for_source, self._source_size = False, None
        self.pipeline.load_state_dict(state["pipeline"])

    def _identity(self) -> dict[str, str]:
        """Return names of parts that must equal those of a loaded state; options may differ."""
        router = getattr(self.pipeline, "router", None)
        encoder: Any = getattr(self.pipeline, "encoder", None)
        style = encoder.fingerprint() if hasattr(encoder, "fingerprint") else str(encoder)
        return {
            "method": type(self.method).__name__,
            "optimizer": type(self.method.optimizer).__name__,
            "router": "none, no reservoir" if router is None else type(router).__name__,
            "style": json.dumps(style, sort_keys=True),
        }
