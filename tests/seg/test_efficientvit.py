"""EfficientViT: the bundled checkpoint's logits are those of the authors' layout."""

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmengine.runner import load_checkpoint

from mmseg_reservoir.io.files import shipped
from mmseg_reservoir.seg import EfficientViT
from mmseg_reservoir.seg.efficientvit import LinearAttention

RECORDED = [
    [-2.38782, -0.34947, -1.48026, -2.85087],
    [-3.39305, 0.89039, -4.33898, -3.7337],
    [-2.19749, -1.0018, -2.42335, -1.98532],
]
"""Of `picture()`: classes 0, 8, 10 and 13 at the pixels (0, 0), (5, 9) and (11, 15)."""


@pytest.fixture(scope="module")
def net():
    config = Config.fromfile(shipped("configs/_base_/models/efficientvit_b0.py"))
    net = MODELS.build({**config.model, "_scope_": "mmseg"}).eval()
    path = shipped("checkpoints/efficientvit_b0_cityscapes.safetensors")
    load_checkpoint(net, str(path), strict=True)
    return net


def picture():
    y, x = torch.meshgrid(torch.arange(96.0), torch.arange(128.0), indexing="ij")
    return torch.stack([torch.sin(x / 9), torch.cos(y / 7), torch.sin((x + y) / 13)])[None]


@torch.no_grad()
def test_the_logits_are_those_recorded(net):
    logits = net(picture(), mode="tensor")
    assert logits.shape == (1, 19, 12, 16)
    found = torch.stack([logits[0, [0, 8, 10, 13], y, x] for y, x in ((0, 0), (5, 9), (11, 15))])
    torch.testing.assert_close(found, torch.tensor(RECORDED), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_attention_sums_in_float32_under_autocast():
    torch.manual_seed(0)
    attention, x = LinearAttention(32).eval(), 60 * torch.randn(1, 32, 64, 64)
    expected = attention(x)
    with torch.autocast("cpu", torch.float16):
        out = attention(x)
    assert (out - expected).abs().max() < 0.02 * expected.abs().max()


def test_widths_and_depths_make_other_sizes():
    net = EfficientViT(widths=(16, 32, 64, 128, 256), depths=(1, 2, 3, 3, 4))
    maps = net(torch.zeros(1, 3, 64, 96))
    assert [m.shape[1:] for m in maps] == [(32, 16, 24), (64, 8, 12), (128, 4, 6), (256, 2, 3)]
