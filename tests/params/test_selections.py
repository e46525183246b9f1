import pytest
import torch
from norm_model import NormModel
from torch import nn

from mmseg_reservoir.becotta import inject, select_becotta
from mmseg_reservoir.becotta.store import save
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.becotta import Becotta
from mmseg_reservoir.params.base import ParamSpace
from mmseg_reservoir.params.selections import becotta_params, norm_affine


def test_selects_by_type_and_prefix_and_freezes_the_rest():
    model = NormModel()
    everything = norm_affine(model)
    assert list(everything) == [
        "backbone.1.weight",
        "backbone.1.bias",
        "backbone2.weight",
        "backbone2.bias",
        "head.0.weight",
        "head.0.bias",
    ]
    assert list(norm_affine(model, types=("BatchNorm",))) == ["head.0.weight", "head.0.bias"]
    selected = norm_affine(model, under="backbone")  # not backbone2
    space = ParamSpace(model, selected)
    assert space.names == ["backbone.1.weight", "backbone.1.bias"]
    assert len(space) == 12
    assert [n for n, p in model.named_parameters() if p.requires_grad] == space.names


def test_modules_can_be_left_out_by_whole_names():
    wrapped = nn.ModuleDict({"net": NormModel()})
    left = norm_affine(wrapped, skip=("backbone", "head.0"))
    assert list(left) == ["net.backbone2.weight", "net.backbone2.bias"]
    assert len(norm_affine(wrapped, skip=("back", "ea", "1.weight"))) == 6


def test_nothing_to_adapt_is_an_error_that_names_the_children():
    with pytest.raises(ReservoirError, match=r"below 'encoder'.*backbone, backbone2, head"):
        norm_affine(NormModel(), under="encoder")


def test_becotta_injects_the_contents_of_a_file(model, images, tmp_path):
    becotta = inject(model, "M", domains=["clear", "fog"])
    becotta.mixtures[3].experts.up_bias.data += 1
    save(tmp_path / "b.safetensors", becotta)
    with torch.no_grad():
        expected = model(images)
        selected = becotta_params(model, weights=tmp_path / "b.safetensors", blend=True)
        assert model.becotta is not becotta
        assert model.becotta.blend
        assert model.becotta.domains == ("clear", "fog")
        assert list(selected) == list(select_becotta(model))
        becotta_params(model, weights=tmp_path / "b.safetensors")
        assert torch.equal(model(images), expected)


def test_becotta_without_a_file_is_the_identity_with_one_gate(model, images):
    with torch.no_grad():
        expected = model(images)
        selected = becotta_params(model)
        assert torch.equal(model(images), expected)
    assert len(model.becotta.domains) == 1
    assert len(selected) == 5 * 2


def test_the_method_becotta_adapts_experts_and_gates_of_a_segformer_and_nothing_else(model, images):
    space = ParamSpace(model, becotta_params(model, "M"))
    model.becotta.mixtures[7].experts.up_bias.data.normal_()
    method = Becotta(
        model, space, lambda p: torch.optim.Adam(p, lr=1e-2), margin=2.0, confidence=0.0
    )
    fixed = {k: v.clone() for k, v in model.state_dict().items() if k not in space.names}
    for _ in range(2):
        method.adapt(images)
    assert method.counts["updates"] == 2
    changed = (space.values != method.source).float()
    moved = {
        name for name, part in zip(space.names, space.split(changed), strict=True) if part.any()
    }
    assert {name.split(".", 3)[3] for name in moved} >= {"gates.weight", "experts.up_weight"}
    state = model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in fixed.items())
