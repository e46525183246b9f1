"""What breaks one expert leaves the others, and the run, alive."""

from functools import partial

import pytest
import torch
from small_net import make_method
from torch.nn.functional import cross_entropy

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.core.guard import LabelGuard
from mmseg_reservoir.core.pooling import EvidencePooling
from mmseg_reservoir.methods import Tent
from mmseg_reservoir.routing import OracleRouter

FAULTS = ("loss", "gradient", "rate", "overflow")


class Breaks(Tent):
    """TENT that breaks in one of several ways on bright batches."""

    fault = ""

    def loss(self, inputs):
        logits, loss = super().loss(inputs)
        if inputs.mean() < 50:
            return logits, loss
        if self.fault == "loss":
            return logits, loss * torch.nan
        if self.fault == "gradient":
            return logits, (loss - loss.detach()).abs().sqrt()  # zero, with infinite slope
        if self.fault == "collapse":
            return logits, cross_entropy(logits, torch.zeros_like(logits.argmax(1)))
        return logits, loss * {"rate": 1e12, "overflow": 1e36}[self.fault]


def make(fault, robust):
    method = make_method(Breaks, optimizer=partial(torch.optim.SGD, lr=0.01, momentum=0.5))
    method.fault = fault
    method.space.model[-1].weight.data.mul_(60)  # a net that is sure of something
    care = (
        {"guard": LabelGuard(margin=0.1, every=1), "pooling": EvidencePooling()} if robust else {}
    )
    return ReservoirPipeline(method, OracleRouter(4), init="source", **care)


@pytest.fixture
def healthy():
    torch.manual_seed(2)
    return [("ab"[i % 2], torch.randn(2, 3, 8, 8) + i % 2) for i in range(8)]


def run(pipeline, healthy, bad=None):
    """Let the healthy domains go by, a bad batch after each; predictions of the healthy ones."""
    logits = []
    for domain, x in healthy:
        logits.append(pipeline.step(x, domain=domain).logits)
        if bad is not None:
            pipeline.step(bad, domain="bad")
    return torch.stack(logits)


BRIGHT = 60 + torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_others_learn_as_if_the_broken_one_were_not_there(healthy, fault, robust):
    alone, beside = make("", robust), make(fault, robust)
    expected = run(alone, healthy)
    # The order in which domains are met decides the numbers of the experts: 1, 3 and 2.
    assert torch.equal(run(beside, healthy, BRIGHT), expected)
    experts = beside.reservoir.experts
    assert torch.equal(experts[[1, 3]], alone.reservoir.experts[1:3])
    assert torch.isfinite(experts).all()
    counts = beside.method.counts
    assert counts["not_finite"] + counts["rollbacks"] == len(healthy)
    assert counts["restarts"] == len(healthy) // 3
    assert counts["updates"] == len(healthy)


def test_a_collapse_stays_where_it_is(healthy):
    alone, beside = make("", False), make("collapse", False)
    expected = run(alone, healthy)
    assert torch.equal(run(beside, healthy, BRIGHT), expected)
    collapsed = beside.infer(BRIGHT, domain="bad").logits.argmax(1)
    assert (collapsed == beside.predict_source(BRIGHT).argmax(1)).float().mean() < 0.5


def test_a_guard_keeps_a_collapse_from_being_pooled(healthy):
    alone = make("", True)
    run(alone, 3 * healthy)

    def agreement(guarded):
        """With what the healthy experts would have been."""
        beside = make("collapse", True)
        if not guarded:
            beside.guard = beside.safeguards.guard = None
        run(beside, 3 * healthy, BRIGHT)
        shares = []
        for domain, x in healthy[:2]:
            logits = beside.infer(x, domain=domain).logits
            assert torch.isfinite(logits).all()
            same = logits.argmax(1) == alone.infer(x, domain=domain).logits.argmax(1)
            shares.append(float(same.float().mean()))
        return beside, min(shares)

    beside, share = agreement(guarded=True)
    assert beside.report()["guard"]["experts"][2]["alarms"] > 0
    assert share > 0.5  # what came before the first alarm was shared
    assert agreement(guarded=False)[1] < 0.3
