import math

import pytest
import torch
from small_outcomes import make_outcome

from mmseg_reservoir.core.outcome import NOT_ADAPTING, Outcome
from mmseg_reservoir.core.route import Route


def test_an_entry_of_results_has_the_numbers_of_the_route():
    weights = torch.tensor([0.25, 0.75])
    outcome = Outcome(torch.zeros(2, 4), Route(1, weights, is_new=True), k=2, seconds=0.5)
    (entry,) = outcome.to_json()
    uniform = pytest.approx(math.log(4))
    assert entry.pop("entropy") == entry.pop("marginal_entropy") == uniform
    undecided = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert entry.pop("route_entropy") == pytest.approx(undecided)
    assert entry == {"expert": 1, "k": 2, "weight": 0.75, "opened": True, "seconds": 0.25}
    assert [one["seconds"] for one in outcome.to_json(images=2)] == [0.25, 0.25]


def test_entropies_are_those_of_the_batch_or_of_its_images():
    outcome = make_outcome(logits=torch.eye(2) * 50)
    ((certain, diverse),) = outcome.entropies()
    assert certain == pytest.approx(0)
    assert diverse == pytest.approx(math.log(2))
    assert outcome.entropies(per_image=True) == [pytest.approx((0, 0))] * 2


def test_entropies_that_are_not_finite_are_none():
    logits = torch.zeros(2, 2)
    logits[1] = math.nan
    outcome = make_outcome(logits=logits)
    assert outcome.entropies() == [(None, None)]
    uniform = pytest.approx((math.log(2), math.log(2)))
    assert outcome.entropies(per_image=True) == [uniform, (None, None)]


def test_a_model_that_does_not_adapt_has_one_expert():
    entry = {
        "expert": 0,
        "k": 1,
        "weight": 1.0,
        "route_entropy": 0.0,
        "opened": False,
        "seconds": None,
        "entropy": None,
        "marginal_entropy": None,
    }
    assert NOT_ADAPTING.to_json() == [entry]
    assert NOT_ADAPTING.to_json(images=3) == [entry] * 3
    assert NOT_ADAPTING.stage_seconds == {}
    assert make_outcome(handled="rested").to_json()[0]["handled"] == "rested"
