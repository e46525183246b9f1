import pytest
import torch
from elsewhere import sent

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style import StyleEncoder
from mmseg_reservoir.style.space import StyleSpace


def make_styles(n=400, d=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, generator=generator)
    return torch.randn(n, d, generator=generator) @ mixing + 3


def apply(space, styles):
    return torch.stack([space(style) for style in styles])


def test_identity_keeps_and_gain_removal_centres_every_block():
    styles = make_styles()
    torch.testing.assert_close(StyleSpace(all=["identity"]).fit(styles)(styles[0]), styles[0])
    space = StyleSpace(all=["gain_removal"]).fit(styles, [2, 6])
    louder = styles[0] + torch.tensor([5.0] * 2 + [-1.0] * 6)
    torch.testing.assert_close(space(louder), space(styles[0]))
    assert space(styles[0])[:2].sum() == pytest.approx(0, abs=1e-5)


def test_standardise_and_whiten_do_what_they_say():
    styles = make_styles()
    standard = apply(StyleSpace(all=["standardize"]).fit(styles), styles)
    torch.testing.assert_close(standard.std(dim=0), torch.ones(8))
    white = apply(StyleSpace(all=["whiten"]).fit(styles), styles)
    torch.testing.assert_close(torch.cov(white.T), torch.eye(8), atol=0.3, rtol=0)


def test_a_dead_channel_stays_finite():
    styles = make_styles()
    styles[:, 3] = 1
    space = StyleSpace(all=["standardize", "whiten", "squash"]).fit(styles)
    assert torch.isfinite(apply(space, styles)).all()


def test_squash_keeps_the_direction_and_bounds_the_length():
    styles = torch.randn(100, 8)
    space = StyleSpace(all=["squash"]).fit(styles)
    near, far = space(styles[0] * 0.01), space(styles[0] * 1e4)
    torch.testing.assert_close(near / near.norm(), far / far.norm())
    assert float(far.norm()) == pytest.approx(1, abs=1e-3)


def test_held_out_styles_are_less_typical_than_fitted_ones():
    styles = make_styles(n=40, d=30)
    space = StyleSpace(all=["whiten"]).fit(styles)
    assert space.held_out.norm(dim=1).mean() > 1.1 * apply(space, styles).norm(dim=1).mean()


def test_held_out_styles_lie_where_the_space_maps_them():
    styles = make_styles(n=400)
    space = StyleSpace(all=["whiten"]).fit(styles)
    torch.testing.assert_close(space.held_out, apply(space, styles), atol=0.3, rtol=0)


def test_parts_pick_the_halves_of_every_block():
    styles = torch.arange(8.0)[None] + torch.zeros(3, 1)
    space = StyleSpace(logvar=["identity"], mean=["identity"]).fit(styles, [2, 6])
    assert space(styles[0]).tolist() == [0, 2, 3, 4, 1, 5, 6, 7]


def test_encoder_tells_its_blocks():
    assert StyleEncoder("seeded", taps=[7, 2]).groups == [64, 128]
    both = StyleEncoder("seeded", statistic="mean_var")
    assert both.groups == [128, 256, 256]
    assert len(both(torch.rand(1, 3, 16, 16))) == sum(both.groups)


@pytest.mark.parametrize("send", [dict, sent])
def test_state_round_trip(send):
    parts = {"all": ["standardize", "whiten", "squash"]}
    one, other = (StyleSpace(**parts).fit(make_styles(seed=seed)) for seed in (1, 2))
    other.load_state_dict(send(one.state_dict()))
    style = make_styles(1, seed=3)[0]
    assert torch.equal(one(style), other(style))
    assert torch.equal(one.held_out, other.held_out)


@pytest.mark.parametrize(
    ("parts", "groups", "message"),
    [
        ({"all": ["whitten"]}, None, "unknown transform of styles 'whitten'.*did you mean"),
        ({"mean": ["whiten"]}, None, "space.mean needs reservoir.style.statistic='mean_var'"),
        ({"mean": ["whiten"]}, [3, 5], "space.mean needs reservoir.style.statistic='mean_var'"),
        ({"all": []}, [3, 4], "add up to"),
        ({}, None, "at least one part"),
    ],
)
def test_mistakes_are_explained(parts, groups, message):
    with pytest.raises(ReservoirError, match=message):
        StyleSpace(**parts).fit(make_styles(), groups)
