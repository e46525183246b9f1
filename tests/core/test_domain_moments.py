"""Moments of a domain: how they are averaged, merged, and how an expert finds its reach."""

import pytest
import torch

from mmseg_reservoir.core.domain_moments import PROBES, REACHES, SETTLE, DomainMoments


def moments(level=None, batches=20):
    domain = DomainMoments(torch.zeros(3), torch.zeros(3), images=batches, batches=batches)
    domain.level = REACHES.index(0.5) if level is None else level
    return domain


def judged(domain, gain):
    """End the trial of a domain with the same gain at every probe."""
    trial = domain.start_trial()
    trial.mean += 1
    trial.gains = [gain] * PROBES
    return domain.end_trial()


def test_images_weigh_the_same_until_the_window_is_full():
    domain = DomainMoments(torch.zeros(1), torch.zeros(1))
    seen = torch.arange(1.0, 9.0)
    for value in seen.split(2):
        weight = domain.weight_of(len(value), window=4)
        domain.mean.lerp_(value.mean(0, keepdim=True), weight)
        domain.count(len(value))
    torch.testing.assert_close(domain.mean, seen.mean(0, keepdim=True))
    assert domain.weight_of(2, window=4) == pytest.approx(1 / 4)  # 2 / 10 by the images alone
    assert domain.weight_of(30, window=4) == pytest.approx(30 / 38)


def test_merged_moments_are_those_of_all_images():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(10, 4, generator=generator)
    parts = [images[:7], images[7:]]
    one, other = (DomainMoments(p.mean(0), 2 * p.mean(0), images=len(p), batches=2) for p in parts)
    merged = one.merged(other, 3 / 10)
    torch.testing.assert_close(merged.mean, images.mean(0))
    torch.testing.assert_close(merged.logvar, 2 * images.mean(0))
    assert (merged.images, merged.batches) == (10, 4)


def test_a_young_expert_tries_nothing():
    assert moments(batches=9).start_trial() is None
    trial = moments(batches=10).start_trial()
    assert trial.reach == 1.0
    assert trial.batches == 0 < SETTLE


def test_a_larger_reach_is_taken_if_it_is_better_with_its_moments():
    domain = moments()
    assert judged(domain, 0.001)
    assert domain.reach == 1.0
    assert domain.mean.tolist() == [1, 1, 1]
    assert domain.start_trial().reach == 2.0


def test_a_refused_reach_is_not_tried_again_and_then_a_smaller_one_is():
    domain = moments()
    assert not judged(domain, -0.001)
    assert domain.reach == 0.5
    assert domain.mean.tolist() == [0, 0, 0]
    assert domain.start_trial().reach == 0.25
    assert not judged(domain, 0.02)  # chance could be that
    assert domain.start_trial() is None
    domain.batches = 1000
    assert domain.start_trial().reach == 1.0


def test_alignment_that_harms_goes_back_to_none():
    domain = moments()
    assert not judged(domain, -0.1)
    assert judged(domain, 0.05)
    assert domain.reach == 0.25
    assert judged(domain, 0.05)
    assert domain.reach == 0.0
    assert domain.start_trial() is None


def test_a_state_restores_a_running_trial():
    domain = moments()
    domain.start_trial().gains.append(0.5)
    again = DomainMoments.of(domain.state_dict())
    assert again.trial.gains == [0.5]
    assert again.trial.level == domain.trial.level
    assert again.state_dict().keys() == domain.state_dict().keys()
