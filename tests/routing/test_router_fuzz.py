"""Whatever finite styles come, a route is valid; others are refused and leave no trace."""

import copy
import math
from functools import cache

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing import OracleRouter, SegmentRouter, StyleRouter
from mmseg_reservoir.routing.base import LARGEST
from mmseg_reservoir.routing.clustering import KMeansClustering, SinkhornClustering
from mmseg_reservoir.routing.style_memory import FirstInFirstOut, ReplaceWeakest
from mmseg_reservoir.style import Calibration
from mmseg_reservoir.style.space import StyleSpace

WIDTH, K_MAX = 4, 3
SOURCE = Calibration(torch.randn(30, WIDTH, generator=torch.Generator().manual_seed(0)))
ROUTERS = {
    "style": lambda: StyleRouter(k_max=K_MAX),
    "after": lambda: StyleRouter(k_max=K_MAX, assign="after", learn_from="memory"),
    "sinkhorn": lambda: StyleRouter(SinkhornClustering(distance="cosine"), k_max=K_MAX),
    "kmeans": lambda: StyleRouter(KMeansClustering(), FirstInFirstOut(capacity=4), k_max=K_MAX),
    "kl": lambda: StyleRouter(
        KMeansClustering(distance="kl"), ReplaceWeakest(capacity=6), k_max=K_MAX
    ),
    "segment": lambda: SegmentRouter(k_max=K_MAX, run=2, lag=4, members=6),
    "raw segment": lambda: SegmentRouter(StyleSpace(all=["identity"]), k_max=K_MAX, run=2),
}


@cache
def fitted(kind):
    return ROUTERS[kind]().fit(SOURCE)


def make(kind):
    """A new one; the fit is the slow part."""
    return copy.deepcopy(fitted(kind))


# Near and far, and the same again and again, as routers learn from what comes back.
usual = st.floats(-5, 5, width=32)
number = st.one_of(usual, st.floats(-LARGEST, LARGEST, width=32), st.sampled_from([0.0, LARGEST]))
style = st.lists(number, min_size=WIDTH, max_size=WIDTH).map(tuple)
broken = style.flatmap(
    lambda values: st.tuples(
        st.integers(0, WIDTH - 1), st.sampled_from([math.nan, math.inf, -math.inf, 1e38])
    ).map(lambda hit: (*values[: hit[0]], hit[1], *values[hit[0] + 1 :]))
)


@st.composite
def sequences(draw):
    palette = draw(st.lists(style, min_size=1, max_size=4))
    steps = st.tuples(st.sampled_from(palette), st.integers(1, 6), st.booleans())
    return [
        (values, may_open)
        for values, times, may_open in draw(st.lists(steps, min_size=1, max_size=8))
        for _ in range(times)
    ]


def check(route, router):
    assert router.k <= K_MAX
    assert route.weights.shape == (router.k,)
    assert 0 <= route.index < router.k
    assert torch.isfinite(route.weights).all()
    assert (route.weights >= 0).all()
    assert float(route.weights.sum()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", ROUTERS)
@given(sequence=sequences())
def test_any_sequence_of_finite_styles_is_routed(kind, sequence):
    router = make(kind)
    opened = 1
    for values, may_open in sequence:
        route = router.route(torch.tensor(values), may_open=may_open)
        check(route, router)
        opened += route.is_new
        assert router.k == opened
        assert may_open or not route.is_new
    check(router.fallback_route(), router)


@pytest.mark.parametrize("kind", ROUTERS)
@given(before=style, bad=broken)
def test_a_style_that_is_not_finite_is_refused_and_not_remembered(kind, before, bad):
    router = make(kind)
    router.route(torch.tensor(before))
    twin = make(kind)
    twin.route(torch.tensor(before))
    with pytest.raises(ReservoirError, match="is not finite"):
        router.route(torch.tensor(bad))
    one, other = router.route(torch.tensor(before)), twin.route(torch.tensor(before))
    assert one.index == other.index
    assert torch.equal(one.weights, other.weights)


@given(names=st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=20))
def test_an_oracle_routes_any_names_for_which_there_is_room(names):
    router, known = OracleRouter(k_max=K_MAX), set()
    for name, may_open in names:
        if may_open and name not in known and len(known) == K_MAX - 1:
            with pytest.raises(ReservoirError, match="no room for the domain"):
                router.route(domain=name, may_open=True)
            continue
        known |= {name} if may_open else set()
        check(router.route(domain=name, may_open=may_open), router)
        assert router.k == 1 + len(known)
