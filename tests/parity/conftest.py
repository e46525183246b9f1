"""Our pipelines, driven through the recorded streams once per session."""

from __future__ import annotations

from dataclasses import dataclass, field

import parity_trace
import pytest
import torch
from parity_trace import Run, StyleBook, build_pipeline
from torch import Tensor

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.core.outcome import Outcome
from mmseg_reservoir.core.pipeline import AdaptationPipeline

_NO_NEW, _FROM_SOURCE = -1, -2  # step.init_from of steps that clone no expert


@dataclass
class Replay:
    """What our pipeline did in a run, step by step."""

    run: Run
    pipeline: AdaptationPipeline
    outcomes: list[Outcome] = field(default_factory=list)
    init_from: list[int] = field(default_factory=list)
    params_after: list[Tensor] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    loss_average: list[float] = field(default_factory=list)

    @property
    def experts(self) -> Tensor:
        """The parameters of all experts at the end; of a plain method, of its one model."""
        if self.run.has_reservoir:
            return self.pipeline.reservoir.experts
        return self.pipeline.method.space.snapshot()[None]

    def per_step(self, name: str) -> list[int]:
        """How much one of the method's counts grew at every step; what it lacks never grew."""
        totals = [counts.get(name, 0) for counts in self.counts]
        return [b - a for a, b in zip([0, *totals], totals, strict=False)]


def watch_initialisation(pipeline: AdaptationPipeline, origins: list[int]) -> None:
    """Note in ``origins[-1]`` which expert a new one is cloned from."""
    if not isinstance(pipeline, ReservoirPipeline):
        return
    init = pipeline.init

    def watched(reservoir, method, inputs):
        parameters, state = init(reservoir, method, inputs)
        rows = [reservoir.checkout(k)[0].data_ptr() for k in range(len(reservoir))]
        is_clone = parameters.data_ptr() in rows
        origins[-1] = rows.index(parameters.data_ptr()) if is_clone else _FROM_SOURCE
        return parameters, state

    pipeline.init = watched


def drive(run: Run, pipeline: AdaptationPipeline) -> Replay:
    """Drive a pipeline through the stream of a run."""
    replay = Replay(run, pipeline)
    watch_initialisation(pipeline, replay.init_from)
    for batch in run.batches():
        replay.init_from.append(_NO_NEW)
        replay.outcomes.append(pipeline.step(batch, complete=run.is_complete(batch)))
        replay.params_after.append(replay.experts[replay.outcomes[-1].route.index].clone())
        replay.counts.append(dict(pipeline.method.counts))
        average = pipeline.method.state.get("loss")
        replay.loss_average.append(float("nan") if average is None else float(average))
    return replay


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> StyleBook:
    """The styles of the trace set, by our encoder."""
    if parity_trace.set_name() is None:
        pytest.skip(parity_trace.ABSENT)
    return StyleBook(tmp_path_factory.mktemp("parity") / "vgg19.pth")


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Run:
    """A recorded run; tests name the runs with :func:`parity_trace.runs`."""
    return Run(request.param)


@pytest.fixture(scope="session")
def replay(run: Run, book: StyleBook) -> Replay:
    """What we make of it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as recorded; and small tensors are faster so
    try:
        return drive(run, build_pipeline(run, book))
    finally:
        torch.set_num_threads(threads)
