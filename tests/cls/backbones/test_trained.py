import json

import pytest
import torch

from mmseg_reservoir.cli.train_digits import RECIPES, error
from mmseg_reservoir.cls.backbones import build_backbone, trained
from mmseg_reservoir.datasets.digits import digits
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import read_tensors, shipped
from mmseg_reservoir.params.prompt import prompt_space
from mmseg_reservoir.params.selections import norm_affine

README = shipped("checkpoints/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("make", "norms"), [(trained.SmallConvNet, 4), (trained.SmallViT, 7)])
def test_images_to_logits_and_norms_that_can_adapt(make, norms):
    net = make().eval()
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert len(norm_affine(net)) == 2 * norms
    assert sum(p.numel() for p in net.parameters()) < 120_000


def test_prompts_find_the_transformer():
    net = trained.SmallViT(dim=12, depth=2).eval()
    images = torch.rand(2, 3, 32, 32)
    before = net(images)
    space = prompt_space(net, count=3)
    assert space.values.shape == (3 * 12,)
    assert not torch.allclose(net(images), before)


@pytest.mark.parametrize("name", trained.NETS)
def test_the_shipped_weights_are_as_good_as_their_readme_says(name):
    net = build_backbone({"type": name, "pretrained": True})
    path = shipped(f"checkpoints/{name}.safetensors")
    wrong = error(net, digits(train=False))
    (row,) = (line for line in README.splitlines() if line.startswith(f"| `{path.name}`"))
    assert f"; {wrong:.1f} % error on clean test digits" in row
    about = json.loads(read_tensors(path)[1]["about"])
    assert about["error"] == pytest.approx(wrong, abs=0.01)
    assert about["recipe"] == {**RECIPES[name], "seed": trained.SEED}


def test_the_readme_has_every_file():
    for path in shipped("checkpoints").iterdir():
        assert path.name == "README.md" or f"| `{path.name}` |" in README


def test_random_weights_depend_on_the_seed_alone_and_must_be_asked_for():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (build_backbone({"type": "digits_vit", "random": True}) for _ in range(2))
    assert torch.equal(one.head.weight, two.head.weight)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ReservoirError, match="'digits_vit' has no weights"):
        build_backbone({"type": "digits_vit"})
