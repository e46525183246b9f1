import pytest
import torch

from mmseg_reservoir.core.domains import Domains
from mmseg_reservoir.core.stream_router import StreamRouter
from mmseg_reservoir.core.style_space import StyleSpace
from mmseg_reservoir.errors import ReservoirError

D = 20


def draw(n, at=None, seed=0, scale=1.0):
    """Frames of a domain that lies ``scale`` * 20 away from the source along one axis."""
    styles = torch.randn(n, D, generator=torch.Generator().manual_seed(seed))
    if at is not None:
        styles[:, at] += 20 * scale
    return styles


def make_router(**options):
    space = StyleSpace(draw(200, seed=99), {"all": ["standardise", "whiten", "squash"]})
    return StreamRouter(space, **options)


def follow(router, styles):
    return [router.route(style) for style in styles]


def test_opens_after_a_window_and_recognises_what_returns_at_once():
    router = make_router(window=4)
    first = follow(router, draw(8, at=0, seed=1))
    assert [route.is_new for route in first] == [i == 3 for i in range(8)]
    assert [route.index for route in first] == [0] * 3 + [1] * 5
    other = follow(router, draw(8, at=1, seed=2))
    # One frame of the window may be odd, here the last one from before the change.
    assert [i for i, route in enumerate(other) if route.is_new] in ([2], [3])
    assert [route.index for route in follow(router, draw(4, at=0, seed=3))] == [1] * 4
    assert [route.index for route in follow(router, draw(4, at=1, seed=4))] == [2] * 4
    assert [route.index for route in follow(router, draw(4, seed=5))] == [0] * 4
    assert router.k == 3


def test_source_and_single_odd_frames_open_nothing():
    router = make_router()
    styles = draw(300, seed=7)
    styles[::20] += 50
    assert not any(route.is_new for route in follow(router, styles))


def test_an_odd_frame_is_not_learnt():
    router = make_router(window=4)
    follow(router, draw(12, at=0, seed=1))
    before = router.domains.means[1].clone()
    router.route(-1e3 * torch.ones(D))
    assert torch.equal(router.domains.means[1], before)


def test_never_beyond_k_max_nor_when_told_not_to():
    router = make_router(k_max=2, window=5)
    for style in draw(9, at=0, seed=1):
        assert not router.route(style, may_open=False).is_new
    assert sum(r.is_new for r in follow(router, draw(9, at=0, seed=2))) == 1
    routes = follow(router, draw(12, at=1, seed=3))
    assert not any(r.is_new for r in routes)
    assert all(len(r.weights) == 2 for r in routes)
    assert float(routes[-1].weights.sum()) == pytest.approx(1)


def test_domains_follow_their_members_and_the_source_stays():
    domains = Domains(draw(100), dimensions=10, prior=5)
    frames = draw(30, at=0, seed=1)
    domains.open(frames[:5])
    domains.learn(1, frames[5:])
    domains.learn(0, frames)
    torch.testing.assert_close(domains.means[1], frames.mean(dim=0))
    torch.testing.assert_close(domains.means[0], torch.zeros(D))
    variance = frames.var(dim=0).sum()
    assert float(domains.spreads[1]) == pytest.approx(float(variance), rel=0.05)


def test_misfit_is_about_one_for_the_own_domain_and_large_for_another():
    domains = Domains(draw(100), dimensions=10, prior=5)
    domains.open(draw(50, at=0, seed=1))
    misfits = torch.stack([domains.misfit(draw(5, at=0, seed=s)) for s in range(2, 40)])
    assert float(misfits[:, 1].mean()) == pytest.approx(1, abs=0.15)
    assert misfits[:, 0].min() > 20


def test_state_round_trip_continues_identically():
    one, other = make_router(window=4), make_router(window=4)
    follow(one, [*draw(9, at=0, seed=1), *draw(6, at=1, seed=2)])
    other.load_state_dict(one.state_dict())
    for style in [*draw(9, at=2, seed=3), *draw(5, at=0, seed=4)]:
        a, b = one.route(style), other.route(style)
        assert (a.index, a.is_new) == (b.index, b.is_new)
        assert torch.equal(a.weights, b.weights)
    assert torch.equal(one.domains.means, other.domains.means)


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="style vector is not finite"):
        make_router().route(torch.full((D,), float("nan")))
    with pytest.raises(ReservoirError, match="confidence must lie in"):
        make_router(confidence=1.0)
    large = make_router(window=5)
    follow(large, draw(9, at=0, seed=1))
    with pytest.raises(ReservoirError, match="2 domains, K_max is 1"):
        make_router(k_max=1, window=5).load_state_dict(large.state_dict())
