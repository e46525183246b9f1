import json

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from stream_run import TINY, run, seeded_reservoir

from mmseg_reservoir.core import Calibration
from mmseg_reservoir.methods import METHODS, AdaptationMethod, register_method
from mmseg_reservoir.seg import AdaptiveSegmentor
from tools import test_tta


@pytest.fixture
def toy():
    @register_method("toy")
    class Sharpen(AdaptationMethod):
        """Cross-entropy with the model's own hard labels."""

        def loss(self, inputs):
            logits = self.forward(inputs)
            return logits, torch.nn.functional.cross_entropy(logits, logits.argmax(1))

    yield
    del METHODS["toy"]


def test_a_new_method_gets_segmentation_and_the_reservoir_for_free(toy, minicity, tmp_path):
    options = ["method.type=toy", "method.optimizer.lr=1e-3", *seeded_reservoir(tmp_path / "cache")]
    results = run("segformer-tiny_tent_reservoir", minicity, tmp_path, *options)
    assert results["method"] == "Sharpen"
    assert results["updates"]["updates"] == 12
    assert results["routes"][-1]["k"] > 1


def test_eata_learns_from_the_source_images_first(minicity, tmp_path):
    options = ["method.type=eata", "method.margin=2.0", "method.d_margin=2.0"]
    results = run("segformer-tiny_tent", minicity, tmp_path, *options)
    assert results["method"] == "Eata"
    assert results["updates"]["updates"] == 12


def test_style_from_the_models_own_layers(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "reservoir = dict(style=dict(type='model', taps=['backbone.layers.0.2']),\n"
        f"    calibration=dict(quantile=0.5, cache={str(tmp_path / 'cache')!r}))\n"
    )
    results = run(config, minicity, tmp_path)
    assert results["routes"][-1]["k"] > 1
    styles = Calibration.load(tmp_path / "calibration.safetensors").styles
    assert styles.shape == (8, 24)


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
    runner = Runner.from_cfg(cfg)
    before = {name: value.clone() for name, value in runner.model.state_dict().items()}
    first = runner.test()
    assert not isinstance(runner.model, AdaptiveSegmentor)
    for name, value in runner.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert runner.test() == first  # a second test starts from the source again
    assert first.keys() == {"round1/fog", "mIoU"}


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
    from mmengine.registry import MODELS

    class ToyModel(BaseModel):
        def forward(self, *args, **kwargs):
            raise NotImplementedError

    MODELS.register_module(module=ToyModel, force=True)
    command = [str(config), "--random-weights", f"--work-dir={tmp_path}", "--cfg-options"]
    assert test_tta.main([*command, f"test_dataloader.dataset.data_root={minicity}"]) == 2
    assert "needs an mmseg EncoderDecoder, the model is a ToyModel" in capfd.readouterr().err
