"""The forward pass of a segmentor for the core: from images to class logits per pixel."""

from __future__ import annotations

from typing import Any

import torch
from mmseg.models import EncoderDecoder
from torch import Tensor

from ..core.unfit_images import explain_unfit
from ..errors import ReservoirError

_NEEDED = ("test_cfg", "decode_head", "data_preprocessor", "postprocess_result")
MASK_HEADS = ("MaskFormerHead", "Mask2FormerHead")
"""Heads of mmseg that return no logits per pixel. They can only be built with mmdet."""
ADVICE = (
    "choose a model with a decode head that gives one map of class logits, like SegFormer, "
    "UPerNet and DeepLabV3+ do"
)


def segmentation_forward(model: EncoderDecoder, inputs: Tensor) -> Tensor:
    """Return the logits ``(N, C, h, w)`` of a batch. Losses treat each pixel as a sample.

    The model's ``test_cfg.mode`` selects how:

    - ``"whole"``: one pass over the image. The logits have the resolution of the decode head;
      upsampling would add no information to a loss.
    - ``"slide"``: mmseg's sliding windows, averaged where they overlap, at the size of the inputs.
      All windows of an image share its style, its route and *one* update by the loss of the
      averaged map. The graph holds every window, so the memory of an update grows with their
      number.


    A model that returns anything but logits of two or more classes is an error.
    """
    mode = model.test_cfg.get("mode", "whole")
    with explain_unfit(model, inputs):
        if mode == "whole":
            return _logits(model(inputs, mode="tensor"), inputs)
        if mode == "slide":
            _window(model.test_cfg)
            size = inputs.shape[-2:]
            # Separate dicts, because mmseg writes the size of the current window into them.
            metas = [{"ori_shape": size, "img_shape": size} for _ in inputs]
            return _logits(model.slide_inference(inputs, metas), inputs)
    raise ReservoirError(
        f"model.test_cfg.mode is {mode!r}: write 'whole', or 'slide' with a crop_size and a stride"
    )


@torch.no_grad()
def check_model(model: Any, inputs: Tensor) -> None:
    """Raise an error if adaptation cannot use a model, judged by its output, not its class.

    The model runs on the preprocessed inputs, and is in evaluation mode afterwards.
    """
    name = type(model).__name__
    missing = [part for part in _NEEDED if getattr(model, part, None) is None]
    if missing:
        raise ReservoirError(
            f"the model, {name}, has no {', '.join(missing)}: adaptation needs a segmentor like "
            "mmseg's EncoderDecoder, model=dict(type='EncoderDecoder', data_preprocessor=..., "
            "decode_head=..., test_cfg=dict(mode='whole'))"
        )
    model.eval()
    try:
        if model.test_cfg.get("mode") == "slide":
            # One window, since the sum of windows is a map even for heads that return masks.
            height, width = _window(model.test_cfg)
            window = inputs[..., :height, :width]
            _logits(model(window, mode="tensor"), window)
        segmentation_forward(model, inputs)
    except (AttributeError, NotImplementedError, TypeError) as error:
        raise ReservoirError(
            f"the model, {name}, cannot be run for its logits, model(inputs, mode='tensor') "
            f"({type(error).__name__}: {error}): {ADVICE}"
        ) from error


def _logits(output: Any, inputs: Tensor) -> Tensor:
    if not isinstance(output, Tensor):
        raise ReservoirError(
            f"the model gives {_describe(output)}, no map of logits: mask classification heads "
            "such as Mask2Former's give scores of queries and their masks, no logits per pixel; "
            f"{ADVICE}"
        )
    if output.ndim != 4 or len(output) != len(inputs) or not output.is_floating_point():
        raise ReservoirError(
            f"the model gives {_describe(output)} for {len(inputs)} images, no logits of shape "
            f"(images, classes, height, width): {ADVICE}"
        )
    if output.shape[1] < 2:
        raise ReservoirError(
            f"the model has {output.shape[1]} output channel, adaptation needs the logits of two "
            "or more classes: train a binary model with decode_head=dict(out_channels=2)"
        )
    return output


def _describe(output: Any) -> str:
    if isinstance(output, Tensor):
        dtype = str(output.dtype).removeprefix("torch.")
        return f"a tensor of {dtype} and shape {tuple(output.shape)}"
    parts = output if isinstance(output, (list, tuple)) else ()
    inside = f" of {', '.join(type(part).__name__ for part in parts)}" if parts else ""
    return f"a {type(output).__name__}{inside}"


def _window(test_cfg: Any) -> tuple[int, int]:
    crop, stride = test_cfg.get("crop_size"), test_cfg.get("stride")
    for size in (crop, stride):
        pair = isinstance(size, (list, tuple)) and len(size) == 2
        if not (pair and all(isinstance(side, int) and side > 0 for side in size)):
            raise ReservoirError(
                "model.test_cfg.mode is 'slide', which needs a crop_size=(height, width) and a "
                f"stride=(down, right) in pixels, got {crop} and {stride}"
            )
    if stride[0] > crop[0] or stride[1] > crop[1]:
        raise ReservoirError(
            f"model.test_cfg.stride {tuple(stride)} is larger than its crop_size {tuple(crop)}: "
            "pixels between the windows would have no prediction"
        )
    return crop[0], crop[1]
