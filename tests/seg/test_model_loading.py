import importlib.util
from urllib.error import URLError

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmseg.datasets import CityscapesDataset
from stream_run import TINY
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage import ReservoirInferencer
from mmseg_reservoir.io.files import shipped
from mmseg_reservoir.seg.model_loading import (
    check_packages,
    find_in_zoo,
    find_model,
    is_cityscapes,
    load_model,
)

B0 = "segformer_mit-b0_8xb1-160k_cityscapes-1024x1024"
WEIGHTS = str(shipped("checkpoints/segformer_tiny_minicity.safetensors"))


def config(**more):
    return Config(dict(model=Config.fromfile(TINY / "segformer-tiny_tent.py").model, **more))


@pytest.mark.parametrize(
    "model",
    [
        TINY / "segformer-tiny_tent.py",
        "minicity/segformer-tiny_tent.py",
        "minicity/segformer-tiny_tent",
    ],
)
def test_a_config_is_found_by_its_file_and_by_its_name(model):
    cfg, weights = find_model(model, None)
    assert cfg.method.type == "tent"
    assert weights.endswith("segformer_tiny_minicity.safetensors")
    assert find_model(model, "mine.pth")[1] == "mine.pth"


def test_test_data_are_single_images_whatever_the_config_says():
    loader = dict(batch_size=8, num_workers=4, dataset=dict(pipeline=[dict(type="A")]))
    given = config(test_dataloader=loader)
    cfg, _ = find_model(given, WEIGHTS)
    assert (cfg.test_dataloader.batch_size, cfg.test_dataloader.num_workers) == (1, 0)
    assert cfg.test_dataloader.dataset.pipeline == [dict(type="A")]
    assert given.test_dataloader.batch_size == 8  # the user's own stays as it is
    bare, _ = find_model(config(), WEIGHTS)
    steps = [step["type"] for step in bare.test_dataloader.dataset.pipeline]
    assert steps == ["LoadImageFromFile", "PackSegInputs"]


def test_what_is_missing_is_told(tmp_path):
    with pytest.raises(ReservoirError, match="no weights for the config: give weights=FILE"):
        find_model(config(), None)
    (tmp_path / "empty.py").write_text("a = 1\n")
    with pytest.raises(ReservoirError, match=r"empty.py has no model"):
        find_model(tmp_path / "empty.py", WEIGHTS)


def saved(tmp_path, meta, tiny_model):
    torch.save({"state_dict": tiny_model.state_dict(), "meta": meta}, tmp_path / "model.pth")
    return str(tmp_path / "model.pth")


@pytest.mark.parametrize("new", [True, False])
def test_a_checkpoint_tells_its_classes(tmp_path, tiny_model, new):
    classes = tuple(f"thing {i}" for i in range(19))
    meta = {"dataset_meta": {"classes": classes}} if new else {"CLASSES": classes, "PALETTE": None}
    dataset = dict(type="ADE20KDataset", pipeline=[dict(type="A")])
    cfg, weights = find_model(
        config(test_dataloader=dict(dataset=dataset)), saved(tmp_path, meta, tiny_model)
    )
    told = load_model(cfg, weights, "cpu").dataset_meta
    assert told["classes"] == classes
    assert len(told["palette"]) == 19
    assert not is_cityscapes(told)


def test_else_the_data_of_the_config_tell_them(tmp_path, tiny_model):
    path = saved(tmp_path, {}, tiny_model)

    def display_path(**dataset):
        cfg, _ = find_model(config(test_dataloader=dict(dataset=dataset)), path)
        return load_model(cfg, path, "cpu").dataset_meta

    assert is_cityscapes(display_path(type="BDD100KDataset"))
    things = [f"thing {i}" for i in range(19)]
    meta = display_path(type="BDD100KDataset", metainfo=dict(classes=things))
    assert meta["classes"] == tuple(things)
    assert is_cityscapes(display_path())


def test_classes_that_do_not_fit_the_model_are_not_taken(tmp_path, tiny_model, caplog):
    path = saved(tmp_path, {}, tiny_model)
    cfg, _ = find_model(config(test_dataloader=dict(dataset=dict(type="ADE20KDataset"))), path)
    meta = load_model(cfg, path, "cpu").dataset_meta
    assert meta["classes"] == tuple(f"class {i}" for i in range(19))
    assert len(meta["palette"]) == 19
    assert "the model has 19 classes, the checkpoint or the config names 150" in caplog.text


def test_the_model_has_its_weights_and_no_synchronised_norm(tiny_model, tmp_path):
    cfg, path = find_model(config(), saved(tmp_path, {}, tiny_model))
    cfg.model.decode_head.norm_cfg = dict(type="SyncBN")
    cfg.model.backbone.init_cfg = dict(type="Pretrained", checkpoint="nowhere.pth")
    model = load_model(cfg, path, "cpu")
    assert not model.training
    assert not any(isinstance(module, nn.SyncBatchNorm) for module in model.modules())
    for name, tensor in tiny_model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("mask2former_r50_8xb2-90k_cityscapes-512x1024", "mmdet"),
        ("maskformer_r50-d32_8xb2-160k_ade20k-512x512", "mmdet"),
        ("convnext-tiny_upernet_8xb2-amp-160k_ade20k-512x512", "mmpretrain"),
    ],
)
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) for name in ("mmdet", "mmpretrain")), reason="both are here"
)
def test_models_of_the_zoo_name_the_package_that_they_need(name, package):
    with pytest.raises(ReservoirError, match=f"pip install {package}"):
        load_model(find_model(name, "weights.pth")[0], "weights.pth", "cpu")


def test_parts_of_packages_that_are_installed_are_accepted():
    check_packages(dict(type="EncoderDecoder", heads=[dict(type="mmseg.FCNHead"), dict(a=1)]))
    with pytest.raises(ReservoirError, match="Head needs mmnone"):
        check_packages(dict(heads=[dict(type="mmnone.Head")]))


def test_a_name_gives_config_and_weights():
    config, weights = find_in_zoo(B0)
    assert config.name == f"{B0}.py"
    assert config.is_file()
    assert weights.startswith("https://download.openmmlab.com/")
    assert weights.endswith(".pth")


def test_a_name_that_is_none_is_explained():
    with pytest.raises(ReservoirError, match=f"no model of mmseg's zoo .did you mean .*{B0}"):
        find_in_zoo(f"{B0}x")
    with pytest.raises(ReservoirError, match=r"no model of mmseg's zoo$"):
        ReservoirInferencer("?")


def test_without_a_network_one_line_says_which_file_to_put_where(tmp_path, monkeypatch):
    def fail(url, target):
        raise URLError("no network")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", fail)
    with pytest.raises(ReservoirError, match="no network") as error:
        ReservoirInferencer(B0)
    weights = find_in_zoo(B0)[1]
    assert "\n" not in str(error.value)
    assert weights in str(error.value)
    assert f"put a copy at {tmp_path / 'checkpoints' / weights.rsplit('/', 1)[1]}" in str(
        error.value
    )


def test_a_copy_that_is_there_is_taken(tmp_path, monkeypatch):
    weights = find_in_zoo(B0)[1]
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    torch.save(
        {"state_dict": {"a": torch.zeros(1)}}, tmp_path / "checkpoints" / weights.rsplit("/")[-1]
    )
    with pytest.raises(ReservoirError, match="does not fit the model"):
        ReservoirInferencer(B0)


def test_a_model_of_the_zoo_adapts_to_a_frame(tmp_path, monkeypatch):
    config, weights = find_in_zoo(B0)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    options = Config.fromfile(config).model
    options.backbone.pop("init_cfg")
    (tmp_path / "checkpoints").mkdir()
    saved = {
        "state_dict": MODELS.build(options).state_dict(),
        "meta": {"CLASSES": CityscapesDataset.METAINFO["classes"], "PALETTE": None},
    }
    torch.save(saved, tmp_path / "checkpoints" / weights.rsplit("/", 1)[1])
    learns = dict(pipeline=dict(unfit="learn", source="adapt"))  # noise fits no domain
    inferencer = ReservoirInferencer(B0, size=(512, 256), reservoir=learns)
    image = np.random.default_rng(0).integers(0, 256, (270, 540, 3)).astype(np.uint8)
    (frame,) = inferencer(image)
    assert frame.labels.shape == (270, 540)
    assert (frame.expert, frame.k) == (0, 1)
    assert inferencer.model.pipeline.method.counts["updates"] == 1
    assert inferencer.model.segmentor.test_cfg.mode == "slide"
    assert len(inferencer.model.pipeline.router.calibration.styles) == 300
    assert len(inferencer.dataset_meta["palette"]) == 19
