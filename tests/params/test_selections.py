import pytest
from norm_model import NormModel
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params.base import ParamSpace
from mmseg_reservoir.params.selections import norm_affine


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
