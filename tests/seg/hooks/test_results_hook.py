import csv
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import cv2
import pytest
from mmengine.config import Config
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample
from stream_run import SHORT, TINY, data_options, run

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.check.survey import list_files
from mmseg_reservoir.datasets.manifest import manifest_hash
from mmseg_reservoir.runs.reader import read_runs
from mmseg_reservoir.seg import ResultsHook
from mmseg_reservoir.seg.loop import Visit


def small_run(folder, miou=50.0, **model):
    """Everything of a runner that the hook looks at, after one visit of one image."""
    visit = Visit(index=0, round=1, domain="fog")
    loop = SimpleNamespace(
        loaders={},
        visit=visit,
        visits=[visit],
        shuffle="once",
        total_images=1,
        extra_scores=[],
        dataloader=SimpleNamespace(dataset=[0]),
        evaluator=SimpleNamespace(metrics=[]),
    )
    runner = SimpleNamespace(
        model=SimpleNamespace(**model),
        seed=0,
        work_dir=str(folder),
        cfg=Config({}, cfg_text="# ours", filename=str(folder / "own.py")),
        test_loop=loop,
        logger=Mock(),
        visualizer=Mock(),
    )
    hook = ResultsHook()
    sample = SegDataSample(metainfo={"img_path": "a.png"}, gt_sem_seg=PixelData())
    hook.before_test(runner)
    hook.after_test_iter(runner, 0, outputs=[sample])
    hook.after_test_epoch(runner, {"mIoU": miou})
    hook.after_test(runner)
    text = (folder / "results.json").read_text()
    return json.loads(text, parse_constant=pytest.fail), runner.logger


def test_options_are_those_of_the_model(tmp_path):
    options = {"method": {"type": "tent", "steps": 1}}
    assert small_run(tmp_path, options=options)[0]["options"] == options
    assert small_run(tmp_path)[0]["options"] is None


def test_the_order_of_the_stream_is_told(tmp_path):
    assert small_run(tmp_path)[0]["stream"]["shuffle"] == "once"


def test_a_visit_without_a_labelled_pixel_is_null(tmp_path):
    results, logger = small_run(tmp_path, miou=math.nan)
    assert results["visits"][0]["mIoU"] is None
    told = [call.args[0] for call in logger.warning.call_args_list]
    assert "no labeled pixel in 1 visits (fog): they have no score" in told
    assert "nothing was scored" in logger.info.call_args_list[0].args[0]


def test_a_failure_of_the_tables_is_told_and_ends_nothing(tmp_path):
    (tmp_path / "metafile.yaml").write_text("Models: [")
    results, logger = small_run(tmp_path)
    assert results["complete"] is True
    assert "metafile.yaml is no metafile" in logger.warning.call_args_list[0].args[0]
    table, *_, files = [call.args[0] for call in logger.info.call_args_list]
    assert table.startswith("mIoU by domain and visit")
    assert files == f"Results are in {tmp_path / 'results.json'} and .csv"


def test_json_has_everything(reservoir_run):
    results = reservoir_run.results
    assert results["complete"] is True
    assert (results["method"], results["reservoir"], results["seed"]) == ("Tent", True, 0)
    assert results["tau"] > 0
    assert results["versions"]["torch"]
    assert results["stream"] == {
        "kind": "recurring",
        "domains": ["fog", "night"],
        "rounds": 2,
        "shuffle": "never",
        "images": 12,
    }
    assert results["config"]["method"]["type"] == "tent"
    assert results["options"]["method"]["type"] == "tent"
    assert results["options"]["reservoir"]["k_max"] == 16  # nobody wrote it
    assert results["updates"] == {
        "updates": 12,
        "skipped": 0,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }
    for visit in results["visits"]:
        assert visit["n_images"] == 3
        assert 0 <= visit["mIoU"] <= 100
        assert visit["seconds_per_image"] > 0
        present = [value for value in visit["per_class"].values() if value is not None]
        assert visit["mIoU"] == pytest.approx(sum(present) / len(present), rel=1e-6)
    assert set(results["visits"][0]["per_class"]) >= {"road", "car", "sky"}
    for route in results["routes"]:
        assert {"round", "domain", "image", "expert", "k"} <= set(route)
        assert 0 < route["entropy"] <= route["marginal_entropy"] < math.log(19) + 1e-6
        assert 0 <= route["expert"] < route["k"] <= 16
    ks = [route["k"] for route in results["routes"]]
    assert ks == sorted(ks)
    assert ks[-1] == 1 + sum(route["opened"] for route in results["routes"])
    assert ks[-1] > 1


def test_data_has_the_checkers_manifest_and_the_order(reservoir_run, minicity):
    found = {files.cell.name: files for files in list_files(LAYOUTS["minicity"], minicity).cells}
    assert reservoir_run.results["data"] == {
        name: {
            "images": 3,
            "manifest": manifest_hash(found[f"train/{name}"].used, minicity),
            "sorted": True,
        }
        for name in ("fog", "night")
    }


def test_csv_agrees_at_full_precision(reservoir_run):
    folder, results, _ = reservoir_run
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mIoU"]) for row in rows] == [v["mIoU"] for v in results["visits"]]
    assert [row["domain"] for row in rows] == ["fog", "night", "fog", "night"]
    assert float(rows[0]["road"]) == results["visits"][0]["per_class"]["road"]
    assert not list(folder.glob("*.partial"))


def test_an_interrupted_run_keeps_its_finished_visits(minicity, tmp_path, monkeypatch):
    original = ResultsHook.after_test_epoch

    def stop_after_two(self, runner, metrics):
        if runner.test_loop.visit.index == 2:
            raise KeyboardInterrupt
        original(self, runner, metrics)

    monkeypatch.setattr(ResultsHook, "after_test_epoch", stop_after_two)
    command = [str(TINY / "segformer-tiny_source.py"), f"--work-dir={tmp_path}"]
    command += ["--random-weights", "--cfg-options"]
    assert test_tta.main([*command, *data_options(minicity)]) == 130
    (results,) = read_runs([tmp_path]).values()
    assert results["complete"] is False
    assert len(results["visits"]) == 2
    assert len(results["routes"]) == 6


def test_table_is_printed_at_the_end(source_run):
    assert "mIoU by domain and visit" in source_run.printed
    assert f"{source_run.results['visits'][0]['mIoU']:.2f}" in source_run.printed
    assert "night" in source_run.printed
    assert "compared with the published row" not in source_run.printed  # MiniCity has none


def test_published_row_is_printed_beside_ours(minicity, tmp_path, monkeypatch, capfd):
    config = tmp_path / "own.py"
    config.write_text(f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n")
    (tmp_path / "metafile.yaml").write_text(
        "Models:\n"
        "  - Name: Own\n"
        "    Config: somewhere/own.py\n"
        "    Results:\n"
        "      - {Dataset: ACDC fog, Metrics: {mIoU visit 1: 11.5, mIoU visit 4: 77.5}}\n"
    )
    monkeypatch.chdir(tmp_path)  # a config is found from its own folder, too
    results = run(Path("own.py"), minicity, tmp_path / "w", *SHORT)
    printed = capfd.readouterr().out
    assert results["complete"] is True
    assert results["config_file"] == str(config)
    assert "compared with the published row 'Own'" in printed
    assert "11.5" in printed
    assert f"{results['visits'][0]['mIoU'] - 11.5:+.2f}" in printed
    assert "77.5" not in printed  # the run has no visit 4


def test_tensorboard_by_config_alone(minicity, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        "visualizer = dict(vis_backends=[dict(type='TensorboardVisBackend')])\n"
    )
    command = [str(config), "--random-weights", f"--work-dir={tmp_path}", "--cfg-options"]
    assert test_tta.main([*command, *data_options(minicity)]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    events = next(tmp_path.rglob("events.out*"))
    reader = accumulator.EventAccumulator(str(events))
    reader.Reload()
    logged = [event.value for event in reader.Scalars("mIoU/fog")]
    expected = [v["mIoU"] for v in results["visits"] if v["domain"] == "fog"]
    assert logged == pytest.approx(expected, rel=1e-5)


def test_frames_without_labels_are_predicted_and_not_scored(minicity, tmp_path, capfd):
    shutil.copytree(minicity / "rgb_anon", tmp_path / "data" / "rgb_anon")
    results = run("segformer-tiny_tent", tmp_path / "data", tmp_path / "w", *SHORT)
    assert [visit["mIoU"] for visit in results["visits"]] == [None]
    assert len(results["routes"]) == results["updates"]["updates"] == 3
    labels = sorted((tmp_path / "w" / "predictions").rglob("*_labelTrainIds.png"))
    assert len(labels) == 3
    assert labels[0].parent == tmp_path / "w" / "predictions" / "round1" / "fog"
    assert cv2.imread(str(labels[0]), cv2.IMREAD_GRAYSCALE).shape == (128, 256)
    printed = capfd.readouterr().out
    assert "nothing was scored" in printed
    assert "round 1/1 fog: not scored" in printed
    assert "nan" not in printed


def test_one_domain_may_be_without_labels(minicity, tmp_path):
    shutil.copytree(minicity, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "gt" / "night")
    results = run("segformer-tiny_source", tmp_path / "data", tmp_path / "w", "test_cfg.rounds=1")
    fog, night = results["visits"]
    assert fog["mIoU"] > 0
    assert night["mIoU"] is None
    folders = {path.parent.name for path in (tmp_path / "w" / "predictions").rglob("*.png")}
    assert folders == {"night"}


def test_mmsegs_format_only_writes_every_prediction(minicity, tmp_path):
    options = [
        "test_evaluator.format_only=True",
        f"test_evaluator.output_dir={tmp_path / 'out'}",
        *SHORT,
    ]
    results = run("segformer-tiny_source", minicity, tmp_path / "w", *options)
    assert [visit["mIoU"] for visit in results["visits"]] == [None]
    assert len(list((tmp_path / "out").glob("*.png"))) == 3


def test_dice_is_recorded_beside_miou(minicity, tmp_path):
    options = ["test_evaluator.iou_metrics=[mDice]", *SHORT]
    results = run("segformer-tiny_source", minicity, tmp_path, *options)
    for visit in results["visits"]:
        assert visit["mDice"] >= visit["mIoU"] > 0
