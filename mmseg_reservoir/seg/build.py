"""From the ``method``, ``params`` and ``reservoir`` of a config to a pipeline.

Below this file there are no config objects, only plain arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.registry import OPTIMIZERS
from mmengine.runner import Runner
from mmseg.models import EncoderDecoder, SegDataPreProcessor
from torch import Tensor

from ..core.model_style import ModelStyleEncoder
from ..core.pipeline import AdaptationPipeline, SingleModelPipeline
from ..core.style import StyleEncoder
from ..errors import ReservoirError
from ..methods import AdaptationMethod, OptimizerFactory, find_method
from ..options import choose, construct
from ..presets import Style, build_reservoir, with_preset
from ..spaces import build_space
from .segmentor import segmentation_forward
from .source_images import calibrate, source_batches, source_dataset

_IMAGENET_MEAN = (123.675, 116.28, 103.53)
_IMAGENET_STD = (58.395, 57.12, 57.375)


def build_pipeline(runner: Runner, model: EncoderDecoder) -> AdaptationPipeline:
    """The adaptation pipeline that a runner's config asks for, around its loaded model."""
    cfg = runner.cfg
    method = build_method(model, cfg.get("method") or dict(type="source"), cfg.get("params") or {})
    if method.needs_source:
        runner.logger.info(f"{type(method).__name__} looks at the source images ...")
        method.prepare(source_batches(runner, source_dataset(runner)))
    if cfg.get("reservoir") is None:
        return SingleModelPipeline(method)
    return construct(
        build_reservoir,
        with_preset(cfg.reservoir),
        "reservoir",
        method=method,
        make_style=partial(build_style, runner, model),
        seed=runner.seed,
    )


def build_method(
    model: EncoderDecoder, method: Mapping[str, Any], params: Mapping[str, Any]
) -> AdaptationMethod:
    """The adaptation method over the selected parameters of a model."""
    options = dict(method)
    cls = find_method(options.pop("type"))
    if "pixels" not in cls.handles:
        raise ReservoirError(
            f"the method {method['type']!r} is for images, not for pixels: choose another one"
        )
    if "optimizer" in options:
        options["optimizer"] = build_optimizer(options["optimizer"])
    space = build_space(model, {"under": "backbone", **params})
    return construct(cls, options, "method", forward=segmentation_forward(model), space=space)


def build_optimizer(optimizer: Mapping[str, Any]) -> OptimizerFactory:
    """A maker of optimizers from ``dict(type="Adam", lr=...)``: any registered in mmengine."""
    options = dict(optimizer)
    cls = choose(options.pop("type"), OPTIMIZERS.module_dict, "optimizer")
    return lambda tensors: construct(cls, options, "method.optimizer", params=tensors)


def build_style(
    runner: Runner,
    model: EncoderDecoder,
    style: Mapping[str, Any],
    calibration: Mapping[str, Any],
) -> Style:
    """The style encoder for the model's preprocessed images, and its calibration on the source."""
    options = dict(style)
    if choose(options.pop("type", "vgg"), {"vgg": True, "model": False}, "style encoder"):
        encoder = construct(StyleEncoder, options, "reservoir.style")
        runner.logger.info(f"Style weights: {encoder.weights}")
        encode = behind_imagenet_normalisation(encoder, model.data_preprocessor)
    else:
        run = partial(EncoderDecoder.__call__, mode="tensor")
        encoder = construct(ModelStyleEncoder, options, "reservoir.style", model=model, forward=run)
        encode = encoder
    known = construct(
        calibrate,
        calibration,
        "reservoir.calibration",
        runner=runner,
        encoder=encoder,
        encode=encode,
    )
    known.save(Path(runner.work_dir) / "calibration.safetensors")
    return encode, known, encoder.groups


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
