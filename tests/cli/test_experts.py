"""From a run to its reservoir, and on: what the command line says and writes."""

import json
import subprocess
import sys

import pytest
import torch
from small_reservoirs import make_pipeline, show
from stream_run import TINY, data_options, run, seeded_reservoir

from mmseg_reservoir.cli import experts
from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.snapshot import read_folder, save_reservoir

WEIGHTS = TINY.parents[1] / "checkpoints" / "segformer_tiny_minicity.safetensors"


@pytest.fixture(scope="module")
def cameras(tmp_path_factory):
    """The reservoirs of two cameras. To be read only."""
    folders = []
    for seed, looks in enumerate((["clear", "dark"], ["bright", "dark"])):
        pipeline = make_pipeline("oracle")
        show(pipeline, looks, seed)
        folders.append(save_reservoir(pipeline, tmp_path_factory.mktemp("cameras") / f"c{seed}"))
    return folders


def call(*words) -> int:
    return experts.main([str(word) for word in words])


def fail(capsys, *words) -> str:
    """Run a command that must end with code 2; returns the one line it says."""
    capsys.readouterr()
    assert call(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def test_inspect_merge_and_prune(cameras, tmp_path, capsys):
    assert call("inspect", cameras[0]) == 0
    assert "3 experts of at most 6, by Tent (Adam)" in capsys.readouterr().out
    assert call("merge", *cameras, "-o", tmp_path / "both") == 0
    out = capsys.readouterr().out
    assert f"expert 1 of {cameras[1]} is new" in out
    assert f"expert 2 of {cameras[1]} became one with 2 of {cameras[0]}" in out
    assert out.endswith(f"4 experts are in {tmp_path / 'both'}\n")
    assert [e.tally.images for e in read_folder(tmp_path / "both").experts] == [0, 12, 24, 12]
    assert call("prune", tmp_path / "both", "--experts", 1, 3, "-o", tmp_path / "few") == 0
    assert "removed: 1, 3; 2 experts are in" in capsys.readouterr().out
    assert [e.tally.images for e in read_folder(tmp_path / "few").experts] == [0, 24]
    few = ["-o", tmp_path / "few", "--overwrite"]
    assert call("prune", tmp_path / "both", "--least", 1, *few) == 0
    assert [e.tally.images for e in read_folder(tmp_path / "few").experts] == [0, 24, 12]
    assert call("prune", tmp_path / "both", "--unused", *few) == 0
    assert "removed: none; 4 experts" in capsys.readouterr().out


@pytest.mark.parametrize("router", ["segment", "style"])
def test_a_process_that_ran_nothing_knows_the_bundled_parts(tmp_path, router):
    """Here the tests have imported them, so that the command must run in its own process."""
    folders = []
    for seed, looks in enumerate((["clear", "dark"], ["bright", "dark"])):
        pipeline = make_pipeline(router)
        show(pipeline, looks, seed)
        folders.append(save_reservoir(pipeline, tmp_path / f"c{seed}"))
    command = [sys.executable, "-m", "mmseg_reservoir.cli", "experts", "merge", *folders]
    subprocess.run([*command, "-o", tmp_path / "both"], check=True)
    assert len(read_folder(tmp_path / "both").experts) >= 2


@pytest.mark.parametrize("command", ["merge", "prune", "export"])
def test_nothing_is_replaced_without_being_asked_for(cameras, tmp_path, capsys, command):
    out = save_reservoir(make_pipeline("oracle"), tmp_path / "out")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    words = {
        "merge": ["merge", *cameras],
        "prune": ["prune", cameras[0], "--unused"],
        "export": ["export", cameras[0], 1, "--checkpoint", "model.pth"],
    }
    assert "exists: add --overwrite" in fail(capsys, *words[command], "-o", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_reservoir_is_not_merged_with_itself(cameras, tmp_path, capsys):
    same = cameras[0].parent / "." / cameras[0].name
    out = ["-o", tmp_path / "out"]
    assert "is named twice" in fail(capsys, "merge", cameras[0], same, *out)
    assert not (tmp_path / "out").exists()


def test_a_work_directory_stands_for_its_reservoir(tmp_path, capsys):
    folder = save_reservoir(make_pipeline("oracle"), tmp_path / "reservoir")
    assert call("inspect", tmp_path) == 0
    by_work_dir = capsys.readouterr().out
    assert call("inspect", folder) == 0
    assert capsys.readouterr().out == by_work_dir
    assert call("prune", tmp_path, "--unused", "-o", tmp_path / "few") == 0
    assert "named twice" in fail(capsys, "merge", tmp_path, folder, "-o", tmp_path / "both")


def test_mistakes_end_in_one_line(cameras, tmp_path, capsys):
    out = ["-o", tmp_path / "out"]
    assert "is not a saved reservoir" in fail(capsys, "inspect", tmp_path)
    assert "--k-max 4" in fail(capsys, "merge", *cameras, *out, "--k-max", 3)
    assert "expert 0 cannot be removed" in fail(capsys, "prune", cameras[0], "--experts", 0, *out)
    assert "give --checkpoint FILE" in fail(capsys, "export", cameras[0], 1, *out)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_goes_on_from_the_reservoir_of_another_without_source_images(
    minicity, tmp_path, capsys
):
    options = [*seeded_reservoir(tmp_path / "cache"), "method.optimizer.lr=1e-3"]
    config = "segformer-tiny_tent_reservoir"
    first = run(config, minicity, tmp_path / "first", *options, flags=[WEIGHTS])
    saved = read_folder(tmp_path / "first" / "reservoir")
    assert len(saved.experts) == first["routes"][-1]["k"] > 1
    assert sum(e.tally.images for e in saved.experts) == 12
    assert saved.about["checkpoint"] == str(WEIGHTS)

    flags = [WEIGHTS, f"--start-from={tmp_path / 'first' / 'reservoir'}"]
    nowhere = f"source_images.data_root={tmp_path / 'nowhere'}"
    more = run(config, minicity, tmp_path / "more", *options, nowhere, flags=flags)
    assert more["routes"][0]["k"] == len(saved.experts)
    assert more["updates"]["updates"] == 12
    after = read_folder(tmp_path / "more" / "reservoir")
    assert sum(e.tally.images for e in after.experts) == 24
    assert more["options"]["reservoir"]["start_from"] == str(tmp_path / "first" / "reservoir")

    frozen = run(
        config, minicity, tmp_path / "frozen", *options, nowhere, flags=[*flags, "--frozen"]
    )
    assert frozen["updates"]["updates"] == 0
    assert {route["k"] for route in frozen["routes"]} == {len(saved.experts)}
    assert not (tmp_path / "frozen" / "reservoir").exists()

    capsys.readouterr()
    fog = tmp_path / "fog.pth"
    assert call("export", tmp_path / "first" / "reservoir", 1, "-o", fog) == 0
    weights = torch.load(fog, weights_only=True)["state_dict"]
    adapted = saved.layout.split(saved.experts[1].parameters)
    assert all(torch.equal(weights[name], value) for name, value in adapted.items())


def test_a_run_without_a_reservoir_or_with_another_model_is_refused(minicity, tmp_path, capsys):
    folder = save_reservoir(make_pipeline(), tmp_path / "saved")
    command = [f"--work-dir={tmp_path}", "--random-weights", f"--start-from={folder}"]
    options = ["--cfg-options", *data_options(minicity)]

    def end(config, *words):
        assert test_tta.main([str(TINY / f"{config}.py"), *words]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert "and this config has none" in end("segformer-tiny_tent", *command, *options)
    options += seeded_reservoir(tmp_path / "cache")
    message = end("segformer-tiny_tent_reservoir", *command, *options)
    assert f"error: {folder}: the reservoir is not of this model and these options" in message
    assert "params.numbers: 32 against " in message
    lonely = ["--random-weights", "--frozen", *options]
    assert "reservoir.start_from" in end("segformer-tiny_tent_reservoir", *lonely)
    command[-1] = f"--start-from={tmp_path / 'nowhere'}"
    message = end("segformer-tiny_tent_reservoir", *command, *options)
    assert "nowhere is not a saved reservoir: it has no manifest.json" in message
    assert json.loads((folder / "manifest.json").read_text())["schema"] == 2
