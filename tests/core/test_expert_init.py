import copy

import torch
from small_net import make_method

from mmseg_reservoir.core.expert_init import (
    from_best_expert,
    from_best_expert_fresh,
    from_source,
    from_top_experts,
    ranking,
)
from mmseg_reservoir.core.losses import information_loss
from mmseg_reservoir.core.reservoir import Reservoir


def test_clones_the_expert_with_the_lowest_information_loss(stream):
    method = make_method()
    x = stream[0]
    source = method.space.snapshot()
    reservoir = Reservoir(source, method.fresh_domain_state(), k_max=4)
    for i in range(3):
        state = method.fresh_domain_state()
        state["optimizer"]["step"] = torch.tensor(float(i + 1))
        torch.manual_seed(i)
        reservoir.add(source + torch.randn_like(source), state)
    scores = []
    for row in reservoir.experts:
        method.space.load(row)
        scores.append(information_loss(method.predict(x)).item())
    best = min(range(4), key=scores.__getitem__)
    parameters, state = from_best_expert(reservoir, method, x)
    assert torch.equal(parameters, reservoir.experts[best])
    assert state["optimizer"] == reservoir.checkout(best)[1]["optimizer"]
    assert state["optimizer"] is not reservoir.checkout(best)[1]["optimizer"]

    parameters, state = from_best_expert_fresh(reservoir, method, x)
    assert torch.equal(parameters, reservoir.experts[best])
    assert state == method.fresh_domain_state()

    order = sorted(range(4), key=scores.__getitem__)
    assert ranking(reservoir, method, x) == order
    parameters, state = from_top_experts(reservoir, method, x)
    torch.testing.assert_close(parameters, sum(reservoir.experts[i] for i in order[:3]) / 3)
    assert state == method.fresh_domain_state()


def test_a_broken_expert_is_never_cloned(stream):
    method = make_method()
    source = method.space.snapshot()
    broken = torch.full_like(source, float("nan"))
    reservoir = Reservoir(broken, method.fresh_domain_state(), k_max=2)
    reservoir.add(source, method.fresh_domain_state())
    assert torch.equal(from_best_expert(reservoir, method, stream[0])[0], source)


def test_from_source_starts_with_a_fresh_state(stream):
    method = make_method()
    source = method.space.snapshot()
    reservoir = Reservoir(source, copy.deepcopy(method.domain_state()), k_max=2)
    reservoir.commit(0, source + 1, {"optimizer": {"step": torch.ones(())}})
    parameters, state = from_source(reservoir, method, stream[0])
    assert torch.equal(parameters, source)
    assert state == method.fresh_domain_state()
