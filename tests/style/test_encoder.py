import json

import pytest
import torch
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.option_types import check_value
from mmseg_reservoir.style.encoder import (
    Encoder,
    Size,
    as_pair,
    middle,
    reduced,
    weight_digest,
)


class Color(Encoder):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.scale = nn.Linear(1, 1).to(dtype)
        self.register_buffer("count", torch.tensor(3))

    def forward(self, images):
        return images.mean(dim=(0, 2, 3))


def test_a_custom_encoder_only_needs_forward():
    encoder = Color()
    assert encoder(torch.ones(2, 3, 4, 4)).shape == (3,)
    assert encoder.groups is None
    assert encoder.sees == "imagenet"
    with pytest.raises(TypeError, match="forward"):
        Encoder()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_fingerprint_has_class_and_weights(dtype):
    torch.manual_seed(0)
    encoder = Color(dtype)
    before = encoder.fingerprint()
    assert before == json.loads(json.dumps(before))
    assert before["encoder"] == "Color"
    nn.init.constant_(encoder.scale.weight, 7.0)
    assert encoder.fingerprint() != before
    assert encoder.fingerprint()["weights"] == weight_digest(encoder)


@pytest.mark.parametrize(
    ("size", "shape"),
    [((5, 7), (5, 7)), (8, (8, 16)), (0.25, (4, 8)), (64, (16, 32)), (1.0, (16, 32))],
)
def test_a_pair_is_literal_the_others_keep_proportions_and_never_enlarge(size, shape):
    assert reduced(torch.rand(2, 3, 16, 32), as_pair(size)).shape == (2, 3, *shape)


def test_a_pixel_is_the_mean_of_those_it_stands_for():
    image = torch.arange(16.0).view(1, 1, 4, 4)
    assert reduced(image, 0.5).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]


@pytest.mark.parametrize("size", [0, -3, 1.5, 0.0, (0, 4), (1, 2, 3), "half", True])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(ReservoirError, match="a share of both sides"):
        check_value(size, Size | None, "size")


def test_the_middle_keeps_its_pixels_as_they_are():
    image = torch.arange(24.0).view(1, 1, 4, 6)
    assert middle(image, 0.5).tolist() == [[[[7, 8, 9], [13, 14, 15]]]]
    assert torch.equal(middle(image, 1), image)
    assert middle(image, 0.01).shape == (1, 1, 1, 1)
