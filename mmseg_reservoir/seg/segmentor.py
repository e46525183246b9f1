"""An mmseg segmentor that adapts while it is tested."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from mmseg.models import EncoderDecoder
from torch import Tensor, nn

from ..core.losses import entropy, marginal_entropy
from ..core.pipeline import AdaptationPipeline
from ..errors import ReservoirError
from .bad_images import check_sizes


@MODELS.register_module()
class AdaptiveSegmentor(BaseModel):
    """Wraps a loaded segmentor; every ``test_step`` predicts a batch and adapts to it.

    Each returned sample tells its route in its metainfo: ``expert`` (which one adapted), ``k``
    (how many there are), ``route_weight`` (the expert's share of the prediction),
    ``route_entropy`` (of all experts' shares), ``opened`` (whether it is new) and
    ``adaptation_seconds`` (time per image). ``entropy`` (mean over its pixels) and
    ``marginal_entropy`` (of the mean distribution of its pixels), in nats, tell how sure and how
    diverse its prediction is, without a label.

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
        self.batch_size = batch_size
        self.domain: str | None = None
        """The true domain, where known: only an oracle looks at it."""
        self.frozen = False
        """Whether it only predicts: nothing adapts, no domain is opened."""
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
        _check_finite(inputs, data_samples)
        start = _now(inputs)
        if self.frozen:
            outcome = self.pipeline.infer(inputs, domain=self.domain)
        else:
            complete = len(inputs) == self.batch_size
            outcome = self.pipeline.step(inputs, complete=complete, domain=self.domain)
        seconds = (_now(inputs) - start) / len(inputs)
        samples = self._to_samples(outcome.logits, data_samples)
        for sample, logits in zip(samples, outcome.logits, strict=True):
            sample.set_metainfo(
                dict(
                    expert=outcome.route.index,
                    k=outcome.k,
                    route_weight=float(outcome.route.weights[outcome.route.index]),
                    route_entropy=outcome.route.entropy,
                    opened=outcome.route.is_new,
                    adaptation_seconds=seconds,
                    **(_entropies(logits) if self.measures_entropy else {}),
                )
            )
        return samples

    @torch.no_grad()
    def source_label(self, data: dict) -> Tensor:
        """What the source model says of the first image of a batch: labels ``(H, W)``."""
        data = self.data_preprocessor(data, False)
        samples = [sample.clone() for sample in data["data_samples"]]
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


def _check_finite(inputs: Tensor, data_samples: list) -> None:
    for image, sample in zip(inputs, data_samples, strict=True):
        if not torch.isfinite(image).all():
            raise ReservoirError(
                f"the image {sample.metainfo.get('img_path')} holds NaN or infinite values after "
                "preprocessing: mend or remove it"
            )


def _entropies(logits: Tensor) -> dict[str, float | None]:
    pixels = logits[None].float()
    return {
        "entropy": _finite(entropy(pixels).mean()),
        "marginal_entropy": _finite(marginal_entropy(pixels)),
    }


def _finite(value: Tensor) -> float | None:
    """The number, or None, which JSON has a word for, of a prediction that is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None


def _now(inputs: Tensor) -> float:
    if inputs.is_cuda:
        torch.cuda.synchronize(inputs.device)  # or the clock would stop before the work does
    return time.perf_counter()
