from functools import partial

import pytest
import torch
from elsewhere import sent
from logit_net import logit_method, some_logits
from small_net import make_method

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Cotta
from mmseg_reservoir.methods.common.mean_teacher import MeanTeacher, soft_cross_entropy
from mmseg_reservoir.routing.oracle import OracleRouter

SGD = partial(torch.optim.SGD, lr=0.1)


class Choosy(MeanTeacher):
    """Learns only from batches that begin with a positive number; breaks on a large one."""

    def loss(self, inputs):
        prediction = self.predict(inputs)
        self.take_student()
        loss = soft_cross_entropy(self.forward(inputs), prediction.square().softmax(1)).mean()
        if inputs[0, 0] > 100:
            raise ReservoirError("too much")
        return prediction, loss if inputs[0, 0] > 0 else None


def starting_with(value, seed=0):
    logits = some_logits(seed)
    logits[0, 0] = value
    return logits


def test_a_loss_of_none_leaves_teacher_and_student_as_they_were():
    method = logit_method(Choosy, optimizer=SGD, momentum=0.5)
    method.adapt(starting_with(1.0))
    teacher, student = method.space.snapshot(), method.state["student"].clone()
    assert not torch.allclose(teacher, student)
    method.adapt(starting_with(-1.0))
    assert torch.equal(method.space.values, teacher)
    assert torch.equal(method.state["student"], student)
    assert (method.counts["updates"], method.counts["skipped"]) == (1, 1)


def test_the_expert_of_a_batch_without_update_is_the_teacher():
    pipeline = ReservoirPipeline(logit_method(Choosy, optimizer=SGD, momentum=0.5), OracleRouter(3))
    for value in (1.0, 2.0, -1.0):
        pipeline.step(starting_with(value)[:, :, None, None], domain="fog")
    alone = logit_method(Choosy, optimizer=SGD, momentum=0.5)
    for value in (1.0, 2.0):
        alone.adapt(starting_with(value)[:, :, None, None])
    assert torch.equal(pipeline.reservoir.checkout(1)[0], alone.space.values)


@pytest.mark.parametrize("restore", [0.0, 0.5])
def test_a_broken_update_leaves_both_as_they_were(restore):
    method = logit_method(Choosy, optimizer=SGD, momentum=0.5, restore=restore)
    method.adapt(starting_with(1.0))
    teacher, student = method.space.snapshot(), method.state["student"].clone()
    broken = starting_with(1.0)
    broken[1] = torch.nan
    method.adapt(broken)
    assert method.rejected == 1
    assert torch.equal(method.space.values, teacher)
    assert torch.equal(method.state["student"], student)
    with pytest.raises(ReservoirError, match="too much"):
        method.adapt(starting_with(101.0))
    assert torch.equal(method.space.values, teacher)


def test_the_generator_stays_on_the_cpu(stream):
    one, other = (make_method(Cotta, restore=0.5, seed=seed) for seed in (1, 2))
    for x in stream[:2]:
        one.adapt(x)
    other.load_state_dict(sent(one.state_dict()))
    drawn = [torch.rand(5, generator=method.generator).tolist() for method in (one, other)]
    assert drawn[0] == drawn[1]
