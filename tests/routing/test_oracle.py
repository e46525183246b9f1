import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing.oracle import OracleRouter


def test_oracle_gives_each_domain_its_expert_beside_the_source():
    router = OracleRouter(k_max=3)
    routes = [router.route(domain=d) for d in ("fog", "night", "fog")]
    assert [(r.index, r.is_new) for r in routes] == [(1, True), (2, True), (1, False)]
    assert routes[-1].weights.tolist() == [0, 1, 0]
    with pytest.raises(ReservoirError, match=r"no room for the domain 'rain'"):
        router.route(domain="rain")
    with pytest.raises(ReservoirError, match="needs the domain name"):
        router.route()
    again = OracleRouter(k_max=3)
    again.load_state_dict(router.state_dict())
    assert again.route(domain="night").index == 2


def test_oracle_sends_what_may_open_no_domain_to_the_source():
    router = OracleRouter(4)
    route = router.route(domain="fog", may_open=False)
    assert (route.index, route.is_new, router.k) == (0, False, 1)
    assert router.route(domain="fog").index == 1
    assert router.route(domain="fog", may_open=False).index == 1
