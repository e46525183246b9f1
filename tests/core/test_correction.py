"""From a domain's moments to gain and shift, and to a layer's parameters."""

import pytest
import torch
from torch import nn

from mmseg_reservoir.core.correction import Correction, folded
from mmseg_reservoir.core.domain_moments import REACHES, DomainMoments
from mmseg_reservoir.core.moments import Reference

RULE = dict(kappa=1.0, reach=None, strength=None, window=20, prior=10)
LAYERS = {"first": 2, "second": 2, "third": 2, "fourth": 2}
REFERENCE = Reference(LAYERS, torch.zeros(8), torch.zeros(8), torch.ones(8), torch.ones(8))


def domain(mean=3.0, images=20, reach=0.5):
    shifted = torch.full((8,), mean), torch.full((8,), -mean)
    return DomainMoments(*shifted, images=images, level=REACHES.index(reach))


def test_a_domain_without_images_is_not_corrected():
    gain, shift = Correction(**RULE).of(REFERENCE, domain(images=0), "first")
    assert gain.tolist() == [1, 1]
    assert shift.tolist() == [0, 0]


def test_trust_grows_with_images_up_to_the_window():
    rule = Correction(**{**RULE, "strength": 1.0})
    shifts = [float(rule.of(REFERENCE, domain(3.0, n), "first")[1][0]) for n in (10, 20, 500)]
    gains = [torch.tensor(1.5 * n / (n + 10)).exp() for n in (10, 20, 20)]
    means = [3.0 * n / (n + 10) for n in (10, 20, 20)]
    assert shifts == pytest.approx([-m * float(g) for m, g in zip(means, gains, strict=True)])


def test_images_of_the_current_pass_count_too():
    rule = Correction(**RULE)
    counted = rule.of(REFERENCE, domain(images=6), "first")
    torch.testing.assert_close(rule.of(REFERENCE, domain(images=4), "first", images=2), counted)


@pytest.mark.parametrize(
    ("own", "fixed", "layers"), [(0.5, None, 2), (0.0, None, 0), (2.0, None, 4), (2.0, 0.25, 1)]
)
def test_layers_within_reach_are_corrected(own, fixed, layers):
    rule = Correction(**{**RULE, "reach": fixed})
    assert rule.layers(REFERENCE, domain(reach=own)) == [*LAYERS][:layers]


def test_no_gain_explodes():
    gain, _ = Correction(**{**RULE, "strength": 1.0}).of(REFERENCE, domain(mean=50.0), "first")
    torch.testing.assert_close(gain, torch.full((2,), 1.5).exp())


@pytest.mark.parametrize("affine", [True, False])
@torch.no_grad()
def test_a_correction_can_be_folded_into_a_layer(affine):
    norm = nn.BatchNorm2d(4, affine=affine).eval()
    gain, shift = torch.rand(4) + 0.5, torch.randn(4)
    images = torch.randn(2, 4, 5, 5)
    expected = norm(images) * gain.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)
    plain = nn.BatchNorm2d(4).eval()
    weight, bias = folded(norm.weight, norm.bias, gain, shift)
    plain.weight.copy_(weight)
    plain.bias.copy_(bias)
    torch.testing.assert_close(plain(images), expected)
