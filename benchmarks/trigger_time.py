"""The cost of a step's stages with and without an update, and the resulting throughput."""

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
"""A trigger that never updates at a second visit."""


def stages(turns: int, style_size: float | None = None) -> dict[str, float]:
    """Return the median CPU seconds of the stages of a step of SegFormer-B0 at 256 x 512.

    The stages are ``style``, ``adapt`` (forward, backward, step, and pooling of four experts) and
    ``rest``. Each turn measures all of them.

    Args:
        turns: Number of measurements.
        style_size: Scale of the image for its style. Defaults to None, that of the preset.
    """
    torch.manual_seed(0)
    inputs = torch.randn(1, 3, 256, 512)
    size = {} if style_size is None else {"size": style_size}
    encode = pick("style", {**STREAM["style"], **size}, "style").build()
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
    """Return a reservoir of four experts around SegFormer-B0 with random weights."""
    cfg = get_config("mmseg::segformer/segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py")
    init_default_scope("mmseg")
    cfg.model.backbone.init_cfg = None
    cfg.model.test_cfg = dict(mode="whole")
    model = revert_sync_batchnorm(MODELS.build(cfg.model)).eval()
    safeguards = dict(guard=None, trigger=trigger, router=dict(type="oracle"))
    plan = RunBuilder(SEGMENTATION, "tent", reservoir=dict(preset="robust", **safeguards))
    image_range = preprocessor_range(model.data_preprocessor)
    context = TaskContext(model, segmentation_forward, image_range)
    pipeline = plan.assemble(context)
    for condition in CONDITIONS:
        pipeline.step(torch.randn(1, 3, 256, 512), domain=condition)
    return pipeline


def speed_up(run: Mapping[str, Any], off: Mapping[str, Any], cost: Mapping[str, float]) -> float:
    """Return the throughput of a run over that of the same frames without a trigger."""

    def seconds(run: Mapping[str, Any]) -> float:
        rested = run.get("trigger", {}).get("rests", 0) / run["frames"]
        guard = 3 * run["probes"] / run["frames"]  # the source's pass, and two of mirror images
        spent = rested * cost["rest"] + (1 - rested) * cost["adapt"]
        return cost["style"] + spent + guard * cost["rest"]

    return seconds(off) / seconds(run)
