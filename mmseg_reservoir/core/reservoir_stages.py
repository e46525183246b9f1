"""The stages of a step of a `ReservoirPipeline`, as functions for timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .pipeline import find_route
from .route import Route

if TYPE_CHECKING:
    from .reservoir_pipeline import ReservoirPipeline


def reservoir_stages(
    pipeline: ReservoirPipeline, inputs: Tensor, domain: str | None
) -> dict[str, Callable[[], object]]:
    """Return functions that run the stages of a step, by name, for a non-source expert.

    ``style`` finds the route, ``predict`` predicts, ``adapt`` predicts and updates, ``probe`` is a
    check of the guard, and ``trial`` one forward pass of an alignment trial. Running them changes
    the pipeline.
    """
    if len(pipeline.reservoir) < pipeline.router.k_max:
        pipeline._open(inputs)  # the source's expert is cheaper, since it is not aligned
    index = len(pipeline.reservoir) - 1
    route = Route(index, torch.eye(index + 1)[index], is_new=False)
    expert = pipeline.reservoir.checkout(index)[0].clone()

    def style() -> None:
        find_route(pipeline.router, pipeline.encoder, inputs, complete=False, domain=domain)

    @torch.no_grad()
    def aligned_pass() -> Tensor:
        with pipeline._aligned(index):
            return pipeline.method.forward(inputs)

    def predict() -> None:
        with pipeline._aligned(index):
            pipeline._predict(route, inputs)

    def adapt() -> None:
        pipeline._rests(index)  # a trigger counts a batch before it learns from it
        pipeline._learn(route, inputs, checks=False)

    def probe() -> None:
        assert pipeline.guard is not None
        assert pipeline.safeguards is not None
        pipeline.guard.is_due(index)
        pipeline.safeguards.probe(index, expert, expert, inputs, logits)

    stages: dict[str, Callable[[], object]] = {"style": style, "predict": predict}
    stages["adapt"] = adapt
    if pipeline.guard is not None:
        with pipeline._aligned(index):
            logits = pipeline.method.predict(inputs)
        stages["probe"] = probe
    if pipeline.alignment is not None:
        stages["trial"] = aligned_pass
    return stages
