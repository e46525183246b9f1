"""Losses of logits ``(N, C, *spatial)``, of images (no spatial part) or of pixels."""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-8  # keeps log(0) of an empty class finite, as in the published implementation


def entropy(logits: Tensor) -> Tensor:
    """Return the softmax entropy of every sample ``(N, *spatial)``, in nats."""
    log_p = logits.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def marginal_entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the mean distribution of all samples, in nats, their diversity.

    Every position of the spatial part is one sample.
    """
    mean_p = logits.softmax(dim=1).movedim(1, -1).flatten(0, -2).mean(dim=0)
    return -(mean_p * torch.log(mean_p + _TINY)).sum()


def information_terms(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two terms of the mutual-information loss (paper, Eq. 10).

    Every position of the spatial part is one sample, so pixels of a map count like images.

    Returns:
        ``(L_ent, L_cm)``: the mean entropy of the samples, and the negative entropy of their mean
        distribution. The first is small for confident samples, the second for diverse ones.
    """
    # Computed first, since the order of operations sets that of the gradient's summation.
    diverse = -marginal_entropy(logits)
    return entropy(logits).mean(), diverse


def information_loss(logits: Tensor) -> Tensor:
    """Return ``L_MI = L_ent + L_cm``, the negative mutual information of samples and classes."""
    decided, diverse = information_terms(logits)
    return decided + diverse
