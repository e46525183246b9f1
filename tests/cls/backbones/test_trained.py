import json

import numpy as np
import pytest
import torch

from mmseg_reservoir.cls.backbones import build_backbone, trained
from mmseg_reservoir.datasets.base import ArrayImages
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import read_tensors, shipped
from mmseg_reservoir.params.prompt import prompt_space
from mmseg_reservoir.params.selections import norm_affine

README = shipped("checkpoints/README.md").read_text(encoding="utf-8")


def bright_or_dark(count=64):
    labels = np.arange(count) % 2
    pixels = (
        np.random.default_rng(0).integers(0, 100, (count, 32, 32, 3))
        + 150 * labels[:, None, None, None]
    )
    return ArrayImages(pixels.astype(np.uint8), labels)


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


def test_training_lowers_the_error():
    torch.manual_seed(0)
    net, data = trained.SmallConvNet(width=4, classes=2).eval(), bright_or_dark()
    trained.train(net, data, epochs=15, lr=1e-2, batch_size=16)
    assert trained.error(net, data) == 0


@pytest.mark.parametrize("name", trained.NETS)
def test_the_shipped_weights_are_as_good_as_their_readme_says(name, monkeypatch):
    monkeypatch.setattr(trained, "train", None)  # nothing is trained at use
    net = build_backbone({"type": name, "pretrained": True})
    path = shipped(f"checkpoints/{name}.safetensors")
    wrong = trained.error(net, trained.digits(train=False))
    (row,) = (line for line in README.splitlines() if line.startswith(f"| `{path.name}`"))
    assert f"; {wrong:.1f} % error on clean test digits" in row
    about = json.loads(read_tensors(path)[1]["about"])
    assert about["error"] == pytest.approx(wrong, abs=0.01)
    assert about["recipe"] == {**trained.RECIPES[name], "seed": trained.SEED}


def test_the_readme_has_every_file():
    for path in shipped("checkpoints").iterdir():
        assert path.name == "README.md" or f"| `{path.name}` |" in README


def test_a_file_of_ones_own(tmp_path):
    net = trained.trained_net("digits_convnet", pretrained=True)
    torch.nn.init.constant_(net.head.bias, 3.0)
    path = trained.write_net(net, "digits_convnet", tmp_path)
    again = build_backbone({"type": "digits_convnet", "checkpoint": str(path)})
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("name", trained.NETS)
def test_training_starts_from_its_seed(name, monkeypatch):
    monkeypatch.setattr(trained, "digits", lambda train: bright_or_dark())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (trained.train_net(name, epochs=1) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.head.weight, two.head.weight)
    assert not torch.equal(one.head.weight, trained.trained_net(name).head.weight)


def test_random_weights_depend_on_the_seed_alone_and_must_be_asked_for():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (build_backbone({"type": "digits_vit", "random": True}) for _ in range(2))
    assert torch.equal(one.head.weight, two.head.weight)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ReservoirError, match="'digits_vit' has no weights"):
        build_backbone({"type": "digits_vit"})
