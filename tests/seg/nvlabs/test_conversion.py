from functools import partial
from pathlib import Path

import nvlabs_segformer as nvlabs
import pytest
import torch
from mmengine.config import Config
from mmseg.registry import MODELS
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.nvlabs.conversion import (
    check_fit,
    convert_nvlabs,
    dataset_meta,
    detect_layout,
    weights_of,
)

MODEL = Path(__file__).parents[3] / "configs/_base_/models/segformer_mit-b5_nvlabs.py"


def build(options=None):
    cfg = Config.fromfile(MODEL)
    cfg.merge_from_dict({"model": options or {}})
    return MODELS.build(cfg.model)


def converted_tiny():
    weights = nvlabs.random_weights(nvlabs.TINY)
    model = build(nvlabs.TINY_CONFIG).eval()
    model.load_state_dict(convert_nvlabs(weights).weights, strict=True)
    return weights, model


def b5_shapes(monkeypatch):
    """Shapes of the model for B5, of which no number is computed."""
    # mmseg reads the numbers of this one call.
    monkeypatch.setattr(torch, "linspace", partial(torch.linspace, device="cpu"))
    with torch.device("meta"):
        model = build()
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def on_meta(size):
    return {n: torch.empty(shape, device="meta") for n, shape in nvlabs.layout(size).items()}


@pytest.mark.parametrize("image", [(64, 96), (70, 106)], ids=str)
def test_forward_is_that_of_the_documented_structure(image):
    weights, model = converted_tiny()
    torch.manual_seed(1)
    images = torch.randn(2, 3, *image)
    with torch.no_grad():
        ours = model(images, mode="tensor")
        theirs = nvlabs.forward(weights, nvlabs.TINY, images)
        assert theirs.std() > 0.1  # there is something to compare
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
        doubles = {name: tensor.double() for name, tensor in weights.items()}
        ours = model.double()(images.double(), mode="tensor")
        theirs = nvlabs.forward(doubles, nvlabs.TINY, images.double())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "name",
    ["layers.1.0.norm", "layers.1.1.0.attn.norm", "layers.1.1.0.norm1", "layers.1.2", "fuse.bn"],
)
def test_the_comparison_sees_the_eps_of_every_kind_of_norm(name):
    weights, model = converted_tiny()
    owner = model.decode_head if name == "fuse.bn" else model.backbone
    norm = owner.get_submodule(name)
    norm.eps = {1e-6: 1e-5, 1e-5: 1e-6}[norm.eps]
    torch.manual_seed(1)
    images = torch.randn(1, 3, 64, 96).double()
    doubles = {name: tensor.double() for name, tensor in weights.items()}
    with torch.no_grad():
        difference = model.double()(images, mode="tensor") - nvlabs.forward(
            doubles, nvlabs.TINY, images
        )
    assert difference.abs().max() > 1e-9


def test_b5_converts_to_exactly_the_tensors_of_the_config(monkeypatch):
    weights = on_meta(nvlabs.B5)
    converted, dropped = convert_nvlabs(weights)
    expected = b5_shapes(monkeypatch)
    assert {name: tuple(tensor.shape) for name, tensor in converted.items()} == expected
    check_fit(converted, expected)
    assert dropped == ["decode_head.conv_seg.weight", "decode_head.conv_seg.bias"]
    numbers = sum(t.numel() for n, t in weights.items() if n not in dropped)
    assert sum(tensor.numel() for tensor in converted.values()) == numbers
    assert numbers == pytest.approx(84.7e6, rel=0.01)  # as the SegFormer paper counts


def test_b5_config_says_the_eps_of_nvlabs():
    cfg = Config.fromfile(MODEL).model
    assert (cfg.backbone.norm_cfg.eps, cfg.backbone.embed_norm_eps) == (1e-6, 1e-5)
    assert cfg.decode_head.norm_cfg.eps == 1e-5
    model = build(nvlabs.TINY_CONFIG)
    assert isinstance(model.decode_head.fuse.bn, nn.BatchNorm2d)
    assert model.decode_head.fuse.bn.eps == 1e-5
    assert model.test_cfg.mode == "whole"


def test_another_size_is_named(monkeypatch):
    converted = convert_nvlabs(on_meta(nvlabs.B2)).weights
    with pytest.raises(ReservoirError, match=r"MiT-B2 \(3-4-6-3 blocks.*MiT-B5 .*--config"):
        check_fit(converted, b5_shapes(monkeypatch))


def test_fit_is_exact():
    weights = convert_nvlabs(nvlabs.random_weights(nvlabs.TINY)).weights
    expected = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    check_fit(weights, expected)

    name = "decode_head.conv_seg.weight"
    with pytest.raises(ReservoirError, match=r"1 tensors .*\(19, 12, 1, 1\) in the checkpoint"):
        check_fit(weights, {**expected, name: (150, 12, 1, 1)})
    with pytest.raises(ReservoirError, match=r"extra\.weight: missing in the checkpoint"):
        check_fit(weights, {**expected, "extra.weight": (1,)})
    with pytest.raises(ReservoirError, match=f"{name}: not in the model"):
        check_fit(weights, {n: s for n, s in expected.items() if n != name})
    del weights["decode_head.fuse.bn.num_batches_tracked"]
    check_fit(weights, expected)


@pytest.mark.parametrize(
    "name",
    [
        "auxiliary_head.conv.weight",
        "backbone.block1.0.mlp.fc3.weight",
        "backbone.block5.0.norm1.weight",
        "backbone.patch_embed1.pos",
        "decode_head.linear_c5.proj.weight",
        "linear_pred.weight",
    ],
)
def test_a_tensor_without_a_place_is_an_error(name):
    weights = {**nvlabs.random_weights(nvlabs.TINY), name: torch.zeros(1, 1)}
    with pytest.raises(ReservoirError, match=f"1 of the checkpoint's .*{name}"):
        convert_nvlabs(weights)


@pytest.mark.parametrize("part", ["q", "kv"])
def test_half_an_attention_is_an_error(part):
    weights = nvlabs.random_weights(nvlabs.TINY)
    del weights[f"backbone.block2.1.attn.{part}.weight"]
    with pytest.raises(ReservoirError, match=r"backbone\.block2\.1\.attn\.k?[vq]\.weight"):
        convert_nvlabs(weights)


def test_the_imagenet_classifier_is_dropped():
    weights = {**nvlabs.random_weights(nvlabs.TINY), "backbone.head.weight": torch.zeros(1000, 64)}
    assert "backbone.head.weight" in convert_nvlabs(weights).dropped


def test_layouts_are_told_apart(tiny_model):
    weights = nvlabs.random_weights(nvlabs.TINY)
    assert detect_layout(weights) == "nvlabs"
    assert detect_layout(convert_nvlabs(weights).weights) == "mmseg0"
    assert detect_layout(tiny_model.state_dict()) == "mmseg0"
    for backbone in (
        {n.removeprefix("backbone.") for n in weights if n.startswith("backbone.")},
        {n for n in weights if n.startswith("backbone.")},
        set(tiny_model.backbone.state_dict()),
    ):
        with pytest.raises(ReservoirError, match="a backbone alone"):
            detect_layout(backbone)
    with pytest.raises(ReservoirError, match=r"of no SegFormer.*called layer1\.weight, \.\.\."):
        detect_layout(["layer1.weight"])


def test_weights_of_any_wrapping():
    tensor = torch.zeros(1)
    assert weights_of({"a": tensor}) == {"a": tensor}
    assert weights_of({"state_dict": {"module.a": tensor}, "meta": {}}) == {"a": tensor}
    with pytest.raises(ReservoirError, match="the checkpoint holds no weights"):
        weights_of({"epoch": 3})


def test_class_names_and_colours_get_mmengines_keys():
    old = {"meta": {"CLASSES": ("road", "sky"), "PALETTE": [(1, 2, 3), (4, 5, 6)], "iter": 160000}}
    assert dataset_meta(old) == {"classes": ["road", "sky"], "palette": [[1, 2, 3], [4, 5, 6]]}
    assert dataset_meta({"meta": {"dataset_meta": {"classes": ("road",)}}}) == {"classes": ["road"]}
    assert dataset_meta({"state_dict": {}}) == {}
