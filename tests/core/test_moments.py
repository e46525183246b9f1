"""Moments of channels, and the reference that alignment is measured against."""

import torch
from torch import nn

from mmseg_reservoir.core.moments import Reference, norm_layers
from mmseg_reservoir.params.normalization import blend


def test_a_channel_that_is_constant_in_the_source_is_no_evidence():
    """Its spread is floored, so that a small shift of it does not weigh without bound."""
    means = torch.tensor([[1.0, 0.5], [1.0, 1.5]])
    logvars = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    reference = Reference.of({"norm": [(means, logvars)]})
    torch.testing.assert_close(reference.mean, torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(reference.mean_spread, torch.tensor([1e-3, 0.5]))
    torch.testing.assert_close(reference.logvar_spread, torch.tensor([1e-2, 0.5]))
    assert reference.layers == {"norm": 2}


def test_norms_over_more_than_channels_are_left_out():
    net = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm((4, 4)), nn.InstanceNorm2d(4), nn.ReLU())
    assert list(norm_layers(net)) == ["0", "2"]


def test_batch_norm_that_goes_by_the_batch_or_learns_from_the_stream_is_left_out():
    net = nn.Sequential(nn.BatchNorm2d(4), nn.BatchNorm2d(4, track_running_stats=False))
    assert list(norm_layers(net)) == ["0"]
    blend(net[:1], rate=0.1)
    assert list(norm_layers(net)) == ["0"]
    learned = nn.Sequential(nn.BatchNorm2d(4))
    blend(learned, rate=0.1, always=False)
    assert list(norm_layers(learned)) == []


def test_a_reference_knows_the_place_of_every_layer():
    layers = {"first": 2, "second": 3}
    reference = Reference(layers, *(torch.zeros(5) for _ in range(4)))
    assert [reference.where(name) for name in layers] == [slice(0, 2), slice(2, 5)]
    assert [reference.position(name) for name in (*layers, "unknown")] == [0, 0.5, float("inf")]
    assert Reference(**reference.state_dict()).position("second") == 0.5
