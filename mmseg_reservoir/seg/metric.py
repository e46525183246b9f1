"""Mean IoU of one visit, at full precision and while it runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mmengine.registry import METRICS
from mmseg.evaluation import IoUMetric

from ..errors import ReservoirError


@METRICS.register_module()
class VisitIoUMetric(IoUMetric):
    """mmseg's ``IoUMetric`` without its rounding to two decimals and its table per class.

    After :meth:`evaluate`, ``per_class`` maps each class name to its IoU in percent (None for a
    class that neither occurs nor is predicted).
    """

    default_prefix = ""  # one metric per visit: its names need none
    per_class: dict[str, float | None] = {}

    def process(self, data_batch: dict, data_samples: Sequence[dict]) -> None:
        """Count the pixels of a batch."""
        for sample in data_samples:
            predicted = tuple(sample["pred_sem_seg"]["data"].shape[-2:])
            label = tuple(sample["gt_sem_seg"]["data"].shape[-2:])
            if predicted != label:
                raise ReservoirError(
                    f"the label {sample.get('seg_map_path')} is {label[0]}x{label[1]}, its image "
                    f"{sample.get('img_path')} is {predicted[0]}x{predicted[1]}: they must have "
                    "the same size"
                )
        super().process(data_batch, data_samples)
        if self.results:  # all that is kept, and saved, of a visit
            self.results = [tuple(_total(self.results))]

    def running_miou(self) -> float:
        """mIoU in percent over the images of this visit so far."""
        return self._summary(_total(self.results))["mIoU"] if self.results else float("nan")

    def compute_metrics(self, results: list) -> dict[str, float]:
        """mIoU, mAcc and aAcc in percent over the whole visit."""
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
            name if name == "aAcc" else f"m{name}": 100 * float(np.nanmean(value))
            for name, value in metrics.items()
        }


def _total(results: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
    """Pixels of all images by class; as doubles, in which numbers of pixels add without rounding.

    Rows: intersection, union, prediction, label.
    """
    return torch.stack([torch.stack(list(areas)).double() for areas in results]).sum(dim=0)
