import json

import pytest
import torch
from torch import nn

from mmseg_reservoir.style.encoder import Encoder, weight_digest


class Colour(Encoder):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.scale = nn.Linear(1, 1).to(dtype)
        self.register_buffer("count", torch.tensor(3))

    def forward(self, images):
        return images.mean(dim=(0, 2, 3))


def test_one_of_the_users_own_needs_forward_alone():
    encoder = Colour()
    assert encoder(torch.ones(2, 3, 4, 4)).shape == (3,)
    assert encoder.groups is None
    assert encoder.sees == "imagenet"
    with pytest.raises(TypeError, match="forward"):
        Encoder()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_fingerprint_tells_class_and_weights(dtype):
    torch.manual_seed(0)
    encoder = Colour(dtype)
    before = encoder.fingerprint()
    assert before == json.loads(json.dumps(before))
    assert before["encoder"] == "Colour"
    nn.init.constant_(encoder.scale.weight, 7.0)
    assert encoder.fingerprint() != before
    assert encoder.fingerprint()["weights"] == weight_digest(encoder)
