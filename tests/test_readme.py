"""The code blocks of the README do what they say."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_net import make_classifier

from mmseg_reservoir.registry import find, table

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def block(word):
    """The block that has a word in it."""
    (code,) = [code for code in BLOCKS if word in code]
    return code


def test_the_core_composed_by_hand(monkeypatch):
    code = block("ReservoirPipeline(")
    lines = [line for line in code.splitlines() if line and "import" not in line]
    assert len(lines) <= 10
    torch.manual_seed(0)
    dark = [torch.randn(4, 3, 16, 16) / 9 for _ in range(3)]
    names = {
        "net": make_classifier(),
        "source_batches": [torch.randn(4, 3, 16, 16) for _ in range(50)],
        "stream": dark,
    }
    exec(code, names)
    assert names["logits"].shape == (4, 5)
    assert len(names["pipeline"].reservoir) == 2
    assert names["method"].counts["updates"] == 3


@pytest.fixture
def _without_sharpen():
    yield
    table("method").pop("sharpen", None)


@pytest.mark.usefixtures("_without_sharpen")
def test_a_method_of_ones_own():
    names = {"torch": torch}
    exec(block("sharpen"), names)
    assert find("method", "sharpen") is names["Sharpen"]


def test_every_kind_of_part_is_named():
    kinds = set(re.findall(r'`"(\w+)"`', README[README.index("Likewise") :]))
    from mmseg_reservoir.registry import KINDS

    assert set(KINDS) - kinds == {"method", "space"}


def write_cityscapes(root, split, count=4):
    """Write noise in the folders of Cityscapes."""
    draw = np.random.default_rng(0)
    for index in range(count):
        image = draw.integers(0, 256, (32, 64, 3), np.uint8)
        files = {"leftImg8bit": ("leftImg8bit", image)}
        files["gtFine"] = ("gtFine_labelTrainIds", image[..., 0] % 19)
        for folder, (suffix, pixels) in files.items():
            path = root / folder / split / "a" / f"{index}_{suffix}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)


def test_the_config_block_on_a_base_of_mmsegs_zoo(tmp_path, monkeypatch):
    """mmengine adds ``_scope_`` to what is inherited from there."""
    from mmseg_reservoir.cli import test as test_tta

    for root, split in (("cityscapes", "train"), ("dusk", "val"), ("dawn", "val")):
        write_cityscapes(tmp_path / "data" / root, split)
    base = "mmseg::segformer/segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py"
    (tmp_path / "config.py").write_text(block("your_config.py").replace("your_config.py", base))
    monkeypatch.chdir(tmp_path)
    small = ["test_cfg.rounds=1", "test_dataloader.dataset.pipeline.1.scale=(64,32)"]
    small += ["test_dataloader.num_workers=0", "test_dataloader.persistent_workers=False"]
    words = ["config.py", "--random-weights", "--work-dir=w", "--cfg-options", *small]
    assert test_tta.main(words) == 0
    results = json.loads((tmp_path / "w" / "results.json").read_text())
    assert results["config"]["test_cfg"]["_scope_"] == "mmseg"
    assert [visit["domain"] for visit in results["visits"]] == ["dusk", "dawn"]
