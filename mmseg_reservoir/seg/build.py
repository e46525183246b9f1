"""From the ``method``, ``params`` and ``reservoir`` of a config to a pipeline.

Below this file there are no config objects, only plain arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.registry import OPTIMIZERS
from mmengine.runner import Runner
from mmseg.models import EncoderDecoder, SegDataPreProcessor
from torch import Tensor

from ..core.memory import StyleMemory
from ..core.params import ParamSpace, norm_affine
from ..core.pipeline import AdaptationPipeline, ReservoirPipeline, SingleModelPipeline
from ..core.router import OracleRouter, Router, StyleRouter
from ..core.style import StyleEncoder
from ..methods import AdaptationMethod, find_method
from ..options import choose, construct
from .segmentor import segmentation_forward
from .source_styles import calibrate

PARAM_SELECTIONS = {"norm_affine": norm_affine}
ROUTERS: dict[str, type[Router]] = {"style": StyleRouter, "oracle": OracleRouter}

_IMAGENET_MEAN = (123.675, 116.28, 103.53)
_IMAGENET_STD = (58.395, 57.12, 57.375)


def build_pipeline(runner: Runner, model: EncoderDecoder) -> AdaptationPipeline:
    """The adaptation pipeline that a runner's config asks for, around its loaded model."""
    cfg = runner.cfg
    method = build_method(model, cfg.get("method") or dict(type="source"), cfg.get("params") or {})
    if cfg.get("reservoir") is None:
        return construct(SingleModelPipeline, {}, "method", method=method)
    return construct(
        build_reservoir, dict(cfg.reservoir), "reservoir", runner=runner, model=model, method=method
    )


def build_method(
    model: EncoderDecoder, method: Mapping[str, Any], params: Mapping[str, Any]
) -> AdaptationMethod:
    """The adaptation method over the selected parameters of a model."""
    params = {"type": "norm_affine", "under": "backbone", **params}
    select = choose(params.pop("type"), PARAM_SELECTIONS, "params.type")
    selected = construct(select, params, "params", model=model)
    options = dict(method)
    cls = find_method(options.pop("type"))
    if "optimizer" in options:
        options["optimizer"] = build_optimizer(options["optimizer"])
    forward = segmentation_forward(model)
    space = ParamSpace(model, selected)
    return construct(cls, options, "method", forward=forward, space=space)


def build_optimizer(
    optimizer: Mapping[str, Any],
) -> Callable[[list[Tensor]], torch.optim.Optimizer]:
    """A maker of optimizers from ``dict(type="Adam", lr=...)``: any registered in mmengine."""
    options = dict(optimizer)
    cls = choose(options.pop("type"), OPTIMIZERS.module_dict, "optimizer")
    return lambda tensors: construct(cls, options, "method.optimizer", params=tensors)


def build_reservoir(
    runner: Runner,
    model: EncoderDecoder,
    method: AdaptationMethod,
    k_max: int = 16,
    style: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    router: Mapping[str, Any] | None = None,
    init: str = "mi",
    predict: str = "before",
    one_hot: float = 1 - 1e-6,
) -> ReservoirPipeline:
    """A reservoir around a method; the arguments are the options of ``reservoir`` in a config.

    Args:
        runner: For the source images of the calibration.
        model: The segmentor.
        method: The adaptation method.
        k_max: The largest number of experts.
        style: Options of :class:`StyleEncoder`.
        calibration: ``quantile`` of tau, and options of :func:`calibrate`.
        memory: Options of :class:`StyleMemory`.
        router: ``type`` (``style`` or ``oracle``) and options of that router.
        init: What a new expert starts from.
        predict: Whether the prediction before or after the update counts.
        one_hot: The weight from which on a route counts as one-hot.
    """
    options = dict(router or {})
    cls = choose(options.pop("type", "style"), ROUTERS, "router")
    encode = None
    if cls.needs_style:
        encoder = construct(StyleEncoder, style or {}, "reservoir.style")
        encode = behind_imagenet_normalisation(encoder, model.data_preprocessor)
        calibration = dict(calibration or {})
        quantile = calibration.pop("quantile", 0.999)
        known = construct(
            calibrate,
            calibration,
            "reservoir.calibration",
            runner=runner,
            encoder=encoder,
            encode=encode,
        )
        known.save(Path(runner.work_dir) / "calibration.safetensors")
        fixed = dict(
            source_centroid=known.centroid,
            tau=known.threshold(quantile),
            memory=construct(StyleMemory, memory or {}, "reservoir.memory", seed=runner.seed),
        )
    else:
        fixed = {}
    found = construct(cls, options, "reservoir.router", k_max=k_max, **fixed)
    return ReservoirPipeline(method, found, encode, init=init, predict=predict, one_hot=one_hot)


def behind_imagenet_normalisation(
    encoder: StyleEncoder, preprocessor: SegDataPreProcessor
) -> Callable[[Tensor], Tensor]:
    """The encoder for images that ``preprocessor`` made: VGG-19 wants ImageNet's mean and std.

    The models of mmseg mostly use them already; then the tensor is taken as it is.
    """
    if not getattr(preprocessor, "_enable_normalize", False):
        mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    else:
        mean, std = preprocessor.mean.cpu().float(), preprocessor.std.cpu().float()
    wanted_mean = torch.tensor(_IMAGENET_MEAN).view(3, 1, 1)
    wanted_std = torch.tensor(_IMAGENET_STD).view(3, 1, 1)
    same = torch.allclose(mean, wanted_mean) and torch.allclose(std, wanted_std)
    if same and preprocessor.channel_conversion:
        return encoder
    # Loaded images are BGR; statistics in their order belong to the channels as converted.
    flip = not preprocessor.channel_conversion

    def encode(inputs: Tensor) -> Tensor:
        pixels = inputs * std.to(inputs) + mean.to(inputs)
        pixels = pixels.flip(1) if flip else pixels
        return encoder((pixels - wanted_mean.to(inputs)) / wanted_std.to(inputs))

    return encode
