"""The real network through the real command line, on small data and with random weights."""

import json

import pytest
from stream_run import CONFIGS

from mmseg_reservoir.minicity import make_counts, write_dataset
from tools import test_tta


@pytest.mark.slow
def test_b5_runs_two_rounds_of_two_domains_at_540x960(tmp_path):
    data = tmp_path / "minicity"
    write_dataset(data, counts=make_counts(train=2, val=0, adverse_train=2, adverse_val=0))
    command = [str(CONFIGS / "acdc/segformer-b5_tent_reservoir.py"), "--random-weights"]
    command += [f"--work-dir={tmp_path}", "--cfg-options"]
    command += [
        f"test_dataloader.dataset.data_root={data}",
        "test_dataloader.dataset.pipeline.1.keep_ratio=False",  # exactly 540 x 960
        "test_dataloader.num_workers=0",
        "test_dataloader.persistent_workers=False",
        f"source_images.data_root={data}/rgb_anon/clear/train",
        "source_images.img_suffix=_rgb_anon.png",
        "reservoir.style.weights=seeded",
        f"reservoir.calibration.cache={tmp_path / 'cache'}",
        "test_cfg.rounds=2",
        "test_cfg.domains=[fog,night]",
    ]
    assert test_tta.main(command) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["visits"]) == 4
    assert len(results["routes"]) == 8
    assert results["updates"] == {"updates": 8, "skipped": 0, "not_finite": 0}
