import pytest
import torch
from torch import nn

from mmseg_reservoir.core.unfit_images import explain_unfit
from mmseg_reservoir.errors import ReservoirError

LARGE = torch.zeros(1, 3, 64, 64)


def call(network, images):
    with torch.no_grad(), explain_unfit(network, images):
        return network(images)


def test_images_that_are_too_small():
    with pytest.raises(ReservoirError, match="images of 2x1 pixels are too small for Conv"):
        call(nn.Conv2d(3, 1, 3), torch.zeros(1, 3, 1, 2))


def test_images_of_another_dtype():
    net = nn.Conv2d(3, 1, 3).to(torch.bfloat16)
    with pytest.raises(ReservoirError, match="parameters of bfloat16 and got images of float32"):
        call(net, LARGE)
    call(net, LARGE.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call(net, LARGE)


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="expected input") as error:
        call(nn.Conv2d(4, 1, 3), LARGE)
    assert not isinstance(error.value, ReservoirError)
