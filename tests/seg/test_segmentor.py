import copy
from functools import partial

import pytest
import torch
from mmseg.structures import SegDataSample

from mmseg_reservoir.core import ParamSpace, SingleModelPipeline, norm_affine
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Cotta, Source, Tent
from mmseg_reservoir.seg import AdaptiveSegmentor
from mmseg_reservoir.seg.segmentor import segmentation_forward


@pytest.fixture
def data():
    torch.manual_seed(1)
    image = torch.randint(0, 256, (3, 64, 96), dtype=torch.uint8)
    sample = SegDataSample(
        metainfo=dict(ori_shape=(128, 192), img_shape=(64, 96), img_path="image.png")
    )
    return {"inputs": [image], "data_samples": [sample]}


def adaptive(model, method=Source, **options):
    model = copy.deepcopy(model)
    space = ParamSpace(model, norm_affine(model, under="backbone"))
    return AdaptiveSegmentor(
        model, SingleModelPipeline(method(segmentation_forward(model), space, **options))
    )


def test_without_adaptation_it_equals_mmsegs_own_prediction(tiny_model, data):
    with torch.no_grad():
        expected = tiny_model.test_step(copy.deepcopy(data))[0]
    sample = adaptive(tiny_model).test_step(data)[0]
    assert sample.pred_sem_seg.data.shape == (1, 128, 192)
    assert torch.equal(sample.seg_logits.data, expected.seg_logits.data)
    assert torch.equal(sample.pred_sem_seg.data, expected.pred_sem_seg.data)


def test_adapts_under_no_grad_and_tells_the_route(tiny_model, data):
    model = adaptive(tiny_model, Tent, optimizer=partial(torch.optim.Adam, lr=1e-2))
    source = model.source_label(copy.deepcopy(data))
    with torch.no_grad():
        first = model.test_step(copy.deepcopy(data))[0]
        second = model.test_step(copy.deepcopy(data))[0]
    assert torch.equal(first.pred_sem_seg.data[0], source)
    assert not torch.equal(first.seg_logits.data, second.seg_logits.data)
    assert torch.equal(model.source_label(copy.deepcopy(data)), source)
    assert (first.expert, first.k, first.opened, first.route_weight) == (0, 1, False, 1.0)
    assert first.adaptation_seconds > 0


def test_entropies_are_those_of_the_prediction(tiny_model, data):
    model = adaptive(tiny_model)
    sample = model.test_step(copy.deepcopy(data))[0]
    inputs = model.data_preprocessor(data, False)["inputs"]
    with torch.no_grad():
        p = model.segmentor(inputs, mode="tensor").softmax(dim=1)[0].flatten(1).double()
    mean = p.mean(dim=1)
    assert sample.entropy == pytest.approx(float(-(p * p.log()).sum(dim=0).mean()), rel=1e-5)
    assert sample.marginal_entropy == pytest.approx(float(-(mean * mean.log()).sum()), rel=1e-5)


def test_entropies_of_a_broken_prediction_are_none(tiny_model, data):
    model = adaptive(tiny_model)
    model.segmentor.decode_head.conv_seg.bias.data[0] = float("nan")
    sample = model.test_step(data)[0]
    assert (sample.entropy, sample.marginal_entropy) == (None, None)


def test_only_the_selected_parameters_change(tiny_model, data):
    model = adaptive(tiny_model, Tent, optimizer=partial(torch.optim.Adam, lr=1e-2))
    model.test_step(data)
    before = tiny_model.state_dict()
    changed = {n for n, v in model.segmentor.state_dict().items() if not torch.equal(v, before[n])}
    assert changed
    assert changed <= set(model.pipeline.method.space.names)
    assert all(name.startswith("backbone.") for name in changed)


def test_a_prediction_at_the_size_of_the_labels_is_not_resized(tiny_model, data):
    model = adaptive(
        tiny_model, Cotta, optimizer=partial(torch.optim.Adam, lr=1e-2), ratios=[1], label_scale=2
    )
    inputs = model.data_preprocessor(copy.deepcopy(data), False)["inputs"]
    logits = model.pipeline.predict_source(inputs)
    assert logits.shape[-2:] == (128, 192)
    sample = model.test_step(data)[0]
    assert torch.equal(sample.seg_logits.data, logits[0])


def test_nan_image_is_named(tiny_model, data):
    data["inputs"] = [data["inputs"][0].float() * float("nan")]
    with pytest.raises(ReservoirError, match=r"image.png holds NaN"):
        adaptive(tiny_model).test_step(data)


def test_slide_inference_and_single_channels_are_explained(tiny_model):
    model = copy.deepcopy(tiny_model)
    model.test_cfg = dict(mode="slide")
    with pytest.raises(ReservoirError, match=r"test_cfg.mode is 'slide'"):
        segmentation_forward(model)
    model.test_cfg, model.out_channels = dict(mode="whole"), 1
    with pytest.raises(ReservoirError, match="one output channel"):
        segmentation_forward(model)
