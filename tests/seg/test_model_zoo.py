from urllib.error import URLError

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmseg.datasets import CityscapesDataset

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage import ReservoirInferencer
from mmseg_reservoir.seg.model_zoo import find_in_zoo

B0 = "segformer_mit-b0_8xb1-160k_cityscapes-1024x1024"


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
