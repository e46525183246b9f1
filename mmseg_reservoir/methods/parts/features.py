"""The features of a classifier: what goes into its head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...errors import ReservoirError
from ..base import Forward


class Features:
    """Looks at the input of the classification head while the model runs.

    Args:
        model: The classifier.
        head: Name of the ``nn.Linear`` that makes the logits; by default the model's last one.
    """

    def __init__(self, model: nn.Module, head: str | None = None) -> None:
        linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
        if head is None and linear:
            head = list(linear)[-1]
        if head not in linear:
            some = ", ".join(list(linear)[-5:]) or "none"
            raise ReservoirError(
                f"features are what goes into the last nn.Linear of a classifier; "
                f"{type(model).__name__} has {f'no such layer {head!r}' if head else 'none'}. Name "
                f"one with head=... (the last of those there are: {some}) or choose a method that "
                "needs no features"
            )
        self.name = head
        self.head = linear[head]

    def __call__(self, forward: Forward, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits ``(N, C)`` and features ``(N, D)`` of one forward pass."""
        seen: list[Tensor] = []
        with self.head.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
            logits = forward(inputs)
        shapes = [tuple(features.shape) for features in seen]
        if shapes != [(len(inputs), self.head.in_features)] or (
            logits.shape[1:] != torch.Size([self.head.out_features])
        ):
            raise ReservoirError(
                f"{self.name!r} is not the head of this classifier: for {len(inputs)} images it "
                f"was given {shapes or 'nothing'}, and logits are {tuple(logits.shape)}. Name the "
                "nn.Linear that makes the logits with head=..."
            )
        return logits, seen[0]
