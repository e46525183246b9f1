"""Norm: the source model, normalising by the batch, the baseline that everybody compares with."""

from __future__ import annotations

from ..options import register
from .source import Source


@register("method", "norm")
class Norm(Source):
    """Predicts with the BatchNorm statistics of the batch and changes no parameter.

    From "Improving robustness against common corruptions by covariate shift adaptation" (Schneider
    et al., NeurIPS 2020) and "Evaluating Prediction-Time Batch Normalization for Robustness under
    Covariate Shift" (Nado et al., 2020). The former's blend with the source's statistics is
    ``statistics=0.5``, for example; their weight ``N / (N + n)`` of a prior N is given as the share
    ``n / (N + n)`` of the batch. A model without BatchNorm is the source model.
    """

    statistics = "batch"
