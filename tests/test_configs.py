"""Every config of the repository loads, and says what it should."""

from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.registry import init_default_scope
from safetensors.torch import load_file

import mmseg_reservoir.seg  # noqa: F401 (registers what the configs name)
from mmseg_reservoir.config.presets import with_preset
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.seg.hooks.adaptation_hook import make_plan

CONFIGS = Path(__file__).parents[1] / "configs"
LEAVES = sorted(
    path
    for folder in ("acdc", "minicity")
    for path in (CONFIGS / folder).glob("*.py")
    if not path.stem.endswith(("_train", "_warmup"))
)


@pytest.mark.parametrize("path", LEAVES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_leaf_is_complete_and_short(path):
    cfg = Config.fromfile(path)
    assert cfg.test_cfg.type == "RecurringTestLoop"
    assert cfg.test_cfg.domains == ["fog", "night", "rain", "snow"]
    assert cfg.test_cfg.rounds == 10
    assert cfg.test_dataloader.batch_size == 1
    assert [hook.type for hook in cfg.custom_hooks] == [
        "StrictCheckpointHook",
        "AdaptationHook",
        "ProgressHook",
        "ResultsHook",
        "ResumeHook",
    ]
    make_plan(cfg, seed=0)
    named = [word for word in ("reservoir", "robust", "oracle", "align") if word in path.stem]
    assert bool(cfg.get("reservoir")) == bool(named)
    if named in (["robust"], ["align"]):
        assert cfg.reservoir.preset == "robust"
    assert len(path.read_text().splitlines()) < 25


def test_acdc_is_the_papers_protocol():
    cfg = Config.fromfile(CONFIGS / "acdc/segformer-b5_tent_reservoir.py")
    assert cfg.method == dict(type="tent", optimizer=dict(type="Adam", lr=7.5e-6))
    assert cfg.test_dataloader.dataset.type == "ACDCDataset"
    assert cfg.test_pipeline[1] == dict(type="Resize", scale=(960, 540), keep_ratio=True)
    assert cfg.model.test_cfg.mode == "whole"
    assert cfg.reservoir.preset == "stream"
    assert cfg.reservoir.style.weights == "torchvision"
    assert cfg.source_images.num_images == 2000
    cfg.reservoir.preset = "published_code"
    published = with_preset(cfg.reservoir)
    assert published["k_max"] == 16
    assert published["memory"]["capacity"] == 1024
    assert published["router"]["quantile"] == 0.999
    assert published["clustering"]["lr"] == 1e-4
    assert published["style"]["statistic"] == "logvar"


@pytest.mark.parametrize("data", ["acdc/segformer-b5", "minicity/segformer-tiny"])
def test_cotta_is_the_original_protocol(data):
    cfg = Config.fromfile(CONFIGS / f"{data}_cotta.py")
    assert (cfg.method.momentum, cfg.method.confidence, cfg.method.restore) == (0.999, 0.69, 0)
    assert cfg.params == dict(type="norm_affine", under="backbone")
    full = Config.fromfile(CONFIGS / f"{data}_cotta_full.py")
    assert (full.method.restore, full.params) == (0.01, dict(type="all", under=""))
    if data.startswith("acdc"):
        assert cfg.method.optimizer == dict(type="Adam", lr=7.5e-6)
        assert cfg.method.ratios == [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
        assert cfg.method.flip
        assert cfg.method.label_scale == 2  # 960 x 540 in, labels of 1920 x 1080


def test_b5_is_mmsegs_own_up_to_its_weights_and_inference():
    ours = Config.fromfile(CONFIGS / "acdc/segformer-b5-mmseg_tent.py").model.to_dict()
    name = "mmseg::segformer/segformer_mit-b5_8xb1-160k_cityscapes-1024x1024.py"
    theirs = Config.fromstring(f"_base_ = {name!r}", ".py").model.to_dict()
    for model in (ours, theirs):
        model["backbone"].pop("init_cfg", None)
        model["data_preprocessor"].pop("size", None)
        model.pop("test_cfg")
    assert ours == theirs


def test_b5_adapts_the_norms_of_its_backbone():
    from mmseg.registry import MODELS

    init_default_scope("mmseg")
    cfg = Config.fromfile(CONFIGS / "acdc/segformer-b5_tent.py")
    model = MODELS.build(cfg.model)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(84.6e6, rel=0.01)
    selected = norm_affine(model, under="backbone")
    assert len(selected) == 2 * 161
    assert sum(p.numel() for p in selected.values()) == 92_800


def test_published_weights_fit_the_tiny_model():
    from mmseg.registry import MODELS

    init_default_scope("mmseg")
    cfg = Config.fromfile(CONFIGS / "minicity/segformer-tiny_tent.py")
    weights = Path(cfg.load_from)
    assert weights.stat().st_size < 10e6
    model = MODELS.build(cfg.model)
    model.load_state_dict(load_file(weights))
    assert len(ParamSpace(model, norm_affine(model, under="backbone"))) == 4_416
