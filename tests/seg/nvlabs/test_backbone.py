from collections import Counter

import pytest
from mmseg.registry import MODELS
from torch import nn

SIZES = dict(embed_dims=8, num_layers=[1, 2, 1, 1], num_heads=[1, 2, 5, 8])


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
