"""Which share of an image's own statistics suits a domain: found without labels or gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.losses import entropy

SHARES = (0.0, 0.03, 0.06, 0.1, 0.2)
"""What is tried; the first is the model as it comes."""


class ShareSearch:
    """Lets BatchNorm take a share of an image's own statistics where that is seen to help.

    At the first batches of a domain every share predicts the batch and its mirror image. Taken is
    the share whose predictions are surest (lowest mean entropy) among those that agree with their
    mirror image at least as often as those of share 0 do: a model that is only made surer agrees no
    better, one that sees better does.

    Args:
        share: The number that the layers blend by; written to.
        shares: What is tried; the first is what the others are compared with.
        batches: How many batches of a domain are looked at.
    """

    def __init__(self, share: Tensor, shares: Sequence[float] = SHARES, batches: int = 4) -> None:
        self.share = share
        self.shares = tuple(shares)
        self.batches = batches

    @torch.no_grad()
    def look(
        self, forward: Callable[[Tensor], Tensor], inputs: Tensor, state: dict[str, Any]
    ) -> None:
        """Look at a batch, if more evidence is wanted, and set the share to what is best so far.

        Args:
            forward: The model with the domain's parameters.
            inputs: The batch.
            state: What is kept of the domain.
        """
        seen = state.setdefault(
            "shares", {"batches": 0, "scores": [[0.0, 0.0] for _ in self.shares]}
        )
        if seen["batches"] >= self.batches:
            return
        seen["batches"] += 1
        for share, score in zip(self.shares, seen["scores"], strict=True):
            self.share.fill_(share)
            logits = forward(inputs)
            mirrored = forward(inputs.flip(-1))
            if mirrored.ndim == 4:
                mirrored = mirrored.flip(-1)
            score[0] += float((logits.argmax(1) == mirrored.argmax(1)).float().mean())
            score[1] += float(entropy(logits).mean())
        fair = [i for i, score in enumerate(seen["scores"]) if score[0] >= seen["scores"][0][0]]
        best = min(fair, key=lambda i: seen["scores"][i][1])
        self.share.fill_(self.shares[best])
