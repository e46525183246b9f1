import pytest
import torch

from mmseg_reservoir.cls.backbones.small_nets import SmallConvNet, SmallViT
from mmseg_reservoir.spaces.prompt import prompt_space
from mmseg_reservoir.spaces.selections import norm_affine


@pytest.mark.parametrize(("make", "norms"), [(SmallConvNet, 4), (SmallViT, 7)])
def test_images_to_logits_and_norms_that_can_adapt(make, norms):
    net = make().eval()
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert len(norm_affine(net)) == 2 * norms
    assert sum(p.numel() for p in net.parameters()) < 120_000


def test_prompts_find_the_transformer():
    net = SmallViT(dim=12, depth=2).eval()
    images = torch.rand(2, 3, 32, 32)
    before = net(images)
    space = prompt_space(net, count=3)
    assert space.values.shape == (3 * 12,)
    assert not torch.allclose(net(images), before)
