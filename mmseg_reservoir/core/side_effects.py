"""Predictions outside of the stream, which change nothing in a pipeline."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .pipeline import AdaptationPipeline


@contextmanager
def without_side_effects(pipeline: AdaptationPipeline) -> Iterator[None]:
    """Keep `AdaptationPipeline.infer` from changing the pipeline, within this context.

    Otherwise the router follows the stream, a prediction loads an expert, and a method may draw
    random numbers. So the context uses a copy of the router, and restores the loaded expert and
    torch's random generators. It does not undo steps.
    """
    method, router = pipeline.method, getattr(pipeline, "router", None)
    parameters, state = method.space.snapshot(), method.domain_state()
    if router is not None:
        pipeline.router = copy.deepcopy(router)
    try:
        with _forked_rng(pipeline):
            yield
    finally:
        if router is not None:
            pipeline.router = router
        method.load(parameters, state)


def snapshot(pipeline: AdaptationPipeline) -> dict[str, Any]:
    """Return a copy of a pipeline's state, which later steps do not change."""
    return copy.deepcopy(pipeline.state_dict())


@contextmanager
def restored(pipeline: AdaptationPipeline) -> Iterator[None]:
    """Restore the state of the pipeline after this context, whatever steps change within it."""
    state = snapshot(pipeline)
    try:
        with _forked_rng(pipeline):
            yield
    finally:
        pipeline.load_state_dict(state)


def _forked_rng(pipeline: AdaptationPipeline) -> AbstractContextManager[None]:
    # The pipeline only uses the generators of the CPU and of its device.
    device = pipeline.method.space.values.device
    return torch.random.fork_rng([device] if device.type == "cuda" else [])
