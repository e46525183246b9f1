import copy

import pytest
import small_net
import torch
from elsewhere import sent

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing.style_memory import (
    NoMemory,
    PublishedReservoirSampling,
    ReservoirSampling,
)

D = 6


def make_router(tau=3.0, **options):
    return small_net.make_router(torch.zeros(D), tau, **options)


def style(x: float, y: float = 0.0) -> torch.Tensor:
    return torch.tensor([x, y] + [0.0] * (D - 2))


def test_opens_beyond_tau_and_recognises_what_returns():
    router = make_router()
    near, far, back = router.route(style(2.9)), router.route(style(9)), router.route(style(0.1))
    again = router.route(style(8.5, 1))
    assert [r.index for r in (near, far, back, again)] == [0, 1, 0, 1]
    assert [r.is_new for r in (near, far, back, again)] == [False, True, False, False]
    assert router.k == 2


def test_never_beyond_k_max_nor_when_told_not_to():
    router = make_router(k_max=2)
    assert not router.route(style(50), may_open=False).is_new
    assert router.route(style(50)).is_new
    route = router.route(style(0, 99))
    assert not route.is_new
    assert router.k == 2
    assert len(route.weights) == 2


def test_weights_are_the_softmax_of_negative_distances():
    router = make_router(lr=0.0, tau=5.0)
    router.route(style(10))
    s = style(6, 1)
    distances = torch.stack([s.norm(), (s - style(10)).norm()])
    torch.testing.assert_close(router.route(s).weights, torch.softmax(-distances, 0))
    torch.testing.assert_close(router.clustering.distances(s[None])[0], distances)
    paper = make_router(temperature="sqrt_d", lr=0.0, tau=5.0)
    paper.route(style(10))
    torch.testing.assert_close(paper.route(s).weights, torch.softmax(-distances / D**0.5, 0))


def test_centroid_step_equals_an_independent_adamw_step():
    styles = [torch.randn(D, generator=torch.Generator().manual_seed(i)) * 4 for i in range(6)]
    router = make_router(lr=0.01, tau=5.0)
    offsets, memory = torch.zeros(1, D), []
    optimizer = torch.optim.AdamW([offsets.requires_grad_()], lr=0.01, weight_decay=0.01)
    for s in styles:
        route = router.route(s)
        if (s - offsets.detach()).norm(dim=1).min() > 5.0 and len(offsets) < 4:
            offsets = torch.cat([offsets.detach(), s[None]]).requires_grad_()
            optimizer = torch.optim.AdamW([offsets], lr=0.01, weight_decay=0.01)
            assert route.is_new
        squares = (torch.stack([*memory, s])[:, None] - offsets).pow(2).sum(-1)
        q = torch.softmax(-squares.clamp_min(1e-30).sqrt(), 1)
        mean = q.mean(0)
        loss = -(q * q.log()).sum(1).mean() + (mean * (mean + 1e-8).log()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.append(s)
        torch.testing.assert_close(route.weights, q[-1].detach(), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(
            router.clustering.centroids.detach(), offsets.detach(), rtol=1e-4, atol=1e-4
        )
    assert router.k > 1


def test_assignment_after_the_step_uses_the_moved_centroids():
    before, after = make_router(lr=0.5), make_router(lr=0.5, assign="after")
    for router in (before, after):
        router.route(style(10))
    s = style(5.2, 1)
    w_before, w_after = before.route(s).weights, after.route(s).weights
    torch.testing.assert_close(before.clustering.centroids, after.clustering.centroids)
    expected = torch.softmax(-(s - after.clustering.centroids.detach()).norm(dim=1), 0)
    torch.testing.assert_close(w_after, expected)
    assert not torch.allclose(w_before, w_after)


def test_smaller_batches_are_learned_from_only_if_told_to():
    plain, published = make_router(lr=0.1), make_router(lr=0.1, learn_incomplete=True)
    for router in (plain, published):
        router.route(style(10))
        before = router.clustering.centroids.detach().clone()
        route = router.route(style(8, 1), may_open=False)
        assert route.index == 1
        learned = router is published
        assert len(router.memory) == 1 + learned
        assert torch.equal(router.clustering.centroids, before) != learned


def test_a_batch_that_tells_nothing_goes_to_the_source():
    router = make_router()
    router.route(style(10))
    route = router.fallback_route()
    assert (route.index, route.is_new, route.weights.tolist()) == (0, False, [1, 0])
    assert len(router.memory) == 1


def test_learning_from_the_memory_alone_needs_the_style_to_be_remembered_first():
    both = make_router(lr=0.1)
    memory = make_router(lr=0.1, learn_from="memory", memory=ReservoirSampling(1))
    nothing = make_router(lr=0.1, learn_from="memory", memory=NoMemory())
    for router in (both, memory, nothing):
        router.route(style(10))
    # One style, remembered or not: all three have learnt from the same.
    for router in (memory, nothing):
        torch.testing.assert_close(router.clustering.centroids, both.clustering.centroids)
    torch.testing.assert_close(memory.memory.styles, style(10)[None])
    assert nothing.memory.styles is None


def test_a_full_memory_may_refuse_the_style_and_then_nothing_is_learned_from_it():
    """What tells learning from the memory apart from learning from it and the current style."""
    refuse = dict(memory=PublishedReservoirSampling(1, draw=lambda below: below - 1), lr=0.1)
    refuse["memory"].seen = 1  # the next draw is position 1, beyond the memory
    both, alone = make_router(**copy.deepcopy(refuse)), make_router(learn_from="memory", **refuse)
    moved = {}
    for name, router in (("both", both), ("memory", alone)):
        router.route(style(10))
        router.route(style(8, 1))
        assert router.memory.styles.tolist() == [style(10).tolist()]
        moved[name] = router.clustering.centroids.detach()
    # By hand: after the second style the centroids descend the loss of the first one alone.
    by_hand = make_router(lr=0.1)
    by_hand.route(style(10))
    by_hand.clustering.move(style(10)[None], style(8, 1))
    torch.testing.assert_close(moved["memory"], by_hand.clustering.centroids.detach())
    assert not torch.allclose(moved["memory"], moved["both"])


@pytest.mark.parametrize("send", [dict, sent])
def test_state_round_trip_continues_identically(send):
    torch.manual_seed(0)
    first, then = torch.randn(30, D) * 5, torch.randn(30, D) * 5
    one = make_router(memory=ReservoirSampling(8, seed=3), lr=0.01)
    for s in first:
        one.route(s)
    other = make_router(memory=ReservoirSampling(8, seed=4), lr=0.01, tau=99.0)
    other.load_state_dict(send(one.state_dict()))
    for s in then:
        a, b = one.route(s), other.route(s)
        assert (a.index, a.is_new) == (b.index, b.is_new)
        assert torch.equal(a.weights, b.weights)
    assert torch.equal(one.clustering.centroids, other.clustering.centroids)


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="k_max must be a whole number of at least 1, got 0"):
        make_router(k_max=0)
    with pytest.raises(ReservoirError, match="temperature must be a number above 0, or 'sqrt_d'"):
        make_router(temperature="sqrt_x")
    with pytest.raises(ReservoirError, match=r"assign must be one of before, after, got 'befor'"):
        make_router(assign="befor")
    with pytest.raises(ReservoirError, match="style"):
        make_router().route(None)
    with pytest.raises(ReservoirError, match="style vector is not finite"):
        make_router().route(style(float("nan")))
    large = make_router()
    large.route(style(50))
    with pytest.raises(ReservoirError, match="2 centroids, K_max is 1"):
        make_router(k_max=1).load_state_dict(large.state_dict())
