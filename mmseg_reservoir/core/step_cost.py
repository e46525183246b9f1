"""The time of the stages of a step, measured without changing the pipeline."""

from __future__ import annotations

import time
from functools import partial
from statistics import median

import torch
from torch import Tensor

from .pipeline import AdaptationPipeline
from .side_effects import restored

TURNS = 5


def measure_costs(
    pipeline: AdaptationPipeline, inputs: Tensor, domain: str | None = None, turns: int = TURNS
) -> dict[str, float]:
    """Return the seconds of every stage of a step, without changing the pipeline.

    Args:
        pipeline: The pipeline.
        inputs: A batch of the usual size.
        domain: True domain of the batch, for an oracle router. Defaults to None, unknown.
        turns: Number of timed runs of each stage, after one to warm up. Defaults to 5.

    Torch with one thread on a CPU is timed in processor time, which excludes other work on the
    machine. Otherwise wall-clock time is used.

    Returns:
        Medians by the names of `AdaptationPipeline.stages`, rounded to microseconds.
    """
    alone = inputs.device.type == "cpu" and torch.get_num_threads() == 1
    read = time.process_time if alone else partial(now, inputs)
    with restored(pipeline):
        stages = pipeline.stages(inputs, domain)
        seconds: dict[str, list[float]] = {name: [] for name in stages}
        for _ in range(turns + 1):
            for name, run in stages.items():
                start = read()
                run()
                seconds[name].append(read() - start)
    return {name: round(median(spent[1:]), 6) for name, spent in seconds.items()}


def now(inputs: Tensor) -> float:
    """Return the time in seconds, after all work on a tensor's device has finished."""
    if inputs.is_cuda:
        torch.cuda.synchronize(inputs.device)  # otherwise the clock would stop before the work
    return time.perf_counter()
