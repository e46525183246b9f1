"""What is measured: networks with random weights, methods, and ways to run them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.cifar_parts import CifarResNet20
from benchmarks.speed.naive import LiteralCotta, NaiveReservoir, PlainVGG
from benchmarks.speed.recurring import fill
from mmseg_reservoir.build import CLASSIFICATION, SEGMENTATION, Plan, Workplace
from mmseg_reservoir.cls.logits import classification_forward
from mmseg_reservoir.core.image_range import ImageRange
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.options import register

ROOT = Path(__file__).resolve().parents[2]
HALF = {"size": 0.5}
"""Options of a style that is looked at in half the size."""
VARIANTS: dict[str, dict[str, Any]] = {
    "published": {"preset": "published"},
    "stream": {"preset": "stream"},
    "stream-exact": {"preset": "stream", "style": {"size": None, "crop": None}},
    "stream-half": {"preset": "stream", "style": HALF},
    "robust": {"preset": "robust"},
    "robust-half": {"preset": "robust", "style": HALF},
}
"""Reservoirs beside the base method. ``exact``: the style of whole images in their own size."""
METHODS: dict[str, dict[str, Any]] = {
    "tent": {"method": {"type": "tent"}},
    "eata": {"method": {"type": "eata", "margin": 1.0}},  # random nets are never sure
    "cotta": {"method": {"type": "cotta"}},
    "cotta-literal": {"method": {"type": "cotta_literal"}},
    "lora": {"method": {"type": "tent"}, "params": {"type": "lora"}},
    "all": {"method": {"type": "tent"}, "params": {"type": "all"}},
}
VISIT = 10
"""Images of a visit: each begins with some that are routed with doubt."""
_SMALL = {
    "backbone": {"embed_dims": 32, "num_layers": [2, 2, 2, 2]},
    "decode_head": {"in_channels": [32, 64, 160, 256]},
}

register("method", "cotta_literal")(LiteralCotta)


def segformer(size: str) -> nn.Module:
    """SegFormer-B0 of mmseg, or B5 with NVlabs' head."""
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope

    import mmseg_reservoir.seg  # noqa: F401 (with mmcv-lite, mmseg can be imported only after it)

    init_default_scope("mmseg")
    name = {"b0": "segformer_mit-b5.py", "b5": "segformer_mit-b5_nvlabs.py"}[size]
    model = Config.fromfile(ROOT / "configs/_base_/models" / name).model
    if size == "b0":
        for part, options in _SMALL.items():
            model[part].update(options)
        model.decode_head.norm_cfg = {"type": "BN", "requires_grad": True}
    return MODELS.build(model).eval()


@cache
def network(name: str) -> nn.Module:
    """A network with random weights, the same ones for all who ask."""
    torch.manual_seed(0)
    if name == "resnet20":
        return CifarResNet20().eval()
    return segformer(name.removeprefix("segformer-"))


@dataclass(frozen=True)
class Case:
    """A method on a network, with inputs of a size.

    Args:
        method: One of `METHODS`.
        net: ``segformer-b0``, ``segformer-b5`` or ``resnet20``.
        size: ``HEIGHTxWIDTH`` of one image, or ``batchN`` of images of 32 x 32.
    """

    method: str
    net: str
    size: str

    @property
    def name(self) -> str:
        """As in the names of figures."""
        return f"{self.method}/{self.net}/{self.size}"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the inputs."""
        if self.size.startswith("batch"):
            return int(self.size.removeprefix("batch")), 3, 32, 32
        height, width = map(int, self.size.split("x"))
        return 1, 3, height, width

    @property
    def variants(self) -> list[str]:
        """Those that differ: of small frames all is looked at by default, and less if told to."""
        count, _, *sides = self.shape
        left_out = "-exact" if count == 1 and min(sides) <= 256 else "-half"
        return [name for name in VARIANTS if not name.endswith(left_out)]

    def inputs(self, count: int, seed: int = 0) -> list[Tensor]:
        """Batches of noise in [0, 1], in patches, so that filters find edges."""
        generator = torch.Generator().manual_seed(seed)
        n, channels, height, width = self.shape
        coarse = torch.rand(count, n, channels, height // 4, width // 4, generator=generator)
        return [nn.functional.interpolate(x, (height, width)) for x in coarse]

    def place(self) -> Workplace:
        """A copy of the network, and how it is run."""
        net = copy.deepcopy(network(self.net))
        if self.net == "resnet20":
            return Workplace(net, classification_forward, ImageRange("unit"))
        from mmseg_reservoir.seg.forward import segmentation_forward

        return Workplace(net, segmentation_forward, ImageRange("imagenet"))

    def base(self) -> AdaptationPipeline:
        """The plain method."""
        return self._prepared(self._plan(None).assemble(self.place()))

    def reservoir(self, variant: str, k: int, **options: Any) -> AdaptationPipeline:
        """A reservoir with ``k`` experts.

        Args:
            variant: One of `VARIANTS`, or ``naive``.
            k: Experts.
            **options: Of the reservoir, over those of the variant.
        """
        chosen: Mapping[str, Any] = VARIANTS["published" if variant == "naive" else variant]
        if chosen["preset"] == "robust":
            # Trials of another reach are rare after an expert's first batches: none is timed.
            options = {"guard": {"margin": 0.05}, "alignment": {"reach": 0.5}, **options}
        pipeline = self._plan({**chosen, "k_max": k, **options}).assemble(self.place())
        self._prepared(pipeline)
        if variant == "naive":
            pipeline.encoder = PlainVGG(getattr(pipeline.encoder, "encoder", pipeline.encoder))
        fill(pipeline, k, VISIT)
        if variant == "naive":
            return NaiveReservoir(pipeline)
        if getattr(pipeline, "guard", None) is not None:
            settle_guard(pipeline, k)
        return pipeline

    def _plan(self, reservoir: Mapping[str, Any] | None) -> Plan:
        task = CLASSIFICATION if self.net == "resnet20" else SEGMENTATION
        return Plan(task, **METHODS[self.method], reservoir=reservoir)

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
    """Let the guard trust all experts and look at none, or (``due``) at each at its next batch.

    A young expert is looked at often, one that has settled every 48th image (16th batch of a
    classifier): such a step is measured by itself.
    """
    state = pipeline.guard.state_dict()
    watch = {"interval": pipeline.guard.every, "next": 0 if due else 10**9}
    state["watches"] = {str(index): dict(watch) for index in range(k)}
    pipeline.guard.load_state_dict(state)
