import copy
from functools import partial

import pytest
import torch
from mmengine.config import ConfigDict
from mmseg.registry import MODELS
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.forward import check_model, segmentation_forward

INPUTS = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))
WINDOWS = dict(mode="slide", crop_size=(48, 48), stride=(32, 24))


def with_test(model, **test_cfg):
    model = copy.deepcopy(model)
    model.test_cfg = ConfigDict(test_cfg)
    return model


def with_output(model, make, **test_cfg):
    """The model, with another output of its head."""
    model = with_test(model, **(test_cfg or {"mode": "whole"}))
    forward = model.decode_head.forward
    model.decode_head.forward = lambda features: make(forward(features))
    return model


def cascade(second):
    """A real cascade over the features of a small backbone."""
    part = dict(num_classes=5, norm_cfg=dict(type="BN"), align_corners=False)
    fcn = dict(part, type="FCNHead", in_channels=16, channels=8, in_index=1, num_convs=1)
    return MODELS.build(
        ConfigDict(
            type="CascadeEncoderDecoder",
            num_stages=2,
            backbone=dict(
                type="MixVisionTransformer",
                embed_dims=8,
                num_layers=[1, 1],
                num_heads=[1, 2],
                num_stages=2,
                patch_sizes=[7, 3],
                strides=[4, 2],
                sr_ratios=[4, 2],
                out_indices=(0, 1),
            ),
            decode_head=[fcn, dict(part, **second)],
            data_preprocessor=dict(type="SegDataPreProcessor"),
            test_cfg=dict(
                mode="whole", subdivision_steps=1, subdivision_num_points=8, scale_factor=2
            ),
        )
    )


def test_whole_images_give_the_logits_of_the_decode_head(tiny_model):
    with torch.no_grad():
        logits = segmentation_forward(tiny_model, INPUTS)
        assert torch.equal(logits, tiny_model(INPUTS, mode="tensor"))
    assert logits.shape == (2, 19, 16, 24)
    check_model(copy.deepcopy(tiny_model), INPUTS)


def test_windows_are_averaged_where_they_overlap(tiny_model):
    model = with_test(tiny_model, mode="slide", crop_size=(64, 64), stride=(64, 32))
    with torch.no_grad():
        logits = segmentation_forward(model, INPUTS)
        left, right = (
            nn.functional.interpolate(
                model(INPUTS[..., start : start + 64], mode="tensor"), (64, 64), mode="bilinear"
            )
            for start in (0, 32)
        )
    middle = (left[..., 32:] + right[..., :32]) / 2
    expected = torch.cat([left[..., :32], middle, right[..., 32:]], dim=-1)
    assert torch.allclose(logits, expected, atol=1e-6)
    check_model(model, INPUTS)


def test_images_of_a_batch_do_not_mix(tiny_model):
    model = with_test(tiny_model, **WINDOWS)
    with torch.no_grad():
        both = segmentation_forward(model, INPUTS)
        alone = [segmentation_forward(model, image[None]) for image in INPUTS]
    assert torch.allclose(both, torch.cat(alone), atol=1e-5)


def test_an_image_smaller_than_the_window_is_one_window(tiny_model):
    small = INPUTS[..., :32, :40]
    model = with_test(tiny_model, **WINDOWS)
    with torch.no_grad():
        logits = segmentation_forward(model, small)
        head = model(small, mode="tensor")
    expected = nn.functional.interpolate(head, (32, 40), mode="bilinear")
    assert torch.allclose(logits, expected, atol=1e-6)


def test_the_gradient_comes_from_all_windows(tiny_model):
    model = with_test(tiny_model, **WINDOWS)
    inputs = INPUTS.clone().requires_grad_()
    segmentation_forward(model, inputs).square().mean().backward()
    assert inputs.grad.abs().amax(dim=(0, 1)).gt(0).all()
    norms = [m.weight for m in model.backbone.modules() if isinstance(m, nn.LayerNorm)]
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in norms)


def test_the_gradient_is_that_of_the_averaged_map(tiny_model):
    model = with_test(tiny_model, **WINDOWS).double()
    weight = model.backbone.layers[0][1][0].norm1.weight

    def loss():
        return segmentation_forward(model, INPUTS.double()).softmax(dim=1).square().mean()

    (gradient,) = torch.autograd.grad(loss(), weight)
    with torch.no_grad():
        weight[3] += 1e-4
        above = loss()
        weight[3] -= 2e-4
        below = loss()
    assert float(gradient[3]) == pytest.approx(float(above - below) / 2e-4, rel=1e-3)


def test_a_copy_of_the_model_is_another_function(tiny_model):
    first = partial(segmentation_forward, copy.deepcopy(tiny_model))
    second = partial(segmentation_forward, copy.deepcopy(tiny_model))
    with torch.no_grad():
        before = second(INPUTS)
        first.args[0].decode_head.conv_seg.bias += 1
        assert torch.equal(second(INPUTS), before)
        assert torch.allclose(first(INPUTS), before + 1, atol=1e-5)


@pytest.mark.parametrize(
    ("test_cfg", "message"),
    [
        (dict(mode="tiles"), "mode is 'tiles': write 'whole', or 'slide'"),
        (dict(mode="slide"), "needs a crop_size=.* got None and None"),
        (dict(mode="slide", crop_size=48, stride=(8, 8)), "got 48 and"),
        (dict(mode="slide", crop_size=(48, 48), stride=(0, 8)), "needs a crop_size"),
        (dict(mode="slide", crop_size=(48, 48), stride=(32, 64)), "larger than its crop_size"),
    ],
)
def test_mistakes_in_test_cfg_are_explained(tiny_model, test_cfg, message):
    for run in (segmentation_forward, check_model):
        with pytest.raises(ReservoirError, match=message):
            run(with_test(tiny_model, **test_cfg), INPUTS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: (x, x), "a tuple of Tensor, Tensor.*Mask2Former.*choose a model"),
        (lambda x: ([x], [x]), "a tuple of list, list"),
        (lambda x: {"masks": x}, "a dict, no map"),
        (lambda x: x[0], r"a tensor of float32 and shape \(19, 16, 24\) for 2 images"),
        (lambda x: x.argmax(dim=1, keepdim=True), "a tensor of int64"),
        (lambda x: x[:1], "for 2 images"),
        (lambda x: x[:, :1], "1 output channel.*out_channels=2"),
    ],
)
def test_outputs_that_are_no_logits_are_refused(tiny_model, make, message):
    model = with_output(tiny_model, make)
    for run in (segmentation_forward, check_model):
        with pytest.raises(ReservoirError, match=message):
            run(model, INPUTS)


def test_windows_do_not_hide_a_head_of_masks(tiny_model):
    model = with_output(tiny_model, lambda x: (x, x), **WINDOWS)
    # Such heads make scores of their masks when they predict.
    model.decode_head.predict = lambda features, metas, cfg: torch.rand(
        2, 19, *metas[0]["img_shape"]
    )
    with pytest.raises(ReservoirError, match="Mask2Former"):
        check_model(model, INPUTS)


def test_a_cascade_is_accepted_if_it_gives_logits():
    ocr = dict(type="OCRHead", in_channels=16, channels=8, ocr_channels=4, in_index=1)
    model = cascade(ocr)
    check_model(model, INPUTS)
    assert segmentation_forward(model, INPUTS).shape == (2, 5, 8, 12)
    model.test_cfg.update(WINDOWS)
    check_model(model, INPUTS)
    assert segmentation_forward(model, INPUTS).shape == (2, 5, 64, 96)


def test_a_cascade_that_runs_only_in_mmsegs_own_way_is_refused():
    points = dict(type="PointHead", in_channels=[8], in_index=[0], channels=8, norm_cfg=None)
    model = cascade(points)
    with pytest.raises(ReservoirError, match=r"CascadeEncoderDecoder, cannot be run.*TypeError"):
        check_model(model, INPUTS)


def test_a_model_without_the_parts_is_refused_by_their_names(tiny_model):
    with pytest.raises(ReservoirError, match="Linear, has no test_cfg, decode_head, data_prep"):
        check_model(nn.Linear(3, 3), INPUTS)
    model = copy.deepcopy(tiny_model)
    model.test_cfg = None
    with pytest.raises(ReservoirError, match="EncoderDecoder, has no test_cfg: "):
        check_model(model, INPUTS)


def test_a_model_of_another_class_with_the_parts_is_accepted(tiny_model):
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.decode_head = nn.Conv2d(3, 4, 1)
            self.data_preprocessor = nn.Identity()
            self.test_cfg = {"mode": "whole"}

        def forward(self, inputs, data_samples=None, mode="tensor"):
            return self.decode_head(inputs)

        def postprocess_result(self, logits, data_samples):
            return data_samples

    model = Other()
    check_model(model, INPUTS)
    assert not model.training
    model.test_cfg = dict(WINDOWS)
    with pytest.raises(ReservoirError, match="slide_inference"):
        check_model(model, INPUTS)


def test_the_check_keeps_no_graph_and_changes_nothing(tiny_model):
    model = copy.deepcopy(tiny_model).train()
    check_model(model, INPUTS)
    assert not model.training
    before = tiny_model.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_images_that_are_too_small_are_refused(tiny_model):
    for run in (segmentation_forward, check_model):
        with pytest.raises(ReservoirError, match="images of 1x1 pixels are too small for Encoder"):
            run(tiny_model, INPUTS[..., :1, :1])
