import copy

import pytest
import torch
from mmseg.models import SegDataPreProcessor
from mmseg_reservoir.seg.build import behind_imagenet_normalisation, build_method

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Source, Tent

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
TENT = dict(type="tent", optimizer=dict(type="Adam", lr=1e-3))


def test_builds_the_method_over_the_selected_parameters(tiny_model):
    model = copy.deepcopy(tiny_model)
    method = build_method(model, TENT, {})
    assert isinstance(method, Tent)
    assert isinstance(method.optimizer, torch.optim.Adam)
    assert method.optimizer.param_groups[0]["lr"] == 1e-3
    assert all(name.startswith("backbone.") for name in method.space.names)
    head = build_method(copy.deepcopy(tiny_model), TENT, dict(under="decode_head"))
    assert all(name.startswith("decode_head.") for name in head.space.names)
    assert isinstance(build_method(copy.deepcopy(tiny_model), dict(type="source"), {}), Source)


@torch.no_grad()
def test_lora_leaves_the_segformer_as_it_was_and_adapts_factors_only(tiny_model):
    model, inputs = copy.deepcopy(tiny_model), torch.randn(1, 3, 64, 96)
    method = build_method(model, TENT, dict(type="lora", rank=2))
    assert (method.predict(inputs) - tiny_model(inputs, mode="tensor")).abs().max() == 0
    # Eight blocks, each with q k v, the output, and two 1x1 convolutions.
    assert len(method.space.names) == 8 * 4 * 2
    adapting = {n for n, p in model.named_parameters() if p.requires_grad}
    assert adapting == set(method.space.names)
    assert all("lora_" in name and name.startswith("backbone.") for name in adapting)
    for _ in range(2):  # in the first step no gradient reaches A, since B is 0
        method.adapt(inputs)
    moved = method.space.split(method.space.values - method.source)
    assert all(step.abs().max() > 0 for step in moved)


def test_all_parameters_can_adapt(tiny_model):
    model = copy.deepcopy(tiny_model)
    space = build_method(model, TENT, dict(type="all", under="")).space
    assert len(space) == sum(p.numel() for p in tiny_model.parameters())


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        (dict(type="tant"), {}, "unknown adaptation method 'tant' .*did you mean 'tent'"),
        (dict(type="tent"), {}, "method needs the option 'optimizer'"),
        (dict(type="rotta"), {}, "the method 'rotta' is for images, not for pixels"),
        ({**TENT, "learning_rate": 1}, {}, "method has no option 'learning_rate'"),
        (dict(type="tent", optimizer=dict(type="Adan")), {}, "unknown optimizer 'Adan'"),
        (dict(type="tent", optimizer=dict(type="Adam", rl=1)), {}, "method.optimizer .* 'rl'"),
        (TENT, dict(under="neck"), "below 'neck'.*backbone"),
        (TENT, dict(type="layers"), "unknown params.type 'layers'.*norm_affine"),
        (TENT, dict(type="lora", rang=2), "params has no option 'rang' .*did you mean 'rank'"),
        (TENT, dict(types=("InstanceNorm",)), "InstanceNorm"),
    ],
)
def test_mistakes_are_explained(tiny_model, method, params, message):
    with pytest.raises(ReservoirError, match=message):
        build_method(copy.deepcopy(tiny_model), method, params)


def test_style_sees_imagenet_normalised_rgb_whatever_the_model_wants():
    pixels = torch.rand(1, 3, 8, 8) * 255  # BGR, as loaded
    standard = SegDataPreProcessor(mean=MEAN, std=STD, bgr_to_rgb=True)
    unit = SegDataPreProcessor(mean=[0, 0, 0], std=[255, 255, 255], bgr_to_rgb=True)
    bgr = SegDataPreProcessor(mean=MEAN[::-1], std=STD[::-1])
    raw = SegDataPreProcessor()
    identity = torch.nn.Identity()
    assert behind_imagenet_normalisation(identity, standard) is identity
    expected = standard({"inputs": [pixels[0]]})["inputs"]
    for preprocessor in (unit, bgr, raw):
        inputs = preprocessor({"inputs": [pixels[0]]})["inputs"].float()
        seen = behind_imagenet_normalisation(identity, preprocessor)(inputs)
        torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)
