"""What the steps of a pipeline show from outside: the style of a batch, and the time it took."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn


class StepWatch:
    """Torch's hooks on the style encoder and on the model; the pipeline does not know of them.

    From a batch's entry into the encoder to its end is the stage ``style``, from there to the next
    entry into the model is ``route``. A pipeline whose styles come from no `nn.Module` shows
    nothing.

    Args:
        pipeline: An `AdaptationPipeline`, or None for a model that does not adapt.
        model: The network that adapts.
    """

    def __init__(self, pipeline: Any, model: nn.Module) -> None:
        self.seconds = {"style": 0.0, "route": 0.0}
        """Of all batches that were taken."""
        self._style: Tensor | None = None
        self._entered = self._encoded = self._routed = 0.0
        self._encoding = False
        encoder = getattr(pipeline, "encoder", None)
        encoder = getattr(encoder, "encoder", encoder)  # behind a conversion of its inputs
        self._handles = []
        if isinstance(encoder, nn.Module):
            self._handles = [
                encoder.register_forward_pre_hook(self._enter),
                encoder.register_forward_hook(self._leave),
                # Sliding windows enter the parts of a segmentor, never the whole.
                *(part.register_forward_pre_hook(self._run) for part in (model, *model.children())),
            ]

    def take(self) -> Tensor | None:
        """The style of the newest batch, once; its times count from now on.

        A batch that nobody asks for, since it was no part of the stream, leaves no trace.
        """
        style, self._style = self._style, None
        if style is not None:
            self.seconds["style"] += self._encoded - self._entered
            self.seconds["route"] += max(self._routed - self._encoded, 0.0)
        return style

    def close(self) -> None:
        """Look no more."""
        for handle in self._handles:
            handle.remove()

    def _enter(self, encoder: nn.Module, inputs: Any) -> None:
        self._encoding, self._routed = True, 0.0
        self._entered = _now(inputs[0])

    def _leave(self, encoder: nn.Module, inputs: Any, style: Tensor) -> None:
        self._encoding, self._style = False, style.detach()
        self._encoded = _now(style)

    def _run(self, model: nn.Module, inputs: Any) -> None:
        # An encoder may itself run the model; and only the first run ends the routing.
        if not self._encoding and self._style is not None and not self._routed:
            self._routed = time.perf_counter()


def _now(tensor: Tensor) -> float:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)  # or the clock would stop before the work does
    return time.perf_counter()
