"""The real network through the real command line, on small data and with random weights."""

import json
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from stream_run import CONFIGS

from mmseg_reservoir.becotta import inject
from mmseg_reservoir.becotta.store import save
from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.minicity import make_counts, write_dataset
from mmseg_reservoir.report.published import METAFILE, load_rows


def b5_options(data, cache):
    """The --cfg-options that let an ACDC config run on MiniCity, without downloads."""
    return [
        f"test_dataloader.dataset.data_root={data}",
        "test_dataloader.num_workers=0",
        "test_dataloader.persistent_workers=False",
        f"source_images.data_root={data}/rgb_anon/clear/train",
        "source_images.img_suffix=_rgb_anon.png",
        f"reservoir.calibration.cache={cache}",
        "reservoir.style.weights=seeded",
    ]


@pytest.mark.slow
def test_b5_runs_two_rounds_of_two_domains_at_540x960(tmp_path):
    data = tmp_path / "minicity"
    write_dataset(data, counts=make_counts(train=2, val=0, adverse_train=2, adverse_val=0))
    command = [str(CONFIGS / "acdc/segformer-b5_tent_reservoir.py"), "--random-weights"]
    command += [f"--work-dir={tmp_path}", "--cfg-options", *b5_options(data, tmp_path / "cache")]
    command += [
        "reservoir.preset=published",  # two source images are too few for the preset stream
        "test_dataloader.dataset.pipeline.1.keep_ratio=False",  # exactly 540 x 960
        "test_cfg.rounds=2",
        "test_cfg.domains=[fog,night]",
    ]
    assert test_tta.main(command) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["visits"]) == 4
    assert len(results["routes"]) == 8
    assert results["updates"] == {
        "updates": 8,
        "skipped": 0,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }


@pytest.fixture(scope="module")
def b5_data(tmp_path_factory):
    """Four images per condition, 16 of the source."""
    data = tmp_path_factory.mktemp("data") / "minicity"
    write_dataset(data, counts=make_counts(train=16, val=0, adverse_train=4, adverse_val=0))
    return data


@pytest.fixture(scope="module")
def becotta_weights(tmp_path_factory):
    """BECoTTA's parts for a B5 as they are before the warm-up."""
    init_default_scope("mmseg")
    cfg = Config.fromfile(CONFIGS / "acdc/segformer-b5_becotta.py")
    path = tmp_path_factory.mktemp("warmup") / "becotta.safetensors"
    save(path, inject(MODELS.build(cfg.model), "S"))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("row", load_rows(CONFIGS / "acdc" / METAFILE), ids=lambda row: row.name)
def test_every_row_of_the_table_runs_on_b5(row, b5_data, request, tmp_path):
    command = [str(CONFIGS / "acdc" / Path(row.config).name), "--random-weights"]
    command += [f"--work-dir={tmp_path}", "--cfg-options"]
    options = b5_options(b5_data, tmp_path / "cache")
    if "reservoir" not in row.config:
        options = [option for option in options if not option.startswith("reservoir")]
    if "becotta" in row.config:
        options += [f"params.weights={request.getfixturevalue('becotta_weights')}"]
    # MiniCity's 128 x 256 at half size, as ACDC is at half size.
    options += ["test_dataloader.dataset.pipeline.1.scale=(128,64)", "test_cfg.rounds=1"]
    assert test_tta.main(command + options) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert [visit["domain"] for visit in results["visits"]] == ["fog", "night", "rain", "snow"]
    assert len(results["routes"]) == 16
    assert results["updates"]["not_finite"] == 0
