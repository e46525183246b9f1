"""Every recorded run of the published implementation, reproduced by our core and methods.

The tolerances are those that the traces' own float noise asks for (FORMAT.md, "Tolerances").
"""

import pytest
import torch
from parity_trace import runs


def largest(ours, recorded) -> float:
    """The largest absolute difference."""
    assert ours.shape == recorded.shape
    return float((ours - recorded).abs().max())


@runs("step.model_idx")
def test_routes(run, replay):
    outcomes = replay.outcomes
    assert [o.route.index for o in outcomes] == run.trace["step.model_idx"].tolist()
    assert [o.k for o in outcomes] == run.trace["step.K"].tolist()
    assert [o.route.is_new for o in outcomes] == run.trace["step.new_cluster"].bool().tolist()


@runs("step.q")
def test_soft_assignments(run, replay):
    q = torch.zeros_like(run.trace["step.q"])
    for row, outcome in zip(q, replay.outcomes, strict=True):
        row[: outcome.k] = outcome.route.weights
    assert largest(q, run.trace["step.q"]) < 5e-4


@runs("step.init_from")
def test_new_experts_start_from_the_same_one(run, replay):
    assert replay.init_from == run.trace["step.init_from"].tolist()


@runs()
def test_predictions(run, replay):
    for outcome, recorded in zip(replay.outcomes, run.trace["step.logits"], strict=True):
        assert largest(outcome.logits, recorded[: len(outcome.logits)]) < 1e-3


@runs()
def test_adapted_parameters_after_every_step(run, replay):
    assert largest(torch.stack(replay.params_after), run.trace["step.params_after"]) < 5e-4


@runs()
def test_final_experts(run, replay):
    experts = replay.experts
    assert len(experts) == run.about.get("K_final", 1)
    for k, expert in enumerate(experts):
        assert largest(expert, run.expert(k)) < 5e-4


@runs("final.centroids")
def test_final_centroids(run, replay):
    ours, recorded = replay.pipeline.router.clustering.centroids, run.trace["final.centroids"]
    # Relative for the sums of the Gram matrix, which are hundreds.
    torch.testing.assert_close(ours.detach(), recorded, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", ["reliable", "selected"])
@runs("step.eata_n_reliable")
def test_sample_filters(run, replay, name):
    assert replay.per_step(name) == run.trace[f"step.eata_n_{name}"].tolist()


@runs("step.reset")
def test_resets(run, replay):
    assert replay.per_step("resets") == run.trace["step.reset"].tolist()


@runs("step.sar_ema")
def test_average_loss(run, replay):
    ours, recorded = torch.tensor(replay.loss_average), run.trace["step.sar_ema"]
    torch.testing.assert_close(ours, recorded, rtol=0, atol=1e-4, equal_nan=True)


@runs("fisher.")
def test_fisher_information(run, replay):
    recorded = torch.cat([run.trace[f"fisher.{name}"] for name in run.about["param_names"]])
    torch.testing.assert_close(replay.pipeline.method.fisher, recorded, rtol=1e-4, atol=1e-8)
