import copy
from functools import partial

import pytest
import torch
from host_reads import HostReads
from mmengine.config import ConfigDict
from mmengine.registry import MODELS
from mmseg.structures import SegDataSample

from mmseg_reservoir.config.builder import SEGMENTATION, RunBuilder, TaskContext
from mmseg_reservoir.core import ImageRange, SingleModelPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Cotta, Source, Tent
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.seg import AdaptiveSegmentor
from mmseg_reservoir.seg.forward import segmentation_forward
from mmseg_reservoir.seg.frame_clock import FrameClock


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
    return AdaptiveSegmentor(model, pipeline_over(model, method, **options))


def pipeline_over(model, method=Source, **options):
    space = ParamSpace(model, norm_affine(model, under="backbone"))
    return SingleModelPipeline(method(partial(segmentation_forward, model), space, **options))


def sliding(model):
    model = copy.deepcopy(model)
    model.test_cfg = ConfigDict(mode="slide", crop_size=(48, 48), stride=(32, 32))
    return model


def test_without_adaptation_it_equals_mmsegs_own_prediction(tiny_model, data):
    with torch.no_grad():
        expected = tiny_model.test_step(copy.deepcopy(data))[0]
    sample = adaptive(tiny_model).test_step(data)[0]
    assert sample.pred_sem_seg.data.shape == (1, 128, 192)
    assert torch.equal(sample.seg_logits.data, expected.seg_logits.data)
    assert torch.equal(sample.pred_sem_seg.data, expected.pred_sem_seg.data)


@pytest.mark.parametrize("pad", [{}, dict(size_divisor=40)], ids=["as it is", "padded"])
@pytest.mark.parametrize("ori_shape", [(128, 192), (64, 96), (80, 120)])
@pytest.mark.parametrize("prepare", [copy.deepcopy, sliding], ids=["whole", "slide"])
def test_both_ways_of_inference_equal_mmsegs_own(tiny_model, data, prepare, ori_shape, pad):
    model = prepare(tiny_model)
    model.data_preprocessor.test_cfg = pad or None
    data["inputs"].append(data["inputs"][0].flip(-1))
    data["data_samples"] = [data["data_samples"][0].clone() for _ in range(2)]
    for sample in data["data_samples"]:
        sample.set_metainfo(dict(ori_shape=ori_shape))
    with torch.no_grad():
        expected = model.test_step(copy.deepcopy(data))
    for ours, theirs in zip(adaptive(model).test_step(data), expected, strict=True):
        assert ours.pred_sem_seg.data.shape == (1, *ori_shape)
        assert torch.allclose(ours.seg_logits.data, theirs.seg_logits.data, atol=1e-5)
        assert torch.equal(ours.pred_sem_seg.data, theirs.pred_sem_seg.data)


def test_the_windows_of_an_image_make_one_update(tiny_model, data):
    steps = []

    class Counted(torch.optim.SGD):
        def step(self, closure=None):
            steps.append(1)
            return super().step(closure)

    model = adaptive(sliding(tiny_model), Tent, optimizer=partial(Counted, lr=1e-2))
    first = model.test_step(copy.deepcopy(data))[0]
    second = model.test_step(data)[0]
    assert len(steps) == 2
    assert not torch.equal(first.seg_logits.data, second.seg_logits.data)


def test_views_smaller_than_a_window_can_be_averaged(tiny_model, data):
    options = dict(ratios=[0.5, 1], label_scale=2)
    model = adaptive(
        sliding(tiny_model), Cotta, optimizer=partial(torch.optim.Adam, lr=1e-2), **options
    )
    sample = model.test_step(data)[0]
    assert sample.pred_sem_seg.data.shape == (1, 128, 192)
    assert torch.isfinite(sample.seg_logits.data).all()


def test_adapts_under_no_grad_and_tells_the_route(tiny_model, data):
    model = adaptive(tiny_model, Tent, optimizer=partial(torch.optim.Adam, lr=1e-2))
    source = model.source_label(copy.deepcopy(data))
    with torch.no_grad():
        first = model.test_step(copy.deepcopy(data))[0]
        second = model.test_step(copy.deepcopy(data))[0]
    assert torch.equal(first.pred_sem_seg.data[0], source)
    assert not torch.equal(first.seg_logits.data, second.seg_logits.data)
    assert torch.equal(model.source_label(copy.deepcopy(data)), source)
    outcome = first.outcome
    assert (outcome.expert, outcome.k, outcome.opened, outcome.weight) == (0, 1, False, 1.0)
    assert outcome.seconds > 0


def test_entropies_are_those_of_the_prediction(tiny_model, data):
    model = adaptive(tiny_model)
    sample = model.test_step(copy.deepcopy(data))[0]
    inputs = model.data_preprocessor(data, False)["inputs"]
    with torch.no_grad():
        p = model.segmentor(inputs, mode="tensor").softmax(dim=1)[0].flatten(1).double()
    mean = p.mean(dim=1)
    ((uncertain, diverse),) = sample.outcome.entropies()
    assert uncertain == pytest.approx(float(-(p * p.log()).sum(dim=0).mean()), rel=1e-5)
    assert diverse == pytest.approx(float(-(mean * mean.log()).sum()), rel=1e-5)


def test_entropies_of_a_broken_prediction_are_none(tiny_model, data):
    model = adaptive(tiny_model)
    model.segmentor.decode_head.conv_seg.bias.data[0] = float("nan")
    sample = model.test_step(data)[0]
    assert sample.outcome.entropies() == [(None, None)]


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


def test_a_step_without_a_probe_reads_the_device_three_times(tiny_model, data):
    """For the style, the judgement of the update, and what a record needs of the frames."""
    model = copy.deepcopy(tiny_model)
    frames = [torch.randn(2, 3, 32, 64) for _ in range(12)]
    place = TaskContext(model, segmentation_forward, ImageRange("imagenet"), frames[:8])
    reservoir = dict(style=dict(weights="seeded"), pipeline=dict(source="adapt"))
    plan = RunBuilder(SEGMENTATION, "tent", reservoir=reservoir)
    pipeline = plan.assemble(place)
    plan.calibrate(pipeline, place)
    model = AdaptiveSegmentor(model, pipeline, batch_size=2)
    found = []
    for inputs in frames[8:]:
        samples = [data["data_samples"][0].clone() for _ in inputs]
        with HostReads([inputs, pipeline.source, *model.parameters(), *model.buffers()]) as reads:
            model(inputs, samples)[0].outcome.to_json(images=2)
        found.append(reads.found)
    assert pipeline.method.counts["updates"] > 2
    assert min(map(len, found)) == 3, found


def test_a_name_in_a_config_builds_it(tiny_model, data):
    model = copy.deepcopy(tiny_model)
    pipeline = pipeline_over(model)
    built = MODELS.build(
        dict(type="AdaptiveSegmentor", model=model, pipeline=pipeline, batch_size=2)
    )
    assert type(built) is AdaptiveSegmentor
    assert (built.segmentor, built.pipeline, built.batch_size) == (model, pipeline, 2)
    assert built.data_preprocessor is model.data_preprocessor
    assert built.test_step(data)[0].pred_sem_seg.data.shape == (1, 128, 192)


@pytest.mark.parametrize("make", [dict, ConfigDict])
def test_a_subclass_can_take_its_place(tiny_model, data, make):
    class NamingSegmentor(AdaptiveSegmentor):
        def __init__(self, *, owner, **options):
            super().__init__(**options)
            self.owner = owner

        def forward(self, inputs, data_samples, mode="predict"):
            samples = super().forward(inputs, data_samples, mode)
            for sample in samples:
                sample.set_metainfo(dict(owner=self.owner))
            return samples

    MODELS.register_module(module=NamingSegmentor)
    try:
        model = copy.deepcopy(tiny_model)
        pipeline = pipeline_over(model)
        options = make(type="NamingSegmentor", owner="me")
        built = MODELS.build({**options, "model": model, "pipeline": pipeline, "batch_size": 1})
    finally:
        MODELS.module_dict.pop("NamingSegmentor")
    assert (built.segmentor, built.pipeline) == (model, pipeline)
    assert built.test_step(data)[0].owner == "me"


def frames_of(data, count):
    """Frames of one stream, each another one."""
    frames = []
    for number in range(count):
        frame = copy.deepcopy(data)
        frame["inputs"][0] = frame["inputs"][0].roll(7 * number, dims=-1)
        frames.append(frame)
    return frames


def by_clock(model, frames, **options):
    """Let frames arrive; the samples that come out."""
    model.clock = FrameClock(**options)
    samples = []
    for frame in copy.deepcopy(frames):
        model.clock.arrive(1)
        samples += model.test_step(frame)
    return samples


def handled(samples):
    return [sample.outcome.handled for sample in samples]


TENT = dict(method=Tent, optimizer=partial(torch.optim.SGD, lr=1.0))


def test_a_clock_that_waits_changes_nothing(tiny_model, data):
    frames = frames_of(data, 3)
    plain, timed = adaptive(tiny_model, **TENT), adaptive(tiny_model, **TENT)
    expected = [plain.test_step(copy.deepcopy(frame))[0] for frame in frames]
    found = by_clock(timed, frames, frame_rate=10, step_seconds=0.1)
    assert handled(found) == ["adapted"] * 3
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.seg_logits.data, other.seg_logits.data)
    assert expected[0].outcome.handled is None


def test_missed_frames_are_answered_by_the_last_finished_model(tiny_model, data):
    frames = frames_of(data, 6)
    model = adaptive(tiny_model, **TENT)
    found = by_clock(model, frames, frame_rate=10, step_seconds=0.25)
    assert handled(found) == ["adapted", "answered", "answered"] * 2
    assert model.pipeline.method.counts["updates"] == 2
    # The first update is not finished when frames 1 and 2 arrive, the second one when 4 and 5 do.
    by_hand = adaptive(tiny_model, **TENT)
    expected = []
    for start in (0, 3):
        by_hand.frozen = True
        answers = [by_hand.test_step(copy.deepcopy(frame))[0] for frame in frames[start:][1:3]]
        by_hand.frozen = False
        expected += [by_hand.test_step(copy.deepcopy(frames[start]))[0], *answers]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.seg_logits.data, other.seg_logits.data)


def test_dropped_frames_repeat_the_last_finished_labels(tiny_model, data):
    frames = frames_of(data, 6)
    frames[4]["data_samples"][0].set_metainfo(dict(ori_shape=(64, 96)))
    model = adaptive(tiny_model, **TENT)
    found = by_clock(model, frames, frame_rate=10, step_seconds=0.25, missed="drop")
    labels = [sample.pred_sem_seg.data for sample in found]
    assert handled(found) == ["adapted", "dropped", "dropped"] * 2
    assert model.pipeline.method.counts["updates"] == 2
    assert (labels[1] == 255).all()  # nothing was finished yet
    assert torch.equal(labels[5], labels[0])  # frame 3 is not finished yet
    assert labels[5].dtype == labels[0].dtype
    assert torch.equal(labels[4], labels[0][:, ::2, ::2])  # a frame of another size
    assert found[5].outcome.expert == 0


def test_frames_of_a_frozen_model_are_missed_too(tiny_model, data):
    model = adaptive(tiny_model, **TENT)
    model.frozen = True
    costs = dict(predict=0.15, adapt=1.0)
    found = by_clock(model, frames_of(data, 4), frame_rate=10, step_seconds=costs)
    assert handled(found) == ["rested", "answered"] * 2


def test_costs_are_measured_at_the_first_frame(tiny_model, data):
    model, other = adaptive(tiny_model, **TENT), adaptive(tiny_model, **TENT)
    found = by_clock(model, frames_of(data, 1), frame_rate=1e-3)
    assert model.clock.step_seconds.keys() == {"predict", "adapt"}
    assert model.pipeline.method.counts["updates"] == 1
    expected = other.test_step(data)[0]
    assert torch.equal(found[0].seg_logits.data, expected.seg_logits.data)
