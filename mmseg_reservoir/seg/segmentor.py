"""An mmseg segmentor that adapts while it is tested."""

from __future__ import annotations

import math
from typing import Any

import torch
from mmengine.logging import print_log
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from mmengine.structures import PixelData
from mmseg.models import EncoderDecoder
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..core.image_range import refuse_not_finite
from ..core.losses import entropy, marginal_entropy
from ..core.pipeline import AdaptationPipeline, Outcome
from ..core.side_effects import restored, snapshot
from ..core.step_cost import measure_costs, now
from ..errors import NotFiniteError, ReservoirError
from .bad_images import check_sizes
from .frame_clock import FrameClock

NO_CLASS = 255
"""The label of a frame that is dropped before any prediction is finished: wrong at every pixel."""


@MODELS.register_module()
class AdaptiveSegmentor(BaseModel):
    """Wraps a loaded segmentor; every ``test_step`` predicts a batch and adapts to it.

    Each returned sample tells its route in its metainfo: ``expert`` (which one adapted), ``k``
    (how many there are), ``route_weight`` (the expert's share of the prediction),
    ``route_entropy`` (of all experts' shares), ``opened`` (whether it is new) and
    ``adaptation_seconds`` (time per image). ``entropy`` (mean over its pixels) and
    ``marginal_entropy`` (of the mean distribution of its pixels), in nats, tell how sure and how
    diverse its prediction is, without a label. Where a clock runs, ``handled`` is how the frame was
    treated: ``"adapted"``, ``"rested"`` (in time, but only predicted), ``"answered"`` or
    ``"dropped"`` (both missed).

    Threads that share it are served one at a time.

    Its name is registered in mmengine, so that a subclass of one's own can take its place; model
    and pipeline come ready made, since both need loaded weights.

    Args:
        model: The segmentor, with its weights loaded.
        pipeline: A pipeline over that model.
        batch_size: The size of complete batches; the last batch of a visit may be smaller.
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
        """The true domain, where known: only an oracle looks at it."""
        self.frozen = False
        """Whether it only predicts: nothing adapts, no domain is opened."""
        self.clock: FrameClock | None = None
        """Decides which batches are missed; None: none is, however long a step takes."""
        self.measures_entropy = True
        """Whether samples get ``entropy`` and ``marginal_entropy``, which only a record reads."""

    def test_step(self, data: dict) -> list:
        """Adapt to a batch as the dataloader gives it, and predict it."""
        check_sizes(data["inputs"])
        return super().test_step(data)

    def forward(self, inputs: Tensor, data_samples: list, mode: str = "predict") -> Any:
        """Adapt and predict; other modes go to the wrapped model."""
        if mode != "predict":
            return self.segmentor(inputs, data_samples, mode=mode)
        try:
            with self.pipeline.lock:
                return self._adapt_and_describe(inputs, data_samples)
        except NotFiniteError:
            _name_broken_image(inputs, data_samples)
            raise

    def _adapt_and_describe(self, inputs: Tensor, data_samples: list) -> list:
        """Run the pipeline on a batch, by the clock if there is one."""
        if self.clock is not None and self.clock.step_seconds is None:
            self.clock.step_seconds = measure_costs(self.pipeline, inputs, self.domain)
            costs = self.clock.step_seconds
            print_log(f"measured seconds by stage of a step: {costs}", logger="current")
        if self.clock is not None and self.clock.is_busy:
            if self.clock.missed == "drop":
                return [self._repeat_last(sample) for sample in data_samples]
            return self._described(*self._answer(inputs), data_samples, handled="answered")
        if self.clock is None:
            return self._described(*self._step(inputs), data_samples)
        return self._step_by_clock(self.clock, inputs, data_samples)

    def _step(self, inputs: Tensor) -> tuple[Outcome, float]:
        """Return the outcome of a batch and the seconds that it took."""
        start = now(inputs)
        if self.frozen:
            outcome = self.pipeline.infer(inputs, domain=self.domain)
        else:
            complete = len(inputs) == self.batch_size
            outcome = self.pipeline.step(inputs, complete=complete, domain=self.domain)
        return outcome, now(inputs) - start

    def _step_by_clock(self, clock: FrameClock, inputs: Tensor, data_samples: list) -> list:
        """Step on a batch that is in time; keep what missed frames will be answered with."""
        if clock.missed == "answer":
            clock.finished = snapshot(self.pipeline)
        outcome, seconds = self._step(inputs)
        clock.spend(outcome.work)
        handled = "adapted" if "adapt" in outcome.work else "rested"
        samples = self._described(outcome, seconds, data_samples, handled=handled)
        if clock.missed == "drop":
            label = samples[-1].pred_sem_seg.data.to("cpu", torch.uint8)
            route = {"expert": outcome.route.index, "k": outcome.k}
            clock.finished, clock.running = clock.running, {"label": label, "route": route}
        return samples

    def _answer(self, inputs: Tensor) -> tuple[Outcome, float]:
        """Predict a missed batch with the last finished model, of which the router moves on."""
        assert self.clock is not None
        with restored(self.pipeline):
            self.pipeline.load_state_dict(self.clock.finished)
            start = now(inputs)
            outcome = self.pipeline.infer(inputs, domain=self.domain)
            seconds = now(inputs) - start
            self.clock.finished = snapshot(self.pipeline)
        return outcome, seconds

    def _repeat_last(self, sample: Any) -> Any:
        """Answer a missed frame with the last finished label map."""
        assert self.clock is not None
        size, last = tuple(sample.metainfo["ori_shape"][:2]), self.clock.finished
        label = torch.full((1, *size), NO_CLASS, dtype=torch.uint8)
        if last is not None:
            label = interpolate(last["label"][None], size=size)[0]  # nearest; of another camera
            sample.set_metainfo(last["route"])
        device = self.data_preprocessor.device
        sample.pred_sem_seg = PixelData(data=label.to(device, torch.int64))
        sample.set_metainfo({"handled": "dropped"})
        return sample

    def _described(self, outcome: Outcome, seconds: float, data_samples: list, **more: str) -> list:
        """Return the samples with labels, and in their metainfo what is known of the outcome."""
        samples = self._to_samples(outcome.logits, data_samples)
        measured = _entropies(outcome.logits) if self.measures_entropy else [{}] * len(samples)
        for sample, entropies in zip(samples, measured, strict=True):
            sample.set_metainfo(
                dict(
                    expert=outcome.route.index,
                    k=outcome.k,
                    route_weight=float(outcome.route.weights[outcome.route.index]),
                    route_entropy=outcome.route.entropy,
                    opened=outcome.route.is_new,
                    adaptation_seconds=seconds / len(samples),
                    **entropies,
                    **more,
                )
            )
        return samples

    @torch.no_grad()
    def source_label(self, data: dict) -> Tensor:
        """What the source model says of the first image of a batch: labels ``(H, W)``."""
        data = self.data_preprocessor(data, False)
        samples = [sample.clone() for sample in data["data_samples"]]
        with self.pipeline.lock:
            logits = self.pipeline.predict_source(data["inputs"])
        return self._to_samples(logits, samples)[0].pred_sem_seg.data[0]

    def _to_samples(self, logits: Tensor, data_samples: list) -> list:
        metas = [sample.metainfo for sample in data_samples]
        # A prediction at the size of the labels is final: resizing it to the input's and back
        # would blur it.
        if not all(logits.shape[-2:] == tuple(meta["ori_shape"][:2]) for meta in metas):
            head = self.segmentor.decode_head
            head = head[-1] if isinstance(head, nn.ModuleList) else head
            logits = head.predict_by_feat(logits, metas)
        return self.segmentor.postprocess_result(logits, data_samples)


def _name_broken_image(inputs: Tensor, data_samples: list) -> None:
    """Raise an error that names the first image with NaN or infinite values."""
    for image, sample in zip(inputs, data_samples, strict=True):
        if not torch.isfinite(image).all():
            raise ReservoirError(
                f"the image {sample.metainfo.get('img_path')} holds NaN or infinite values after "
                "preprocessing: fix or remove it"
            )


def _entropies(logits: Tensor) -> list[dict[str, float | None]]:
    """Return entropy and marginal entropy of every image of a batch, in one transfer."""
    images = [image[None].float() for image in logits]
    pairs = [torch.stack([entropy(image).mean(), marginal_entropy(image)]) for image in images]
    names = ("entropy", "marginal_entropy")
    rows = torch.stack(pairs).tolist()
    return [dict(zip(names, map(_finite, row), strict=True)) for row in rows]


def _finite(number: float) -> float | None:
    """Return a number; None, which JSON has a word for, if it is not finite."""
    return number if math.isfinite(number) else None
