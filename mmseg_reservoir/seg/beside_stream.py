"""Labelled sets beside the stream: what a model that adapts has forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mmengine.evaluator import Evaluator
from mmengine.runner.amp import autocast
from torch import nn
from torch.utils.data import DataLoader

from ..core.side_effects import aside
from .metric import VisitIoUMetric
from .segmentor import AdaptiveSegmentor


@torch.no_grad()
def scores_beside(
    model: nn.Module, loader: DataLoader, evaluator: Evaluator, domain: str, fp16: bool = False
) -> dict[str, Any]:
    """Test a model, frozen, on a set: it is left as it was, and no hook sees the images.

    Returns:
        Number of images, IoU by class and all that the evaluator says.
    """
    evaluator.dataset_meta = loader.dataset.metainfo
    with _frozen(model, domain), autocast(enabled=fp16):
        for batch in loader:
            evaluator.process(data_samples=model.test_step(batch), data_batch=batch)
    metrics = evaluator.evaluate(len(loader.dataset))
    exact = [metric for metric in evaluator.metrics if isinstance(metric, VisitIoUMetric)]
    per_class = exact[0].per_class if exact else {}
    plain = {n: v.item() if hasattr(v, "item") else v for n, v in metrics.items()}
    return {"n_images": len(loader.dataset), "per_class": per_class, **plain}


@contextmanager
def _frozen(model: nn.Module, domain: str) -> Iterator[None]:
    """Within, an adaptive model only predicts, and forgets that it did; others do so anyway."""
    if not isinstance(model, AdaptiveSegmentor):
        yield
        return
    before, model.domain = (model.frozen, model.domain, model.clock), domain
    model.frozen, model.clock = True, None
    try:
        with aside(model.pipeline):
            yield
    finally:
        model.frozen, model.domain, model.clock = before
