"""The correction of a domain's features towards the source's.

The correction is per channel, at the output of a normalization layer. The *reference* is the
source's mean ``m`` and log-variance ``v``; ``m_d`` and ``v_d`` are those of the expert's domain.
The expert replaces the output ``y`` by

    (y - m_d) exp(-b (v_d - v) / 2) + m_d - a (m_d - m)

which moves the moments of the domain towards the reference by the fractions ``a``, ``b``. Both
depend on evidence and depth:

    a = w r / (r + kappa),    w = max(0, 1 - p / reach)

The evidence ``r`` is the mean over channels of ``(m_d - m)^2 / s^2``, with the variance ``s^2`` of
a channel's mean between source images. ``p`` in [0, 1) is the position of the layer. ``b`` follows
likewise from the log-variances. Early layers encode how an image looks. Deep ones also encode its
content, which must not be aligned away.

The moments are regularized towards the source: ``m_d = m + n / (n + prior) (average - m)``, with
the average over the domain's ``n`` images, of which at most ``window`` count. Without this, frames
would be overcorrected, since their content differs between domains, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..option_types import Count, Natural, Positive, PositiveFraction
from ..registry import checked
from .domain_moments import DomainMoments
from .moments import Reference

_LARGEST_STEP = 3.0  # of a log-variance, so that no gain is beyond exp(1.5)


def folded(
    weight: Tensor | None, bias: Tensor | None, gain: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the weight and bias with which a layer returns the corrected output."""
    weight = gain.clone() if weight is None else weight * gain.to(weight)
    bias = shift.clone() if bias is None else bias * gain.to(bias) + shift.to(bias)
    return weight, bias


@checked
@dataclass(frozen=True)
class Correction:
    """The rule from a domain's moments to gain and shift of every channel.

    Args:
        kappa: Evidence at which a layer has half of its largest strength.
        reach: Depth at which the strength is 0, as a fraction of the layers; None for the
            domain's.
        strength: Fixed strength of every layer within reach; None for the one by evidence.
        window: Largest number of images that the domain's moments count for.
        prior: Number of images that the reference counts for.
    """

    kappa: Positive
    reach: Positive | None
    strength: PositiveFraction | None
    window: Count
    prior: Natural

    def reach_of(self, domain: DomainMoments) -> float:
        """Return the depth at which the strength is 0, as a fraction of the layers."""
        return domain.reach if self.reach is None else self.reach

    def layers(self, reference: Reference, domain: DomainMoments) -> list[str]:
        """Return the names of the corrected layers."""
        reach = self.reach_of(domain)
        return [name for name in reference.layers if reference.position(name) < reach]

    def strengths(
        self, reference: Reference, domain: DomainMoments, name: str
    ) -> tuple[Tensor | float, Tensor | float]:
        """Return ``a`` and ``b`` of a layer within reach."""
        return self._strengths(reference, domain, name, self._offsets(reference, domain, name))

    def of(
        self, reference: Reference, domain: DomainMoments, name: str, images: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return gain and shift of every channel of a layer within reach.

        Args:
            reference: Moments of the source.
            domain: Moments of the domain.
            name: Name of the layer.
            images: Number of images in the moments that are not counted yet. Defaults to 0.
        """
        offsets = self._offsets(reference, domain, name, images)
        a, b = self._strengths(reference, domain, name, offsets)
        gain = (-0.5 * b * offsets[1].clamp(-_LARGEST_STEP, _LARGEST_STEP)).exp()
        mean = reference.mean[reference.where(name)] + offsets[0]
        return gain, mean - a * offsets[0] - mean * gain

    def _offsets(
        self, reference: Reference, domain: DomainMoments, name: str, images: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return a domain's means and log-variances at a layer, minus the source's."""
        where, images = reference.where(name), min(domain.images + images, self.window)
        trust = images / (images + self.prior)
        mean = trust * (domain.mean[where] - reference.mean[where])
        logvar = trust * (domain.logvar[where] - reference.logvar[where])
        return mean, logvar

    def _strengths(
        self,
        reference: Reference,
        domain: DomainMoments,
        name: str,
        offsets: tuple[Tensor, Tensor],
    ) -> tuple[Tensor | float, Tensor | float]:
        if self.strength is not None:
            return self.strength, self.strength
        where = reference.where(name)
        spreads = reference.mean_spread[where], reference.logvar_spread[where]
        depth = 1 - reference.position(name) / self.reach_of(domain)
        evidence = [(x.square() / s).mean() for x, s in zip(offsets, spreads, strict=True)]
        a, b = (depth * r / (r + self.kappa) for r in evidence)
        return a, b
