import torch
from torch.nn.functional import interpolate

from mmseg_reservoir.methods.parts.views import RATIOS, View, make_views, scaled


def test_the_original_views_are_seven_scales_plain_and_mirrored():
    views = make_views()
    assert len(views) == 14
    assert views[4] == View(1.0, flip=False)  # the one that is taken where the anchor is sure
    assert {view.ratio for view in views} == set(RATIOS)
    assert sum(view.flip for view in views) == 7
    assert len(make_views((1.0, 2.0), flip=False)) == 2


def test_sizes_are_rounded_half_up():
    assert scaled((5, 10), 0.5) == (3, 5)
    assert scaled((540, 960), 1.75) == (945, 1680)
    assert scaled((1, 1), 0.1) == (1, 1)


def test_a_mirrored_view_is_mirrored_back():
    inputs = torch.randn(1, 3, 4, 6)
    seen = []

    def forward(x):
        seen.append(x)
        return x

    probabilities = View(1.0, flip=True).probabilities(forward, inputs, (4, 6))
    assert torch.equal(seen[0], inputs.flip(-1))
    torch.testing.assert_close(probabilities, inputs.softmax(1))


def test_logits_are_brought_to_the_label_size_before_the_softmax():
    inputs = torch.randn(1, 3, 4, 6)
    sizes = []

    def forward(x):
        sizes.append(tuple(x.shape[-2:]))
        return x[..., ::2, ::2]

    probabilities = View(1.5).probabilities(forward, inputs, (8, 12))
    assert sizes == [(6, 9)]
    small = interpolate(inputs, size=(6, 9), mode="bilinear")[..., ::2, ::2]
    expected = interpolate(small, size=(8, 12), mode="bilinear").softmax(1)
    torch.testing.assert_close(probabilities, expected)
