"""An mmseg segmentor that adapts while it is tested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from mmengine.logging import print_log
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from mmengine.structures import PixelData
from mmseg.models import EncoderDecoder
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..core.image_range import refuse_not_finite
from ..core.outcome import NOT_ADAPTING, Outcome
from ..core.pipeline import AdaptationPipeline
from ..core.route import Route
from ..core.side_effects import restored, snapshot
from ..core.step_cost import measure_costs, now
from ..errors import NotFiniteError, ReservoirError
from .bad_images import check_sizes
from .frame_clock import FrameClock

NO_CLASS = 255
"""Label of a frame that is dropped before any step is finished; it counts as wrong everywhere."""


@MODELS.register_module()
class AdaptiveSegmentor(BaseModel):
    """A wrapper of a loaded segmentor: every ``test_step`` predicts a batch and adapts to it.

    Each returned sample has the `Outcome` of its batch in its metainfo, as ``outcome``.

    Calls from several threads run one at a time.

    It is registered in mmengine, so that a subclass can replace it. `AdaptationHook` supplies
    model and pipeline, because both need loaded weights.

    Args:
        batch_size: Images of a complete batch; the last batch of a visit may be smaller. Defaults
            to 1.
    """

    def __init__(
        self, model: EncoderDecoder, pipeline: AdaptationPipeline, batch_size: int = 1
    ) -> None:
        super().__init__(data_preprocessor=model.data_preprocessor)
        self.segmentor = model
        self.pipeline = pipeline
        pipeline.check = refuse_not_finite
        self.batch_size = batch_size
        self.domain: str | None = None
        """The true domain if it is known, for oracle routers only."""
        self.frozen = False
        """Whether to predict without adaptation and without opening domains."""
        self.clock: FrameClock | None = None
        """Clock that determines which batches are missed; None if none is missed."""

    def test_step(self, data: dict) -> list:
        """Predict a batch of the dataloader and adapt to it."""
        check_sizes(data["inputs"])
        return super().test_step(data)

    def forward(self, inputs: Tensor, data_samples: list, mode: str = "predict") -> Any:
        """Predict and adapt in mode ``"predict"``; use the wrapped model in other modes."""
        if mode != "predict":
            return self.segmentor(inputs, data_samples, mode=mode)
        try:
            with self.pipeline.lock:
                return self._adapt_and_describe(inputs, data_samples)
        except NotFiniteError:
            _name_broken_image(inputs, data_samples)
            raise

    def _adapt_and_describe(self, inputs: Tensor, data_samples: list) -> list:
        """Return the samples with their predictions; a missed batch does not adapt."""
        clock = self.clock
        if clock is None:
            return self._described(self._step(inputs), data_samples)
        if clock.step_seconds is None:
            clock.step_seconds = measure_costs(self.pipeline, inputs, self.domain)
            print_log(
                f"measured seconds by stage of a step: {clock.step_seconds}", logger="current"
            )
        if not clock.is_busy:
            return self._step_by_clock(clock, inputs, data_samples)
        if clock.missed == "drop":
            return [self._repeat_last(clock.finished, sample) for sample in data_samples]
        return self._described(self._answer(clock, inputs), data_samples)

    def _step(self, inputs: Tensor) -> Outcome:
        start = now(inputs)
        if self.frozen:
            outcome = self.pipeline.infer(inputs, domain=self.domain)
        else:
            complete = len(inputs) == self.batch_size
            outcome = self.pipeline.step(inputs, complete=complete, domain=self.domain)
        return replace(outcome, seconds=now(inputs) - start)

    def _step_by_clock(self, clock: FrameClock, inputs: Tensor, data_samples: list) -> list:
        """Step on a batch that is not missed, and keep the result that answers missed frames."""
        if clock.missed == "answer":
            clock.finished = snapshot(self.pipeline)
        outcome = self._step(inputs)
        clock.spend(outcome.work)
        handled: Literal["adapted", "rested"] = "adapted" if "adapt" in outcome.work else "rested"
        samples = self._described(replace(outcome, handled=handled), data_samples)
        if clock.missed == "drop":
            label = samples[-1].pred_sem_seg.data.to("cpu", torch.uint8)
            route = {"expert": outcome.expert, "k": outcome.k}
            clock.finished, clock.running = clock.running, {"label": label, "route": route}
        return samples

    def _answer(self, clock: FrameClock, inputs: Tensor) -> Outcome:
        """Predict a missed batch with the last finished model; its router is updated."""
        with restored(self.pipeline):
            self.pipeline.load_state_dict(clock.finished)
            start = now(inputs)
            outcome = self.pipeline.infer(inputs, domain=self.domain)
            seconds = now(inputs) - start
            clock.finished = snapshot(self.pipeline)
        return replace(outcome, seconds=seconds, handled="answered")

    def _repeat_last(self, last: Any, sample: Any) -> Any:
        """Return a missed frame with the last finished label map, or with no class at all."""
        size = tuple(sample.metainfo["ori_shape"][:2])
        label = torch.full((1, *size), NO_CLASS, dtype=torch.uint8)
        expert, k = 0, 1
        if last is not None:
            label = interpolate(last["label"][None], size=size)[0]  # nearest, if the size changed
            expert, k = last["route"]["expert"], last["route"]["k"]
        device = self.data_preprocessor.device
        sample.pred_sem_seg = PixelData(data=label.to(device, torch.int64))
        route = Route(expert, torch.eye(k)[expert], is_new=False)
        outcome = replace(NOT_ADAPTING, route=route, k=k, handled="dropped")
        return _with_outcome(sample, outcome)

    def _described(self, outcome: Outcome, data_samples: list) -> list:
        samples = self._to_samples(outcome.logits, data_samples)
        return [_with_outcome(sample, outcome) for sample in samples]

    @torch.no_grad()
    def source_label(self, data: dict) -> Tensor:
        """Return the labels ``(H, W)`` of the source model for the first image of a batch."""
        data = self.data_preprocessor(data, False)
        samples = [sample.clone() for sample in data["data_samples"]]
        with self.pipeline.lock:
            logits = self.pipeline.predict_source(data["inputs"])
        return self._to_samples(logits, samples)[0].pred_sem_seg.data[0]

    def _to_samples(self, logits: Tensor, data_samples: list) -> list:
        metas = [sample.metainfo for sample in data_samples]
        # Logits at the size of the labels are final: resizing to the input and back would blur.
        if not all(logits.shape[-2:] == tuple(meta["ori_shape"][:2]) for meta in metas):
            head: Any = self.segmentor.decode_head
            head = head[-1] if isinstance(head, nn.ModuleList) else head
            logits = head.predict_by_feat(logits, metas)
        return self.segmentor.postprocess_result(logits, data_samples)


def _name_broken_image(inputs: Tensor, data_samples: list) -> None:
    for image, sample in zip(inputs, data_samples, strict=True):
        if not torch.isfinite(image).all():
            raise ReservoirError(
                f"the image {sample.metainfo.get('img_path')} holds NaN or infinite values after "
                "preprocessing: fix or remove it"
            )


def _with_outcome(sample: Any, outcome: Outcome) -> Any:
    # Not by set_metainfo, which copies all tensors.
    sample.set_field(outcome, "outcome", field_type="metainfo")
    return sample
