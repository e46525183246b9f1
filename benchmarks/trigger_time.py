"""What the stages of a step cost with an update and without one, and what that gives."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import torch
from mmengine.hub import get_config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, init_default_scope

from mmseg_reservoir.config.builder import SEGMENTATION, RunBuilder, TaskContext
from mmseg_reservoir.config.presets import STREAM
from mmseg_reservoir.config.schema import pick
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.seg.forward import segmentation_forward
from mmseg_reservoir.seg.source_images import preprocessor_range

CONDITIONS = ("fog", "night", "rain", "snow")
NEVER = dict(type="first_visit")
"""Of experts that are visited a second time."""


def stages(turns: int, style_size: float | None = None) -> dict[str, float]:
    """Seconds of what a step of SegFormer-B0 at 256 x 512 is made of, medians of turns.

    ``style``, ``adapt`` (forward, backward, step and what comes of it for four experts that pool)
    and ``rest``, one after the other in every turn. Of the processor's time: others' work on the
    machine is not counted.

    Args:
        turns: How often each is timed.
        style_size: Share of the image's sides in which its style is taken; None: as the preset.
    """
    torch.manual_seed(0)
    inputs = torch.randn(1, 3, 256, 512)
    size = {} if style_size is None else {"size": style_size}
    encode = pick("style", {**STREAM["style"], **size}, "style").make()
    pipelines = {name: _b0(trigger) for name, trigger in (("adapt", None), ("rest", NEVER))}
    seconds: dict[str, list[float]] = {"style": [], "adapt": [], "rest": []}
    for _ in range(turns + 1):
        for name, spent in seconds.items():
            start = time.process_time()
            if name == "style":
                encode(inputs)
            else:
                pipelines[name].step(inputs, domain=CONDITIONS[0])
            spent.append(time.process_time() - start)
    return {name: median(spent[1:]) for name, spent in seconds.items()}  # the first warms up


def _b0(trigger: Mapping[str, Any] | None) -> AdaptationPipeline:
    """A reservoir of four experts around SegFormer-B0 with random weights."""
    cfg = get_config("mmseg::segformer/segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py")
    init_default_scope("mmseg")
    cfg.model.backbone.init_cfg = None
    cfg.model.test_cfg = dict(mode="whole")
    model = revert_sync_batchnorm(MODELS.build(cfg.model)).eval()
    care = dict(guard=None, trigger=trigger, router=dict(type="oracle"))
    plan = RunBuilder(SEGMENTATION, "tent", reservoir=dict(preset="robust", **care))
    image_range = preprocessor_range(model.data_preprocessor)
    place = TaskContext(model, segmentation_forward, image_range)
    pipeline = plan.assemble(place)
    for condition in CONDITIONS:
        pipeline.step(torch.randn(1, 3, 256, 512), domain=condition)
    return pipeline


def speed_up(run: Mapping[str, Any], off: Mapping[str, Any], cost: Mapping[str, float]) -> float:
    """How much more throughput a run has than one of the same frames without a trigger."""

    def seconds(run: Mapping[str, Any]) -> float:
        rested = run.get("trigger", {}).get("rests", 0) / run["frames"]
        guard = 3 * run["probes"] / run["frames"]  # the source's pass, and two of mirror images
        spent = rested * cost["rest"] + (1 - rested) * cost["adapt"]
        return cost["style"] + spent + guard * cost["rest"]

    return seconds(off) / seconds(run)
