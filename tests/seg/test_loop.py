import json

import pytest
from stream_run import TINY, data_options, run

from tools import test_tta


def test_visits_come_round_by_round_in_order(minicity, tmp_path):
    results = run("segformer-tiny_tent", minicity, tmp_path)
    assert [(v["round"], v["domain"]) for v in results["visits"]] == [
        (1, "fog"),
        (1, "night"),
        (2, "fog"),
        (2, "night"),
    ]
    images = [(r["round"], r["domain"], r["image"]) for r in results["routes"]]
    assert len(images) == 12
    assert images == sorted(images, key=lambda x: (x[0], x[1]))  # fog before night, then by name


def test_without_adaptation_every_round_is_the_same(minicity, tmp_path):
    results = run("segformer-tiny_source", minicity, tmp_path)
    first, second = results["visits"][:2], results["visits"][2:]
    assert [v["mIoU"] for v in first] == [v["mIoU"] for v in second]
    assert results["updates"] == {"updates": 0, "skipped": 12, "not_finite": 0}


def test_adaptation_goes_on_over_visits(minicity, tmp_path):
    weights = TINY.parents[1] / "checkpoints" / "segformer_tiny_minicity.safetensors"
    option = "method.optimizer.lr=0.001"
    results = run("segformer-tiny_tent", minicity, tmp_path, option, flags=[weights])
    assert results["visits"][0]["mIoU"] > 10  # the weights are the trained ones
    assert results["visits"][0]["mIoU"] != results["visits"][2]["mIoU"]
    assert results["updates"]["updates"] == 12


def test_domains_may_be_dicts(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        f"test_cfg = dict(rounds=1, domains=[dict(name='day', condition='clear', split='val'),"
        " 'snow'])\n"
    )
    command = [str(config), "--random-weights", f"--work-dir={tmp_path / 'w'}", "--cfg-options"]
    assert test_tta.main([*command, *data_options(minicity)[:2]]) == 0
    visits = json.loads((tmp_path / "w/results.json").read_text())["visits"]
    assert [(v["domain"], v["n_images"]) for v in visits] == [("day", 2), ("snow", 3)]


@pytest.mark.slow
def test_works_with_mmengines_own_logger_and_under_autocast(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "default_hooks = dict(logger=dict(_delete_=True, type='LoggerHook', interval=1))\n"
        "test_cfg = dict(fp16=True)\n"
    )
    results = run(config, minicity, tmp_path)
    assert results["complete"]
    assert results["updates"]["updates"] == 12


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("test_cfg.rounds=0", "need 1 or more rounds"),
        ("test_cfg.domains=[fog,fog]", "a name of its own"),
        ("test_cfg.domains=[fog,dusk]", "rgb_anon/dusk/train"),
    ],
)
def test_mistakes_are_explained(minicity, tmp_path, capfd, option, message):
    command = [str(TINY / "segformer-tiny_source.py"), "--random-weights"]
    command += [f"--work-dir={tmp_path}", "--cfg-options", *data_options(minicity), option]
    assert test_tta.main(command) == 2
    assert message in capfd.readouterr().err
    assert not (tmp_path / "results.json").exists()
