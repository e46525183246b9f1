import pytest
import torch
from torch import nn

from mmseg_reservoir.cls.logits import classification_forward
from mmseg_reservoir.errors import ReservoirError

IMAGES = torch.rand(2, 3, 4, 4)
LOGITS = torch.rand(2, 7)


class Net(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, images):
        return self.output


class Holder:
    logits = LOGITS


@pytest.mark.parametrize("output", [LOGITS, {"logits": LOGITS}, (LOGITS, None), Holder()])
def test_logits_are_found(output):
    assert classification_forward(Net(output), IMAGES) is LOGITS


@pytest.mark.parametrize("output", [IMAGES, {"scores": LOGITS}, "logits"])
def test_anything_else_is_refused(output):
    with pytest.raises(ReservoirError, match=r"Net must return logits \(N, C\), got"):
        classification_forward(Net(output), IMAGES)
