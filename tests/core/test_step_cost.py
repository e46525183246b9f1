import copy

import pytest
import torch
from nested import same
from small_net import make_method
from small_reservoirs import batches, make_pipeline, show

from mmseg_reservoir.core import EveryTrigger, SettledTrigger, SingleModelPipeline
from mmseg_reservoir.core.step_cost import measure_costs
from mmseg_reservoir.methods import Cotta, Tent

PIPELINES = {
    "single": lambda: SingleModelPipeline(make_method(Tent)),
    "teacher": lambda: SingleModelPipeline(make_method(Cotta)),
    "reservoir": lambda: make_pipeline("segment"),
    "care": lambda: make_pipeline("segment", care=True),
    "teacher with care": lambda: make_pipeline("segment", Cotta, care=True, label_scale=2.0),
    "full": lambda: make_pipeline("segment", care=True, k_max=1),
    "trigger": lambda: make_pipeline("segment", trigger=SettledTrigger()),
}


@pytest.mark.parametrize("kind", PIPELINES)
def test_measuring_leaves_no_trace(kind):
    pipeline, other = PIPELINES[kind](), PIPELINES[kind]()
    for one in (pipeline, other):
        for images in batches("clear", 3):
            one.step(images)
    before = copy.deepcopy(pipeline.state_dict())
    generator = torch.get_rng_state()
    costs = measure_costs(pipeline, batches("dark", 1)[0], turns=1)
    assert set(costs) >= {"predict", "adapt"}
    assert all(seconds > 0 for seconds in costs.values())
    assert same(pipeline.state_dict(), before)
    assert torch.equal(torch.get_rng_state(), generator)
    for images in [*batches("dark", 8), *batches("clear", 3)]:
        torch.manual_seed(1)
        expected = other.step(images).logits
        torch.manual_seed(1)
        assert torch.equal(pipeline.step(images).logits, expected)


def test_stages_are_those_that_a_pipeline_has():
    (images,) = batches("clear", 1)
    assert list(measure_costs(PIPELINES["single"](), images, turns=1)) == ["predict", "adapt"]
    plain = ["style", "predict", "adapt"]
    assert list(measure_costs(PIPELINES["reservoir"](), images, turns=1)) == plain
    care = [*plain, "probe", "trial"]
    assert list(measure_costs(PIPELINES["care"](), images, turns=1)) == care


def test_an_outcome_lists_the_work_that_was_done():
    pipeline = make_pipeline("oracle", care=True)
    (images,) = batches("dark", 1)
    works = [pipeline.step(images, domain="dark").work for _ in range(40)]
    assert all(work[:2] == ("style", "adapt") for work in works)
    probes = sum("probe" in work for work in works)
    watched = pipeline.guard.report()["experts"].values()
    assert probes == sum(expert["probes"] for expert in watched) > 0
    assert {work.count("trial") for work in works} == {0, 1, 4}
    assert pipeline.infer(images, domain="dark").work == ("style", "predict")


def test_a_batch_that_is_rested_at_or_waits_is_only_predicted():
    rests = make_pipeline("oracle")
    rests.trigger = EveryTrigger(2)
    works = [rests.step(x, domain="dark").work for x in batches("dark", 3)]
    assert works == [("style", "adapt"), ("style", "predict"), ("style", "adapt")]
    waits = make_pipeline("segment", care=True)
    waits.learns_unfit = False
    for images in batches("clear", 5):
        waits.step(images)
    assert waits.step(batches("dark", 1)[0]).work == ("style", "predict")


def test_a_blend_of_experts_is_another_pass():
    pipeline = make_pipeline("style")
    show(pipeline, ["clear", "dark"])
    outcome = pipeline.step(batches("dark", 1, seed=5)[0])
    alone = float(outcome.route.weights.max()) >= pipeline.one_hot
    assert outcome.work == (("style", "adapt") if alone else ("style", "adapt", "predict"))
    assert not alone
