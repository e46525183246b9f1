from collections import Counter

import pytest
import torch
from mmseg.registry import MODELS
from torch import nn

SIZES = dict(embed_dims=8, num_layers=[1, 2, 1, 1], num_heads=[1, 2, 5, 8])
CHANNELS = [2, 3, 4, 5]


@pytest.mark.parametrize("options", [{}, {"embed_norm_eps": 1e-3}])
def test_norms_behind_strided_convolutions_have_their_own_eps(options):
    eps = options.get("embed_norm_eps", 1e-5)
    backbone = MODELS.build(dict(type="NVlabsMixVisionTransformer", **SIZES, **options))
    norms = {n: m.eps for n, m in backbone.named_modules() if isinstance(m, nn.LayerNorm)}
    embeds = [f"layers.{stage}.0.norm" for stage in range(4)]
    # The last stage does not reduce its keys.
    keys = [f"layers.{s}.1.{i}.attn.norm" for s, i in ((0, 0), (1, 0), (1, 1), (2, 0))]
    assert {name for name, value in norms.items() if value == eps} == {*embeds, *keys}
    assert Counter(norms.values()) == {eps: 8, 1e-6: 2 * 5 + 4}


@pytest.fixture
def head():
    torch.manual_seed(0)
    cfg = dict(
        type="NVlabsSegformerHead",
        in_channels=CHANNELS,
        in_index=[0, 1, 2, 3],
        channels=6,
        num_classes=7,
        norm_cfg=dict(type="BN", eps=1e-5),
        align_corners=False,
    )
    return MODELS.build(cfg).eval()


@pytest.fixture
def features():
    torch.manual_seed(1)
    sizes = [(16, 24), (8, 12), (4, 6), (2, 3)]
    return [torch.randn(2, c, *s) for c, s in zip(CHANNELS, sizes, strict=True)]


def test_logits_have_the_resolution_of_the_first_map(head, features):
    assert head(features).shape == (2, 7, 16, 24)


def test_coarse_maps_come_first_in_the_fusion(head, features):
    with torch.no_grad():
        head.fuse.conv.weight[:, :18] = 0  # the three coarser maps
        logits = head(features)
        others = [features[0], *(torch.randn_like(x) for x in features[1:])]
        assert torch.equal(head(others), logits)
        others[0] = features[0] + 1
        assert not torch.allclose(head(others), logits)


def test_projections_are_linear(head, features):
    """No norm and no activation before the fusion, unlike in mmseg's own head."""
    fused = []
    head.fuse.conv.register_forward_hook(lambda _, inputs, output: fused.append(output))
    with torch.no_grad():
        for scale in (0.0, 1.0, -1.0):
            head([scale * x for x in features])
    zero, plus, minus = fused
    torch.testing.assert_close(plus - zero, zero - minus)


def test_dropout_is_off_in_evaluation_and_gradients_reach_all_parameters(head, features):
    assert torch.equal(head(features), head(features))
    head.train()(features).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())
