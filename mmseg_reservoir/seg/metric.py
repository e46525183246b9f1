"""Mean IoU of one visit, at full precision and while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmengine.registry import METRICS
from mmseg.evaluation import IoUMetric

from ..errors import ReservoirError


@METRICS.register_module()
class VisitIoUMetric(IoUMetric):
    """mmseg's ``IoUMetric`` without its rounding to two decimals and its table per class.

    Images without a label are not scored, and a visit without any has no scores at all. After
    :meth:`evaluate`, ``per_class`` maps each class name to its IoU in percent (None for a
    class that neither occurs nor is predicted).

    Args:
        iou_metrics: ``"mDice"``, ``"mFscore"``: what else to compute. mIoU always is, since records
            and tables go by it.
        **options: See ``mmseg.evaluation.IoUMetric``.
    """

    default_prefix = ""  # one metric per visit: its names need none
    per_class: dict[str, float | None] = {}
    _areas: torch.Tensor | None = None

    def __init__(self, iou_metrics: Sequence[str] = ("mIoU",), **options: Any) -> None:
        super().__init__(iou_metrics=list(dict.fromkeys(("mIoU", *iou_metrics))), **options)

    def process(self, data_batch: dict, data_samples: Sequence[dict]) -> None:
        """Count the pixels of a batch."""
        labelled = [s for s in data_samples if "gt_sem_seg" in s and not self.format_only]
        others = [s for s in data_samples if "gt_sem_seg" not in s or self.format_only]
        if others:
            # What mmseg calls it if there is no label: only to write predictions, if it is asked.
            asked, self.format_only = self.format_only, True
            super().process(data_batch, others)
            self.format_only = asked
        for sample in labelled:
            predicted = tuple(sample["pred_sem_seg"]["data"].shape[-2:])
            label = tuple(sample["gt_sem_seg"]["data"].shape[-2:])
            if predicted != label:
                raise ReservoirError(
                    f"the label {sample.get('seg_map_path')} is {label[0]}x{label[1]}, its image "
                    f"{sample.get('img_path')} is {predicted[0]}x{predicted[1]}: they must have "
                    "the same size"
                )
        done = len(self.results)
        super().process(data_batch, labelled)
        for areas in self.results[done:]:
            counted = torch.stack(areas).double()
            self._areas = counted if self._areas is None else self._areas + counted

    def running_miou(self) -> float:
        """mIoU in percent over the images of this visit so far."""
        return float("nan") if self._areas is None else self._summary(self._areas)["mIoU"]

    def evaluate(self, size: int) -> dict[str, float]:
        """The scores of the visit; none if nothing had a label."""
        self.per_class = {}
        return super().evaluate(size) if self.results else {}

    def compute_metrics(self, results: list) -> dict[str, float]:
        """mIoU, mAcc and aAcc in percent over the whole visit."""
        areas = torch.stack([torch.stack(r) for r in results]).double().sum(dim=0)
        self._areas = None
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
            name if name == "aAcc" else f"m{name}": 100 * float(np.nanmean(value))
            for name, value in metrics.items()
        }
