import pytest
import torch
from elsewhere import sent

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing.segment_router import SegmentRouter
from mmseg_reservoir.style import Calibration
from mmseg_reservoir.style.space import StyleSpace

D = 20


def draw(n, at=None, seed=0, by=20.0):
    """Frames of a domain that lies away from the source along one axis."""
    styles = torch.randn(n, D, generator=torch.Generator().manual_seed(seed))
    if at is not None:
        styles[:, at] += by
    return styles


def make_router(**options):
    space = StyleSpace(all=["standardize", "whiten", "squash"])
    return SegmentRouter(space, **options).fit(Calibration(draw(200, seed=99)))


def follow(router, styles):
    return [router.route(style) for style in styles]


def test_opens_after_a_run_and_recognises_what_returns_at_once():
    router = make_router()
    first = follow(router, draw(8, at=0, seed=1))
    assert [route.is_new for route in first] == [i == 3 for i in range(8)]
    assert [route.index for route in first] == [0] * 3 + [1] * 5
    follow(router, draw(8, at=1, seed=2))
    assert [route.index for route in follow(router, draw(4, at=0, seed=3))] == [1] * 4
    assert [route.index for route in follow(router, draw(4, at=1, seed=4))] == [2] * 4
    assert [route.index for route in follow(router, draw(4, seed=5))] == [0] * 4
    assert router.k == 3


def test_frames_before_a_domain_is_opened_fit_none():
    router = make_router()
    assert all(route.fits for route in follow(router, draw(6, seed=5)))
    first = follow(router, draw(8, at=0, seed=1))
    assert [route.fits for route in first] == [route.index == 1 for route in first]
    assert all(route.fits for route in follow(router, draw(6, at=0, seed=2)))


def test_where_no_domain_can_be_opened_every_frame_fits():
    router = make_router(k_max=1)
    assert all(route.fits for route in follow(router, draw(8, at=0, seed=1)))


def test_a_domain_outlives_a_long_visit_of_another():
    router = make_router(members=20)
    follow(router, draw(8, at=0, seed=1))
    follow(router, draw(150, at=1, seed=2))
    assert [route.index for route in follow(router, draw(5, at=0, seed=3))] == [1] * 5
    assert router.k == 3


def test_a_swallowed_domain_is_split_off_with_its_earlier_members():
    router = make_router()
    follow(router, draw(8, at=0, seed=1))
    mixed = draw(8, at=0, seed=2)
    mixed[:, 1] += 14
    for style in mixed:
        assert not router.route(style, may_open=False).is_new
    assert router.k == 2
    again = draw(8, at=0, seed=4)
    again[:, 1] += 14
    routes = follow(router, [*draw(8, at=0, seed=3), *again])
    assert sum(route.is_new for route in routes) == 1
    assert routes[7].index != routes[-1].index
    # Those from the time when it was not known came along.
    assert router.memory.counts().tolist() == [0, 16, 16]


def test_source_and_single_odd_frames_open_nothing():
    styles = draw(300, seed=7)
    styles[::20] += 50
    assert not any(route.is_new for route in follow(make_router(), styles))


def test_a_slow_fade_opens_nothing_in_between():
    router, stream = make_router(), []
    for visit in range(4):
        for at in (0, 1):
            frames = draw(8, at=at, seed=10 * visit + at)
            if stream:
                stream += [torch.lerp(stream[-1], frames[0], i / 8) for i in range(1, 8)]
            stream += [*frames]
    follow(router, stream)
    assert router.k == 3


def test_never_beyond_k_max_nor_when_told_not_to():
    router = make_router(k_max=2)
    for style in draw(9, at=0, seed=1):
        assert not router.route(style, may_open=False).is_new
    assert sum(r.is_new for r in follow(router, draw(9, at=0, seed=2))) == 1
    routes = follow(router, draw(12, at=1, seed=3))
    assert not any(r.is_new for r in routes)
    assert all(len(r.weights) == 2 for r in routes)
    assert float(routes[-1].weights.sum()) == pytest.approx(1)


@pytest.mark.parametrize("send", [dict, sent])
def test_state_round_trip_continues_identically(send):
    one, other = make_router(), make_router()
    follow(one, [*draw(9, at=0, seed=1), *draw(6, at=1, seed=2)])
    other.load_state_dict(send(one.state_dict()))
    for style in [*draw(9, at=2, seed=3), *draw(5, at=0, seed=4)]:
        a, b = one.route(style), other.route(style)
        assert (a.index, a.is_new) == (b.index, b.is_new)
        assert torch.equal(a.weights, b.weights)
    assert one.k == other.k == 4


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="style vector is not finite"):
        make_router().route(torch.full((D,), float("nan")))
    with pytest.raises(ReservoirError, match=r"switch must be a number in \(0, 1\)"):
        make_router(switch=1.0)
    with pytest.raises(ReservoirError, match="run <= lag <= members"):
        make_router(run=9, lag=5)
    large = make_router()
    follow(large, draw(9, at=0, seed=1))
    with pytest.raises(ReservoirError, match="2 domains, K_max is 1"):
        make_router(k_max=1).load_state_dict(large.state_dict())


def test_what_comes_after_a_frame_corrects_its_label():
    """A frame between the two is first taken to go on as those before it."""
    router = make_router()
    follow(router, draw(8, at=0, seed=1))
    between = torch.zeros(D)
    between[0] = 2.8
    route = router.route(between)
    assert route.index == router.memory.labels[-1] == 1
    assert 0.5 < float(route.weights[1]) < 0.9  # not sure
    follow(router, draw(4, seed=3))
    assert router.memory.labels[-5:].tolist() == [0] * 5
    assert router.memory.labels[-9:-5].tolist() == [1] * 4


def test_a_tight_group_of_source_frames_is_no_domain():
    """A domain of its own would explain them better, but they lie where source frames lie."""
    noise = torch.randn(12, D, generator=torch.Generator().manual_seed(0))
    tight = 0.3 * draw(1, seed=50) + 0.05 * noise
    router = make_router()
    assert not any(route.is_new for route in follow(router, tight))
    unbounded = make_router()
    unbounded.tau = 0.0
    assert any(route.is_new for route in follow(unbounded, tight))


def test_a_domain_that_has_long_stood_is_split_only_by_more_evidence():
    def domains(patience):
        router = make_router(patience=patience)
        follow(router, draw(400, at=0, seed=1))
        for visit in range(2):
            near = draw(8, at=0, seed=20 + visit)
            near[:, 1] += 4
            follow(router, [*near, *draw(8, at=0, seed=10 + visit)])
        return router.k

    assert domains(patience=10.0) == 2
    assert domains(patience=1e9) == 3


def test_a_frame_that_tells_nothing_is_of_the_domain_before_it():
    router = make_router()
    follow(router, draw(8, at=0, seed=1))
    before = len(router.memory.labels)
    route = router.fallback_route()
    assert (route.index, route.is_new) == (1, False)
    assert len(router.memory.labels) == before
