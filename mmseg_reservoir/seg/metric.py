"""Mean IoU of one visit: running and final, without rounding."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import Evaluator
from mmengine.logging import print_log
from mmengine.registry import METRICS
from mmengine.runner.amp import autocast
from mmseg.evaluation import IoUMetric
from torch import nn

from ..core.side_effects import without_side_effects
from ..errors import ReservoirError
from .segmentor import AdaptiveSegmentor


@METRICS.register_module()
class VisitIoUMetric(IoUMetric):
    """mmseg's ``IoUMetric`` without the rounding to two decimals and the table of classes.

    Images without a label are not scored. A visit without labels has no scores; scores are NaN if
    no pixel of its labels has a class. :meth:`evaluate` sets two attributes:

    - ``per_class``: the IoU of each class in percent, by name; None for a class that neither
      occurs nor is predicted
    - ``strange_labels``: the number of label images with values that are no class

    Args:
        iou_metrics: Additional metrics, ``"mDice"`` or ``"mFscore"``. mIoU is always computed,
            because records and tables need it.
        **options: Options of ``mmseg.evaluation.IoUMetric``.
    """

    default_prefix = ""  # a visit has one metric, so names need no prefix
    per_class: dict[str, float | None] = {}
    strange_labels = 0
    strange_so_far = 0
    format_only: bool
    results: list[Any]
    _has_warned = False

    def __init__(self, iou_metrics: Sequence[str] = ("mIoU",), **options: Any) -> None:
        super().__init__(iou_metrics=list(dict.fromkeys(("mIoU", *iou_metrics))), **options)

    def process(self, data_batch: dict, data_samples: Sequence[dict]) -> None:
        """Count the pixels of a batch."""
        labeled = [s for s in data_samples if "gt_sem_seg" in s and not self.format_only]
        others = [s for s in data_samples if "gt_sem_seg" not in s or self.format_only]
        if others:
            # Without a label, mmseg's format_only writes predictions if they are requested.
            asked, self.format_only = self.format_only, True
            super().process(data_batch, others)
            self.format_only = asked
        for sample in labeled:
            predicted = tuple(sample["pred_sem_seg"]["data"].shape[-2:])
            label = tuple(sample["gt_sem_seg"]["data"].shape[-2:])
            if predicted != label:
                raise ReservoirError(
                    f"the label {sample.get('seg_map_path')} is {label[0]}x{label[1]}, its image "
                    f"{sample.get('img_path')} is {predicted[0]}x{predicted[1]}: they must have "
                    "the same size"
                )
            self._check_values(sample)
        super().process(data_batch, labeled)
        if self.results:  # keep only the sum, which is also what a saved state holds
            self.results = [tuple(_total(self.results))]

    def _check_values(self, sample: dict) -> None:
        """Warn of label values that are no class, because mmseg silently ignores such pixels."""
        label, classes = sample["gt_sem_seg"]["data"], len(self.dataset_meta["classes"])
        outside = ((label < 0) | (label >= classes)) & (label != self.ignore_index)
        if not outside.any():
            return
        self.strange_so_far += 1
        if not self._has_warned:
            self._has_warned = True
            values = label[outside].unique().tolist()
            print_log(
                f"the label {sample.get('seg_map_path')} holds the values {values}, but there are "
                f"{classes} classes, 0 to {classes - 1}, and {self.ignore_index} for no class: "
                "these pixels are not scored, and the others are probably scored as the wrong "
                "class. Are these labelIds? Give trainIds (Cityscapes' *_labelTrainIds.png), or "
                "a label_map or reduce_zero_label in the dataset. This is logged once",
                logger="current",
                level=logging.WARNING,
            )

    def running_miou(self) -> float:
        """Return the mIoU in percent over the images of this visit so far."""
        return self._summary(_total(self.results))["mIoU"] if self.results else float("nan")

    def evaluate(self, size: int) -> dict[str, float]:
        """Return the scores of the visit; an empty dict if no image has a label."""
        self.per_class = {}
        self.strange_labels, self.strange_so_far = self.strange_so_far, 0
        return super().evaluate(size) if self.results else {}

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Return mIoU, mAcc and aAcc in percent over the whole visit."""
        areas = _total(results)
        iou = (areas[0] / areas[1]).tolist()
        classes = self.dataset_meta["classes"]
        self.per_class = {
            name: None if np.isnan(value) else 100 * value
            for name, value in zip(classes, iou, strict=True)
        }
        return self._summary(areas)

    def _summary(self, areas: torch.Tensor) -> dict[str, float]:
        metrics = self.total_area_to_metrics(*areas, self.metrics, self.nan_to_num, self.beta)
        return {
            name if name == "aAcc" else f"m{name}": 100 * _mean(value)
            for name, value in metrics.items()
        }


def _total(results: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
    """Return the number of pixels by class over all images, as doubles, which are exact here.

    Rows: intersection, union, prediction, label.
    """
    return torch.stack([torch.stack(list(areas)).double() for areas in results]).sum(dim=0)


def _mean(values: np.ndarray) -> float:
    """Return the mean of all values but NaN; without any, NaN and no warning of numpy."""
    numbers = np.asarray(values)[~np.isnan(values)]
    return float(numbers.mean()) if numbers.size else math.nan


def with_exact_iou(evaluator: dict | list) -> list[dict]:
    """Return the metrics of an evaluator with `VisitIoUMetric` instead of ``IoUMetric``."""
    metrics = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    return [
        {**metric, "type": "VisitIoUMetric"} if metric["type"] == "IoUMetric" else metric
        for metric in metrics
    ]


def evaluate(evaluator: Evaluator, size: int) -> dict[str, Any]:
    """Return the scores of an evaluator as plain Python numbers."""
    scores = evaluator.evaluate(size)
    return {n: v.item() if hasattr(v, "item") else v for n, v in scores.items()}


@torch.no_grad()
def evaluate_frozen(
    model: Any, loader: Any, evaluator: Evaluator, domain: str, fp16: bool = False
) -> dict[str, Any]:
    """Test a frozen model on a set. No hook is called, and the model does not change.

    Returns:
        Number of images, IoU by class, and all scores of the evaluator.
    """
    evaluator.dataset_meta = loader.dataset.metainfo
    with _frozen(model, domain), autocast(enabled=fp16):
        for batch in loader:
            evaluator.process(data_samples=model.test_step(batch), data_batch=batch)
    metrics = evaluate(evaluator, len(loader.dataset))
    exact = [metric for metric in evaluator.metrics if isinstance(metric, VisitIoUMetric)]
    per_class = exact[0].per_class if exact else {}
    return {"n_images": len(loader.dataset), "per_class": per_class, **metrics}


@contextmanager
def _frozen(model: nn.Module, domain: str) -> Iterator[None]:
    """Make an adaptive model predict without adaptation or side effects inside the context."""
    if not isinstance(model, AdaptiveSegmentor):
        yield
        return
    before, model.domain = (model.frozen, model.domain, model.clock), domain
    model.frozen, model.clock = True, None
    try:
        with without_side_effects(model.pipeline):
            yield
    finally:
        model.frozen, model.domain, model.clock = before
