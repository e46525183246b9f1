"""Pipelines with a reservoir around a small net, and streams for them, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from small_net import make_method
from torch import Tensor

from mmseg_reservoir.core import Alignment, EvidencePooling, LabelGuard, ReservoirPipeline
from mmseg_reservoir.methods import Tent
from mmseg_reservoir.routing import OracleRouter, SegmentRouter, StyleRouter
from mmseg_reservoir.routing.base import Router
from mmseg_reservoir.style import Calibration

LOOKS = {
    "clear": lambda x: x,
    "dark": lambda x: 0.2 * x - 2,
    "bright": lambda x: 0.5 * x + 3,
    "flat": lambda x: 0.05 * x + 1,
}


def style(images: Tensor) -> Tensor:
    """Mean and log-variance of every channel."""
    return torch.cat([images.mean(dim=(0, 2, 3)), images.var(dim=(0, 2, 3)).log()])


def batches(look: str, count: int, seed: int = 0, size: int = 2) -> list[Tensor]:
    """Batches of one look."""
    generator = torch.Generator().manual_seed(seed)
    return [LOOKS[look](torch.randn(size, 3, 8, 8, generator=generator)) for _ in range(count)]


def calibration() -> Calibration:
    """Of clear batches."""
    return Calibration(torch.stack([style(x) for x in batches("clear", 40, seed=99)]))


def make_router(kind: str, k_max: int = 6) -> Router:
    """A router by its name, fitted where it looks at styles."""
    if kind == "oracle":
        return OracleRouter(k_max)
    router = StyleRouter(k_max=k_max) if kind == "style" else SegmentRouter(k_max=k_max)
    return router.fit(calibration())


def make_pipeline(
    kind: str = "style", method=Tent, care: bool = False, k_max: int = 6, trigger=None, **options
) -> ReservoirPipeline:
    """A pipeline; with ``care`` it has a guard, pools and aligns."""
    guard = LabelGuard(margin=0.05) if care else None
    pipeline = ReservoirPipeline(
        make_method(method, **options),
        make_router(kind, k_max),
        None if kind == "oracle" else style,
        guard=guard,
        pooling=EvidencePooling() if care else None,
        trigger=trigger,
        alignment=Alignment() if care else None,
    )
    if care:
        with pipeline.alignment.measuring():
            for images in batches("clear", 20, seed=99):
                pipeline.predict_source(images)
    return pipeline


def show(
    pipeline: ReservoirPipeline, looks: Sequence[str], seed: int = 0, count: int = 6
) -> list[int]:
    """Let a pipeline adapt to visits of these looks; the experts that they went to."""
    routes = []
    for visit, look in enumerate(looks):
        for images in batches(look, count, seed=1000 * seed + visit):
            routes.append(pipeline.step(images, domain=look).route.index)
    return routes


def stream(looks: Sequence[str], seed: int = 0, count: int = 6) -> Iterator[tuple[str, Tensor]]:
    """What comes after, look by look."""
    for visit, look in enumerate(looks):
        for images in batches(look, count, seed=1000 * seed + visit):
            yield look, images
