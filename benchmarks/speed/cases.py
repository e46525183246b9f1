"""The measured networks (with random weights), methods and reservoirs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.classifier_parts import CifarResNet20
from benchmarks.speed.naive import LiteralCotta, NaiveReservoir, PlainVGG
from benchmarks.speed.recurring import fill
from mmseg_reservoir.cls.backbones.trained import SmallViT
from mmseg_reservoir.cls.classifier import classification_forward
from mmseg_reservoir.config.builder import CLASSIFICATION, SEGMENTATION, RunBuilder, TaskContext
from mmseg_reservoir.core.image_range import ImageRange
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.registry import register

ROOT = Path(__file__).resolve().parents[2]
VARIANTS: dict[str, dict[str, Any]] = {
    "published": {"preset": "published"},
    "stream": {"preset": "stream"},
    "robust": {"preset": "robust"},
    "robust-unguarded": {"preset": "robust", "guard": None},
}
"""Reservoirs that are compared with the base method."""
METHODS: dict[str, dict[str, Any]] = {
    "align": {"method": {"type": "align"}},  # without a reservoir: the source model
    "tent": {"method": {"type": "tent"}},
    "eata": {"method": {"type": "eata", "margin": 1.0}},  # random networks have a high entropy
    "cotta": {"method": {"type": "cotta"}},
    "cotta-literal": {"method": {"type": "cotta_literal"}},
    "lora": {"method": {"type": "tent"}, "params": {"type": "lora"}},
    "all": {"method": {"type": "tent"}, "params": {"type": "all"}},
}
VISIT = 10
"""Images of a visit. The first ones have uncertain routes."""
_STYLES = {"128x256": {"size": 64}}  # by image size, as in the configs
_DEPTHS = {"b0": (32, [2, 2, 2, 2]), "b2": (64, [3, 4, 6, 3])}
"""Width and depths of the smaller SegFormers."""

register("method", "cotta_literal")(LiteralCotta)


def segformer(size: str) -> nn.Module:
    """Return MiniCity's SegFormer (tiny), mmseg's B0 or B2, or B5 with NVlabs' head."""
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope

    import mmseg_reservoir.seg  # noqa: F401 (with mmcv-lite, mmseg can be imported only after it)

    init_default_scope("mmseg")
    files = {"tiny": "segformer_tiny.py", "b5": "segformer_mit-b5_nvlabs.py"}
    name = files.get(size, "segformer_mit-b5.py")
    model = Config.fromfile(ROOT / "configs/_base_/models" / name).model
    if size in _DEPTHS:
        width, depths = _DEPTHS[size]
        model.backbone.update(embed_dims=width, num_layers=depths)
        model.decode_head.in_channels = [width, 2 * width, 5 * width, 8 * width]
        model.decode_head.norm_cfg = {"type": "BN", "requires_grad": True}
    return MODELS.build(model).eval()


@cache
def network(name: str) -> nn.Module:
    """Return a network with random weights, the same ones for all callers."""
    torch.manual_seed(0)
    if name == "resnet20":
        return CifarResNet20().eval()
    if name == "vit-s":
        return SmallViT(side=224, patch=16, dim=384, depth=12, heads=6, classes=1000).eval()
    return segformer(name.removeprefix("segformer-"))


@dataclass(frozen=True)
class Case:
    """A method on a network, with inputs of a size.

    Args:
        method: One of `METHODS`.
        net: ``segformer-`` and ``tiny``, ``b0``, ``b2`` or ``b5``; ``resnet20`` or ``vit-s``.
        size: ``HEIGHTxWIDTH`` of one image, or ``batchN`` of images for a classifier.
    """

    method: str
    net: str
    size: str

    @property
    def name(self) -> str:
        """Its part of the names of figures."""
        return f"{self.method}/{self.net}/{self.size}"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the inputs."""
        if self.size.startswith("batch"):
            side = 224 if self.net == "vit-s" else 32
            return int(self.size.removeprefix("batch")), 3, side, side
        height, width = map(int, self.size.split("x"))
        return 1, 3, height, width

    @property
    def classifies(self) -> bool:
        """Whether the network is a classifier."""
        return not self.net.startswith("segformer")

    def inputs(self, count: int, seed: int = 0) -> list[Tensor]:
        """Return batches of noise in [0, 1], in patches, so that filters find edges."""
        generator = torch.Generator().manual_seed(seed)
        n, channels, height, width = self.shape
        coarse = torch.rand(count, n, channels, height // 4, width // 4, generator=generator)
        return [nn.functional.interpolate(x, (height, width)) for x in coarse]

    def context(self) -> TaskContext:
        """Return a copy of the network and its forward pass."""
        net = copy.deepcopy(network(self.net))
        if self.classifies:
            return TaskContext(net, classification_forward, ImageRange("unit"))
        from mmseg_reservoir.seg.forward import segmentation_forward

        return TaskContext(net, segmentation_forward, ImageRange("imagenet"))

    def base(self) -> AdaptationPipeline:
        """Return the plain method."""
        return self._prepared(self._plan(None).assemble(self.context()))

    def reservoir(self, variant: str, k: int, **options: Any) -> AdaptationPipeline:
        """Return a reservoir with ``k`` experts.

        Args:
            variant: One of `VARIANTS`, or ``naive``.
            k: Number of experts.
            **options: Options of the reservoir, which override those of the variant.
        """
        chosen: Mapping[str, Any] = VARIANTS["published" if variant == "naive" else variant]
        if self.size in _STYLES and chosen["preset"] in ("stream", "robust"):
            options = {"style": _STYLES[self.size], **options}
        if chosen["preset"] == "robust":
            # Trials of another reach are rare after an expert's first batches: none is timed.
            options = {"alignment": {"reach": 0.5}, **options}
            if "guard" not in chosen:
                options = {"guard": {"margin": 0.05}, **options}
        pipeline = self._plan({**chosen, "k_max": k, **options}).assemble(self.context())
        self._prepared(pipeline)
        if variant == "naive":
            pipeline.encoder = PlainVGG(getattr(pipeline.encoder, "encoder", pipeline.encoder))
        fill(pipeline, k, VISIT)
        if variant == "naive":
            return NaiveReservoir(pipeline)
        if getattr(pipeline, "guard", None) is not None:
            settle_guard(pipeline, k)
        return pipeline

    def _plan(self, reservoir: Mapping[str, Any] | None) -> RunBuilder:
        task = CLASSIFICATION if self.classifies else SEGMENTATION
        return RunBuilder(task, **METHODS[self.method], reservoir=reservoir)

    def _prepared(self, pipeline: AdaptationPipeline) -> AdaptationPipeline:
        method = pipeline.method
        if method.needs_source:
            method.prepare(self.inputs(2, seed=1))
            method.space.load(method.source)
        if getattr(pipeline, "alignment", None) is not None:
            with pipeline.alignment.measuring():
                for inputs in self.inputs(2, seed=1):
                    pipeline.predict_source(inputs)
        return pipeline


def settle_guard(pipeline: AdaptationPipeline, k: int, due: bool = False) -> None:
    """Let the guard trust all experts and probe none, or (``due``) each at its next batch.

    A young expert is probed often, a settled one every 48th image (16th batch of a classifier).
    Such a step is measured separately.
    """
    state = pipeline.guard.state_dict()
    health = {"interval": pipeline.guard.every, "next": 0 if due else 10**9}
    state["experts"] = [{"health": dict(health), "events": []} for _ in range(k)]
    pipeline.guard.load_state_dict(state)
