import json
from functools import partial

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmengine.runner import Runner
from plan_count import count_plans
from stream_run import SHORT, TINY, data_options, run, seeded_reservoir

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.methods import AdaptationMethod, Tent
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.registry import register, table
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.seg import AdaptationHook, AdaptiveSegmentor
from mmseg_reservoir.seg.forward import segmentation_forward
from mmseg_reservoir.style import Calibration, StyleEncoder

WEIGHTS = TINY.parents[1] / "checkpoints" / "segformer_tiny_minicity.safetensors"


@pytest.fixture
def toy():
    @register("method", "toy")
    class Sharpen(AdaptationMethod):
        """Cross-entropy with the model's own hard labels."""

        def loss(self, inputs):
            logits = self.forward(inputs)
            return logits, torch.nn.functional.cross_entropy(logits, logits.argmax(1))

    yield
    del table("method")["toy"]


def test_a_new_method_gets_segmentation_and_the_reservoir_for_free(toy, minicity, tmp_path):
    options = ["method.type=toy", "method.optimizer.lr=1e-3", *seeded_reservoir(tmp_path / "cache")]
    results = run("segformer-tiny_tent_reservoir", minicity, tmp_path, *options)
    assert results["method"] == "Sharpen"
    assert results["updates"]["updates"] == 12
    assert results["routes"][-1]["k"] > 1


def test_eata_learns_from_the_source_images_first(minicity, tmp_path, monkeypatch):
    plans = count_plans(monkeypatch)
    options = ["method.type=eata", "method.margin=2.0", "method.d_margin=2.0"]
    results = run("segformer-tiny_tent", minicity, tmp_path, *options, *SHORT)
    assert len(plans) == 1
    assert results["method"] == "Eata"
    assert results["updates"]["updates"] == 3


def test_style_from_the_models_own_layers(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "reservoir = dict(preset='published', "
        "style=dict(type='model', taps=['backbone.layers.0.2']),\n"
        f"    router=dict(quantile=0.5), calibration=dict(cache={str(tmp_path / 'cache')!r}))\n"
    )
    results = run(config, minicity, tmp_path)
    assert results["routes"][-1]["k"] > 1
    styles = Calibration.load(tmp_path / "calibration.safetensors").styles
    assert styles.shape == (8, 24)


@pytest.mark.slow
def test_style_of_the_model_with_the_segment_router_runs_again_from_the_cache(minicity, tmp_path):
    options = [
        "reservoir.style.type=model",
        "reservoir.style.taps=[backbone.layers.0.2]",
        "reservoir.style.statistic=mean_var",
        f"reservoir.calibration.cache={tmp_path / 'cache'}",
    ]
    name = "segformer-tiny_tent_reservoir"
    first, again = (run(name, minicity, tmp_path / n, *options) for n in "ab")
    assert first["tau"] == again["tau"]


def test_a_tap_that_returns_no_map_is_named(minicity, tmp_path, capfd):
    command = [str(TINY / "segformer-tiny_tent_reservoir.py"), "--random-weights", "--cfg-options"]
    options = ["reservoir.style.type=model", "reservoir.style.taps=[backbone]"]
    options += [f"work_dir={tmp_path}", f"reservoir.calibration.cache={tmp_path}"]
    assert test_tta.main([*command, *data_options(minicity), *options]) == 2
    assert "backbone" in (error := capfd.readouterr().err)
    assert len(error.strip().splitlines()) == 1


def test_oracle_router_needs_no_source_images(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = [{str(TINY / 'segformer-tiny_tent.py')!r}, "
        f"{str(TINY.parent / '_base_/reservoir/oracle.py')!r}]\n"
    )
    results = run(config, minicity, tmp_path, "source_images=None")
    assert [r["expert"] for r in results["routes"]] == [1, 1, 1, 2, 2, 2] * 2
    assert results["tau"] is None


def test_wraps_for_the_test_and_unwraps_after_it(minicity, tmp_path):
    cfg = Config.fromfile(TINY / "segformer-tiny_tent.py")
    cfg.merge_from_dict(
        {
            "test_dataloader.dataset.data_root": str(minicity),
            "test_cfg.rounds": 1,
            "test_cfg.domains": ["fog"],
            "method.optimizer.lr": 0.01,
        }
    )
    cfg.load_from, cfg.work_dir = None, str(tmp_path)
    cfg.custom_hooks = [hook for hook in cfg.custom_hooks if hook.type != "ResumeHook"]
    runner = Runner.from_cfg(cfg)
    before = {name: value.clone() for name, value in runner.model.state_dict().items()}
    first = runner.test()
    assert not isinstance(runner.model, AdaptiveSegmentor)
    for name, value in runner.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert runner.test() == first  # a second test starts from the source again
    assert first.keys() == {"round1/fog", "mIoU"}


@pytest.mark.slow
def test_same_seed_same_numbers(minicity, tmp_path):
    options = seeded_reservoir(tmp_path / "cache")

    def once(name):
        results = run("segformer-tiny_tent_reservoir", minicity, tmp_path / name, *options)
        keep = ("round", "domain", "mIoU", "per_class")
        return json.dumps([{k: v[k] for k in keep} for v in results["visits"]])

    torch.manual_seed(123)
    first = once("a")
    torch.manual_seed(456)
    assert once("b") == first


def test_other_models_are_refused(minicity, tmp_path, capfd):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "model = dict(_delete_=True, type='mmengine.ToyModel')\n"
    )
    from mmengine.model import BaseModel

    class ToyModel(BaseModel):
        def forward(self, *args, **kwargs):
            raise NotImplementedError

    MODELS.register_module(module=ToyModel, force=True)
    command = [str(config), "--random-weights", f"--work-dir={tmp_path}", "--cfg-options"]
    assert test_tta.main([*command, f"test_dataloader.dataset.data_root={minicity}"]) == 2
    assert "the model, ToyModel, has no test_cfg, decode_head" in capfd.readouterr().err


def tiny_runner(minicity, tmp_path, **changes):
    """A runner of one round over fog and night, with random weights."""
    cfg = Config.fromfile(TINY / "segformer-tiny_tent.py")
    cfg.merge_from_dict(
        {
            "test_dataloader.dataset.data_root": str(minicity),
            "source_images.data_root": f"{minicity}/rgb_anon/clear/train",
            "test_cfg.rounds": 1,
            "test_cfg.domains": ["fog", "night"],
            **changes,
        }
    )
    cfg.load_from, cfg.work_dir = None, str(tmp_path)
    return cfg


def test_a_subclass_of_the_wrapper_takes_its_place(minicity, tmp_path):
    seen = []

    @MODELS.register_module(force=True)
    class CountingSegmentor(AdaptiveSegmentor):
        def forward(self, *args, **kwargs):
            seen.append(self.pipeline.method.space.names[0])
            return super().forward(*args, **kwargs)

    cfg = tiny_runner(minicity, tmp_path)
    for hook in cfg.custom_hooks:
        if hook["type"] == "AdaptationHook":
            hook["wrapper"] = dict(type="CountingSegmentor")
    Runner.from_cfg(cfg).test()
    assert len(seen) == 6


def test_method_router_and_encoder_may_be_ready_made(minicity, tmp_path):
    cfg = tiny_runner(minicity, tmp_path)
    cfg.custom_hooks = [h for h in cfg.custom_hooks if h["type"] != "AdaptationHook"]
    runner = Runner.from_cfg(cfg)
    runner.register_hook(AdaptationHook(router=OracleRouter(k_max=3)))
    runner.test()
    results = json.loads((tmp_path / "results.json").read_text())
    assert [route["expert"] for route in results["routes"]] == [1, 1, 1, 2, 2, 2]
    assert results["options"]["reservoir"]["router"] == "OracleRouter"

    def own_method(model):
        space = ParamSpace(model, norm_affine(model, under="decode_head"))
        return Tent(partial(segmentation_forward, model), space, partial(torch.optim.SGD, lr=0.1))

    encoder = StyleEncoder("seeded", statistic="mean")
    cfg = tiny_runner(minicity, tmp_path / "b", custom_hooks=cfg.custom_hooks)
    cfg.reservoir = dict(
        pipeline=dict(unfit="learn", source="adapt")
    )  # the encoder has random weights
    runner = Runner.from_cfg(cfg)
    runner.register_hook(AdaptationHook(method=own_method, encoder=encoder))
    runner.test()
    styles = Calibration.load(tmp_path / "b" / "calibration.safetensors")
    assert styles.origin["style"] == encoder.fingerprint()
    results = json.loads((tmp_path / "b" / "results.json").read_text())
    assert results["options"]["method"] == "Tent"
    assert results["updates"]["updates"] == 6


def test_the_reservoir_can_be_switched_on_from_the_command_line(minicity, tmp_path):
    options = ["reservoir.preset=stream", f"reservoir.calibration.cache={tmp_path}"]
    results = run("segformer-tiny_tent", minicity, tmp_path, *options, *SHORT)
    assert results["reservoir"] is True
    assert results["options"]["reservoir"]["router"]["type"] == "segment"


@pytest.mark.parametrize(
    ("config", "options"),
    [
        pytest.param("segformer-tiny_lora", [], marks=pytest.mark.slow),
        pytest.param("segformer-tiny_cotta_full", [], marks=pytest.mark.slow),
        ("segformer-tiny_tent", ["test_cfg.shuffle=visit"]),
    ],
)
def test_seeds_rule_everything_random(minicity, tmp_path, config, options):
    faster = ["method.optimizer.lr=0.01", "test_cfg.rounds=1", *options]
    if "tent" not in config:
        faster += ["method.ratios=[1.0]", "method.flip=False"]

    def once(seed, name):
        results = run(config, minicity, tmp_path / name, *faster, flags=(WEIGHTS, f"--seed={seed}"))
        return [visit["mIoU"] for visit in results["visits"]]

    assert once(0, "a") != once(1, "b")  # that one seed gives one result is tested above


def test_batch_norm_segmentors_take_running_batch_or_blended_statistics(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "norm = dict(type='SyncBN', requires_grad=True)\n"
        "model = dict(backbone=dict(_delete_=True, type='ResNetV1c', depth=18, num_stages=4,\n"
        "    out_indices=(0, 1, 2, 3), dilations=(1, 1, 2, 4), strides=(1, 2, 1, 1),\n"
        "    norm_cfg=norm, norm_eval=False, style='pytorch', contract_dilation=True),\n"
        "  decode_head=dict(_delete_=True, type='ASPPHead', in_channels=512, in_index=3,\n"
        "    channels=16, dilations=(1, 2), dropout_ratio=0.0, num_classes=19, norm_cfg=norm,\n"
        "    align_corners=False))\n"
        "method = dict(optimizer=dict(lr=0.01))\n"
    )
    scores = {}
    for name, option in {
        "running": "statistics=running",
        "batch": "statistics=batch",
        "blended": "statistics=0.1",
    }.items():
        options = [option, "test_cfg.rounds=1", "test_cfg.domains=[night]"]
        results = run(config, minicity, tmp_path / name, *options)
        scores[name] = json.dumps([visit["per_class"] for visit in results["visits"]])
        assert results["updates"]["updates"] == 3
    assert len(set(scores.values())) == 3
    log = "".join(path.read_text() for path in tmp_path.rglob("*.log"))
    assert "(SyncBN) layers in the model will be automatically reverted" in log


def test_mmsegs_own_sliding_windows_are_adapted_to(minicity, tmp_path):
    slide = ["model.test_cfg.mode=slide", "model.test_cfg.crop_size=(128,128)"]
    slide += ["model.test_cfg.stride=(128,64)", "test_cfg.rounds=1", "method.optimizer.lr=0.01"]
    whole = run("segformer-tiny_tent", minicity, tmp_path / "a", *slide[3:], flags=(WEIGHTS,))
    windows = run("segformer-tiny_tent", minicity, tmp_path / "b", *slide, flags=(WEIGHTS,))
    assert windows["updates"]["updates"] == whole["updates"]["updates"] == 6
    assert [v["mIoU"] for v in windows["visits"]] != [v["mIoU"] for v in whole["visits"]]
