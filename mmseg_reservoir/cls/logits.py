"""The forward pass of a classifier."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from ..core.unfit_images import explain_unfit
from ..errors import ReservoirError


def classification_forward(net: nn.Module, images: Tensor) -> Tensor:
    """Return the logits ``(N, C)`` of a network, also if it returns a mapping, tuple or object."""
    with explain_unfit(net, images):
        output = net(images)
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif isinstance(output, (tuple, list)):
        output = output[0]
    output = getattr(output, "logits", output)
    if not isinstance(output, Tensor) or output.ndim != 2:
        what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ReservoirError(
            f"{type(net).__name__} must return logits (N, C), got {what}: wrap it in a module that "
            "returns them"
        )
    return output
