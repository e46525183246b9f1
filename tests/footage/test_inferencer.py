import copy
import os
import resource
import sys
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmseg.registry import MODELS
from PIL import Image
from plan_count import count_plans
from stream_run import TINY, run
from threads import call_from_threads, record_order

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage import ReservoirInferencer
from mmseg_reservoir.footage.frame_source import InputFrame
from mmseg_reservoir.io.files import shipped
from mmseg_reservoir.style import StyleEncoder

WEIGHTS = shipped("checkpoints/segformer_tiny_minicity.safetensors")
TENT = "minicity/segformer-tiny_tent"


def source(minicity):
    return dict(data_root=str(minicity / "rgb_anon/clear/train"), img_suffix="_rgb_anon.png")


def easy(tmp_path):
    """A reservoir that opens experts easily."""
    return dict(
        preset="published",
        style=dict(weights="seeded"),
        calibration=dict(cache=str(tmp_path / "cache")),
        router=dict(quantile=0.5),
    )


def make(minicity, tmp_path, **options):
    options = {"reservoir": easy(tmp_path), "source_images": source(minicity), **options}
    return ReservoirInferencer(TENT, **options)


def experts(inferencer):
    return inferencer.model.pipeline.reservoir.experts.clone()


def test_the_same_labels_as_a_test_run(minicity, tmp_path):
    # Three frames of a condition are too few for a domain.
    learns = {"reservoir.pipeline.unfit": "learn", "reservoir.pipeline.source": "adapt"}
    options = [f"reservoir.calibration.cache={tmp_path / 'cache'}", "test_cfg.rounds=1"]
    options += [f"{name}={value}" for name, value in learns.items()]
    flags = [WEIGHTS, f"--show-dir={tmp_path / 'show'}", "--show-frames=all"]
    results = run("segformer-tiny_tent_robust", minicity, tmp_path / "w", *options, flags=flags)
    inferencer = ReservoirInferencer(
        f"{TENT}_robust",
        source_images={**source(minicity), "num_images": 400},
        cfg_options={"reservoir.calibration.cache": str(tmp_path / "cache"), **learns},
    )
    folders = [minicity / "rgb_anon" / name / "train" for name in ("fog", "night")]
    frames = [frame for folder in folders for frame in inferencer(folder)]
    assert [frame.expert for frame in frames] == [route["expert"] for route in results["routes"]]
    for frame, route in zip(frames, results["routes"], strict=True):
        assert Path(route["image"]).stem == Path(frame.name).name
        (shown,) = (tmp_path / "show").rglob(f"{Path(frame.name).name}_labelTrainIds.png")
        label = cv2.imread(str(shown), cv2.IMREAD_GRAYSCALE)
        np.testing.assert_array_equal(frame.labels, label)
        assert frame.labels.dtype == np.uint8
        assert frame.confidence.shape == (128, 256)
        assert 1 / 19 <= frame.confidence.min() < frame.confidence.max() <= 1
        assert frame.weight == pytest.approx(route["weight"])
    assert inferencer.model.pipeline.method.counts["updates"] == 6


def test_a_saved_reservoir_goes_on_and_is_frozen_or_not(minicity, tmp_path):
    first = make(minicity, tmp_path)
    frames = list(first(minicity / "rgb_anon"))
    assert frames[-1].k == 1 + sum(frame.opened for frame in frames) > 1
    folder = first.save(tmp_path / "saved")
    before = experts(first)

    again = ReservoirInferencer(TENT, start_from=folder, reservoir=easy(tmp_path / "other"))
    assert torch.equal(experts(again), before)
    night = minicity / "rgb_anon" / "night"
    assert next(again(night)).k == frames[-1].k
    assert not torch.equal(experts(again), before)

    again.load(folder).freeze()
    assert torch.equal(experts(again), before)
    labels = [frame.labels for frame in again(night)]
    assert torch.equal(experts(again), before)
    still = ReservoirInferencer(TENT, start_from=folder, adapt=False, reservoir=easy(tmp_path))
    for one, other in zip(labels, still(night), strict=True):
        np.testing.assert_array_equal(one, other.labels)
    again.freeze(False)
    list(again(night))
    assert not torch.equal(experts(again), before)


def test_pil_images_and_tensors_are_segmented_as_files_are(minicity):
    inferencer = ReservoirInferencer(TENT, adapt=False)
    file = next(minicity.glob("rgb_anon/fog/train/*/*.png"))
    (wanted,) = inferencer(file)
    image = Image.open(file)
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    for frames in (
        image,
        [image],
        iter([image]),
        tensor,
        tensor[None] / 255,
        (tensor for _ in "a"),
    ):
        (frame,) = inferencer(frames)
        np.testing.assert_array_equal(frame.labels, wanted.labels)


def test_without_adaptation_it_is_the_model_alone(minicity):
    inferencer = ReservoirInferencer(TENT, adapt=False)
    images = [cv2.imread(str(p)) for p in sorted(minicity.glob("rgb_anon/fog/train/*/*.png"))]
    first = [frame.labels for frame in inferencer(images)]
    (again,) = inferencer(images[0])
    np.testing.assert_array_equal(again.labels, first[0])
    assert (again.k, again.expert, again.opened) == (1, 0, False)
    assert inferencer.model.pipeline.method.counts["updates"] == 0
    assert not inferencer.has_reservoir
    with pytest.raises(ReservoirError, match="has no reservoir that could be saved"):
        inferencer.save("anywhere")


def test_entropies_that_nobody_reads_are_not_computed(minicity, monkeypatch):
    def fail(logits):
        raise AssertionError("no frame result has it")

    for name in ("entropy", "marginal_entropy"):
        monkeypatch.setattr(f"mmseg_reservoir.core.outcome.{name}", fail)
    image = next(minicity.glob("rgb_anon/fog/train/*/*.png"))
    (frame,) = ReservoirInferencer(TENT, reservoir=None)(image)
    assert frame.labels.shape == (128, 256)


def test_sliding_windows_and_another_size(minicity):
    slide = {"model.test_cfg": dict(mode="slide", crop_size=(64, 64), stride=(64, 64))}
    image = next(minicity.glob("rgb_anon/fog/train/*/*.png"))
    (whole,) = ReservoirInferencer(TENT, adapt=False)(image)
    (small,) = ReservoirInferencer(TENT, adapt=False, size=(128, 64))(image)
    plain = dict(reservoir=None, cfg_options=slide)
    (windows,) = ReservoirInferencer(TENT, **plain)(image)
    for frame in (small, windows):
        assert frame.labels.shape == whole.labels.shape == (128, 256)
        assert not np.array_equal(frame.labels, whole.labels)
        assert (frame.labels == whole.labels).mean() > 0.5


def test_frames_far_larger_than_the_training_images_are_reported_once(caplog):
    small = {"model.data_preprocessor.size": (32, 64)}
    slide = {"model.test_cfg": dict(mode="slide", crop_size=(32, 64), stride=(32, 64))}

    def display_path(height, width, options=small, **more):
        caplog.clear()
        inferencer = ReservoirInferencer(TENT, adapt=False, cfg_options=options, **more)
        list(inferencer([np.zeros((height, width, 3), np.uint8)] * 2))
        return [text for text in caplog.messages if "--size" in text]

    (text,) = display_path(90, 160)
    assert "reach the model as 160x90, 7 times the pixels of the 64x32 that it was trained" in text
    assert text.endswith("give size=(64, 36) (--size 64x36)")
    assert not display_path(90, 160, size=(64, 36))
    assert not display_path(90, 160, size=(160, 90))  # the user's choice
    assert not display_path(64, 128)
    assert not display_path(90, 160, small | slide)


def model_alone(**head):
    """A config that says nothing of data and adaptation."""
    model = Config.fromfile(TINY / "segformer-tiny_tent.py").model.to_dict()
    model["decode_head"] |= head
    return Config(dict(model=model))


def test_a_config_that_does_not_adapt_gets_tent_and_the_robust_reservoir(minicity, caplog):
    inferencer = ReservoirInferencer(model_alone(), WEIGHTS, source_images=source(minicity))
    options = inferencer.plan.options
    assert options["method"]["type"] == "tent"
    assert options["method"]["optimizer"].items() >= {"type": "Adam", "lr": 7.5e-6}.items()
    assert options["reservoir"]["guard"]["type"] == "labels"
    assert inferencer.dataset_meta["classes"][:2] == ("road", "sidewalk")
    assert "taken for Cityscapes'" in caplog.text


def test_models_of_cityscapes_need_no_source_images(minicity, monkeypatch):
    plans = count_plans(monkeypatch)
    inferencer = ReservoirInferencer(model_alone(), WEIGHTS)
    assert len(plans) == 1
    assert inferencer.plan.options["reservoir"]["style"]["size"] == [128, 256]
    large = np.random.default_rng(0).integers(0, 256, (256, 512, 3)).astype(np.uint8)
    (frame,) = inferencer(large)
    assert frame.labels.shape == (256, 512)
    small = np.ascontiguousarray(large[:64, :128])
    with pytest.raises(
        ReservoirError, match=r"frames of 128x64 are smaller than 256x128.*--source"
    ):
        next(iter(ReservoirInferencer(model_alone(), WEIGHTS)(small)))


def test_other_classes_ask_for_source_images(tmp_path, tiny_model):
    cfg = model_alone(num_classes=5)
    state = {
        name: tensor[:5] if "conv_seg" in name else tensor
        for name, tensor in tiny_model.state_dict().items()
    }
    torch.save({"state_dict": state}, tmp_path / "five.pth")
    with pytest.raises(ReservoirError, match=r"5 classes that are not Cityscapes'.*source_images="):
        ReservoirInferencer(cfg, tmp_path / "five.pth")
    alone = ReservoirInferencer(cfg, tmp_path / "five.pth", adapt=False)
    assert len(alone.dataset_meta["palette"]) == len(alone.dataset_meta["classes"]) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(reservior="robust"), r"no option 'reservior' \(did you mean 'reservoir'\?\)"),
        (dict(reservoir=dict(preset="robus")), "unknown preset 'robus'"),
        (dict(method="tnt"), "unknown adaptation method 'tnt'"),
        (dict(cfg_options={"resrvoir.k_max": 3}), "no 'resrvoir'"),
        (dict(size=(0, 4)), r"size must be \(width, height\)"),
        (dict(weights="nowhere.pth"), "there is no checkpoint file nowhere.pth"),
    ],
)
def test_mistakes_are_explained(options, message):
    with pytest.raises(ReservoirError, match=message):
        ReservoirInferencer(TENT, **options)


def test_a_model_without_logits_is_refused_before_it_is_calibrated(minicity, tmp_path, monkeypatch):
    cfg = model_alone()
    points = dict(type="PointHead", in_channels=[32], in_index=[0], channels=8, num_classes=19)
    points |= dict(norm_cfg=None, align_corners=False)
    cfg.model.decode_head = [cfg.model.decode_head, points]
    cfg.model.update(type="CascadeEncoderDecoder", num_stages=2)
    torch.save(MODELS.build(copy.deepcopy(cfg.model)).state_dict(), tmp_path / "weights.pth")
    styles = []
    monkeypatch.setattr(StyleEncoder, "forward", lambda self, images: styles.append(images))
    with pytest.raises(ReservoirError, match="CascadeEncoderDecoder, cannot be run for"):
        ReservoirInferencer(cfg, tmp_path / "weights.pth", source_images=source(minicity))
    assert styles == []


@pytest.fixture(scope="module")
def pair(minicity, tmp_path_factory):
    """Two equal inferencers that see little, and frames of two styles."""
    folder = tmp_path_factory.mktemp("pair")
    pair = [make(minicity, folder, size=(64, 32)) for _ in range(2)]
    draw = np.random.default_rng(0)
    pictures = [draw.integers(0, 250 if i % 2 else 40, (32, 64, 3), np.uint8) for i in range(16)]
    frames = [InputFrame(str(i), i, picture) for i, picture in enumerate(pictures)]
    return *pair, frames


@pytest.mark.parametrize("frozen", [False, True])
def test_threads_get_the_answers_of_a_serial_run(pair, frozen):
    model, serial, frames = pair
    for one in (model, serial):
        one.freeze(frozen)
        one.segment(frames[0])
    order = record_order(model.model.pipeline, "infer" if frozen else "step")
    answers = call_from_threads(model.segment, frames)
    inputs = [serial.model.data_preprocessor(serial._transformed(f), False) for f in frames]
    assert len(order) == len(frames)
    for tensor in order:
        (index,) = [i for i, one in enumerate(inputs) if torch.equal(one["inputs"], tensor)]
        expected = serial.segment(frames[index])
        assert (answers[index].expert, answers[index].k) == (expected.expert, expected.k)
        np.testing.assert_array_equal(answers[index].labels, expected.labels)
        np.testing.assert_array_equal(answers[index].confidence, expected.confidence)
    assert torch.equal(experts(model), experts(serial))


def test_what_changes_or_saves_it_waits_for_the_frame_under_way(pair, tmp_path):
    model, _, frames = pair
    folder = model.save(tmp_path / "saved")
    calls = [model.freeze, lambda: model.reset(0), lambda: model.save(folder)]
    calls += [lambda: model.load(folder), lambda: model.segment(frames[0])]
    for call in calls:
        thread = threading.Thread(target=call)
        with model.model.pipeline.lock:
            thread.start()
            thread.join(0.1)
            assert thread.is_alive()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.slow
def test_memory_is_flat_over_200_frames(minicity, tmp_path):
    inferencer = make(minicity, tmp_path)
    images = [cv2.imread(str(p)) for p in sorted(minicity.glob("rgb_anon/*/train/*/*.png"))]
    stream = inferencer([images[i % len(images)] for i in range(200)])
    peaks = []
    for number, _ in enumerate(stream):
        if number in (99, 199):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # kilobytes
    assert peaks[1] < peaks[0] + 10_000


REAL = os.environ.get("RESERVOIR_REAL")


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="RESERVOIR_REAL names no folder with ESPNetv2 and ACDC frames")
def test_real_frames_get_the_labels_of_a_test_run(tmp_path, monkeypatch):
    """The folder has ``espnetv2.py``, its weights, ``acdc`` and ``cityscapes`` (clear images)."""
    real = Path(REAL)
    monkeypatch.syspath_prepend(str(real))
    sys.modules.pop("espnetv2", None)
    weights = next(real.glob("espnetv2*.safetensors"))
    config = tmp_path / "espnet.py"
    config.write_text(
        f"_base_ = [{str(TINY.parent / '_base_' / 'runtime.py')!r}]\n"
        "custom_imports = dict(imports=['mmseg_reservoir.seg', 'espnetv2'])\n"
        "model = dict(type='EncoderDecoder', backbone=dict(type='ESPNetv2'),\n"
        "    decode_head=dict(type='PassHead'), test_cfg=dict(mode='whole'),\n"
        "    data_preprocessor=dict(type='SegDataPreProcessor', bgr_to_rgb=True, pad_val=0,\n"
        "        mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], seg_pad_val=255))\n"
        "method = dict(type='tent', optimizer=dict(type='Adam', lr=1e-4))\n"
        "statistics = 0.03\n"
        "reservoir = dict(preset='robust')\n"
        f"source_images = dict(data_root={str(real / 'cityscapes')!r}, num_images=20)\n"
        "pipeline = [dict(type='LoadImageFromFile'),\n"
        "    dict(type='Resize', scale=(512, 256), keep_ratio=False),\n"
        "    dict(type='LoadAnnotations'), dict(type='PackSegInputs')]\n"
        "test_dataloader = dict(batch_size=1, num_workers=0,\n"
        "    sampler=dict(type='DefaultSampler', shuffle=False),\n"
        f"    dataset=dict(type='ACDCDataset', data_root={str(real / 'acdc')!r},\n"
        "        condition='fog', split='val', pipeline=pipeline))\n"
        "test_evaluator = dict(type='IoUMetric')\n"
        "test_cfg = dict(type='RecurringTestLoop', rounds=1,\n"
        "    domains=['fog', 'night', 'rain', 'snow'])\n"
    )
    show = [f"--show-dir={tmp_path / 'show'}", "--show-frames=all"]
    assert test_tta.main([str(config), str(weights), f"--work-dir={tmp_path / 'w'}", *show]) == 0
    inferencer = ReservoirInferencer(config, weights)
    for condition in ("fog", "night", "rain", "snow"):
        for frame in inferencer(real / "acdc" / "rgb_anon" / condition / "val"):
            name = f"{Path(frame.name).name}_labelTrainIds.png"
            (shown,) = (tmp_path / "show" / "round1" / condition).glob(name)
            np.testing.assert_array_equal(
                frame.labels, cv2.imread(str(shown), cv2.IMREAD_GRAYSCALE)
            )
