import io

import pytest
import torch
from small_vit import make_vit
from torch import nn

from mmseg_reservoir.cls import AdaptiveClassifier
from mmseg_reservoir.cls.build import build_method
from mmseg_reservoir.cls.images import IMAGENET
from mmseg_reservoir.errors import ReservoirError

GENERATOR = torch.Generator().manual_seed(0)
SOURCE = [torch.rand(8, 3, 12, 12, generator=GENERATOR) for _ in range(4)]
STREAM = [x * scale for x in SOURCE[:2] for scale in (0.1, 1.0)]
RESERVOIR = dict(style=dict(weights="seeded"))
OPTIONS = {
    "cotta_images": dict(views=2),
    "petta": dict(capacity=16, update_every=8, alpha_0=0.5),
    "rotta": dict(capacity=16, update_every=8, nu=0.5),
}
new_methods = pytest.mark.parametrize("name", sorted(OPTIONS))


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).eval()


def adaptive(name, **options):
    return AdaptiveClassifier(make_net(), {"type": name, **OPTIONS[name]}, **options)


@pytest.mark.parametrize(
    ("name", "wish", "kept"),
    [
        ("source", None, True),
        ("source", True, False),
        ("tent", None, False),
        ("tent", False, True),
        ("cotta_images", None, False),
        ("rotta", None, True),
        ("petta", None, True),
    ],
)
def test_the_method_says_what_batch_normalisation_goes_by(name, wish, kept):
    net = make_net()
    build_method(net, name, batch_statistics=wish)
    assert (net[1].running_mean is not None) == kept


def test_batch_statistics_are_refused_where_they_make_no_sense():
    with pytest.raises(ReservoirError, match="batch_statistics=False"):
        build_method(make_net(), "rotta", batch_statistics=True)


def test_a_method_for_segmentation_names_the_one_for_images():
    with pytest.raises(ReservoirError, match=r"'cotta' is for segmentation.*use 'cotta_images'"):
        build_method(make_net(), "cotta")


def test_augmentations_know_how_the_images_were_normalised():
    augment = AdaptiveClassifier(make_net(), "rotta", images="imagenet").method.augment
    assert augment.mean.flatten().tolist() == pytest.approx(IMAGENET[0])
    assert augment.std.flatten().tolist() == pytest.approx(IMAGENET[1])
    own = {"type": "rotta", "augment": dict(mean=0.1, noise=0.2)}
    augment = AdaptiveClassifier(make_net(), own, images="imagenet").method.augment
    assert augment.mean.flatten().tolist() == pytest.approx([0.1])
    assert augment.std.flatten().tolist() == pytest.approx(IMAGENET[1])
    assert augment.noise == 0.2


@new_methods
def test_the_seed_is_that_of_the_run_unless_the_method_has_its_own(name):
    assert adaptive(name, seed=5).method.generator.initial_seed() == 5
    own = AdaptiveClassifier(make_net(), {"type": name, **OPTIONS[name], "seed": 2}, seed=5)
    assert own.method.generator.initial_seed() == 2


def test_prompts_have_the_seed_of_the_run_unless_they_have_their_own():
    def prompts(run, **own):
        params = {"type": "prompt", **own}
        return build_method(make_vit(), "tent", params=params, seed=run).source

    assert torch.equal(prompts(5), prompts(0, seed=5))
    assert torch.equal(prompts(5, seed=2), prompts(2))
    assert not torch.equal(prompts(5), prompts(2))


@new_methods
@pytest.mark.parametrize("reservoir", [None, RESERVOIR])
def test_the_state_goes_through_a_file_without_source_images(name, reservoir):
    model = adaptive(name, reservoir=reservoir, source=SOURCE)
    for x in STREAM:
        assert torch.isfinite(model(x)).all()
    assert model.last.k == (2 if reservoir else 1)
    assert model.method.counts["updates"] == len(STREAM)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = adaptive(name, reservoir=reservoir)
    other.load_state_dict(torch.load(file, weights_only=True))
    for x in STREAM:
        assert torch.equal(other(x), model(x))
