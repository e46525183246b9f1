import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import cv2
import numpy as np
import pytest
import torch

from mmseg_reservoir.cli import adapt
from mmseg_reservoir.footage import ReservoirInferencer
from mmseg_reservoir.footage.frame_writer import STREAM
from mmseg_reservoir.footage.video_frames import NetworkCamera
from mmseg_reservoir.live.server import open_port
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.minicity.drive import write_drive
from mmseg_reservoir.runs.state_folder import StateFolder
from mmseg_reservoir.snapshot import read_folder

MODEL = "--model=minicity/segformer-tiny_tent_robust"
ROOT = Path(__file__).parents[2]
PART = 10  # frames of clear, fog, night and fog


def lines(folder):
    return [json.loads(line) for line in (folder / "stream.jsonl").read_text().splitlines()]


def frames_in(video):
    capture, count = cv2.VideoCapture(str(video)), 0
    while capture.read()[0]:
        count += 1
    return count


def run(source, out, *flags):
    assert adapt.main([str(source), MODEL, f"--out={out}", *map(str, flags)]) == 0
    return lines(out)


def test_a_folder_with_a_broken_frame(minicity, tmp_path, capsys):
    footage = tmp_path / "footage"
    footage.mkdir()
    for number, path in enumerate(sorted(minicity.glob("rgb_anon/fog/*/*/*.png"))):
        (footage / f"{number}.png").write_bytes(path.read_bytes())
    (footage / "2.png").write_bytes(b"no png")
    out = tmp_path / "out"
    flags = [f"--source-images={minicity / 'rgb_anon/clear'}", "--segment=2", "--labels=labelids"]
    flags += ["--min-confidence=0.4", "--confidence", "--cfg-options", "reservoir.k_max=3"]
    told = run(footage, out, *flags)
    assert [line["name"] for line in told] == ["0", "1", "3"]
    assert [line["index"] for line in told] == [0, 1, 3]
    assert [frames_in(path) for path in sorted((out / "overlay").iterdir())] == [2, 1]
    labels = sorted((out / "gt/footage/train/footage").iterdir())
    assert [path.name for path in labels] == [f"{n}_gt_labelIds.png" for n in (0, 1, 3)]
    label = cv2.imread(str(labels[0]), cv2.IMREAD_UNCHANGED)
    sure = cv2.imread(str(out / "confidence/0.png"), cv2.IMREAD_UNCHANGED)
    assert set(np.unique(label[sure < 0.39 * 255])) == {255}
    assert 255 not in label[sure > 0.41 * 255]
    assert (out / "reservoir" / "manifest.json").is_file()
    printed = capsys.readouterr()
    assert "experts over time: 0-2: 0" in printed.out
    assert f"3 frames, 1 broken; all of it is in {out}" in printed.out
    assert "fps" in printed.out

    again = tmp_path / "again"
    run(footage, again, f"--start-from={out / 'reservoir'}", "--no-adapt", "--overlay=none",
        "--every=3", f"--source-images={minicity / 'rgb_anon/clear'}",
        "--cfg-options", "reservoir.k_max=3")  # fmt: skip
    assert [line["index"] for line in lines(again)] == [0, 3]
    written = [".lock", "reservoir", "state", "stream.jsonl"]
    assert sorted(path.name for path in again.iterdir()) == written


def test_several_inputs_as_a_shell_lists_them(minicity, tmp_path):
    """Images in the order of their numbers; none takes the label of another."""
    first, second, third = sorted(minicity.glob("rgb_anon/fog/train/*/*.png"))
    pixels = {"10.png": first, "2.png": second, "2.jpg": third}
    for name, path in pixels.items():
        cv2.imwrite(str(tmp_path / name), cv2.imread(str(path)))
    inputs = [str(tmp_path / name) for name in pixels]
    flags = [MODEL, "--no-adapt", "--overlay=none", "--labels=trainids"]
    assert adapt.main([*inputs, *flags, f"--out={tmp_path / 'out'}"]) == 0
    names = ["2.jpg", "2.png", "10"]
    assert [line["name"] for line in lines(tmp_path / "out")] == names
    labels = sorted((tmp_path / "out").rglob("*_labelTrainIds.png"))
    assert {path.name for path in labels} == {f"{name}_gt_labelTrainIds.png" for name in names}
    assert len({path.read_bytes() for path in labels}) == 3

    folders = [str(path) for path in sorted(minicity.glob("rgb_anon/[fn]*/val"))]
    assert adapt.main([*folders, *flags, f"--out={tmp_path / 'folders'}"]) == 0
    told = lines(tmp_path / "folders")
    assert [line["name"].split("/")[0] for line in told] == ["val", "val_2"]
    assert [line["index"] for line in told] == [0, 1]


def test_the_gaps_of_a_network_camera_are_in_its_record(minicity, tmp_path, monkeypatch, capsys):
    image = cv2.imread(str(next(minicity.glob("rgb_anon/fog/train/*/*.png"))))
    camera = NetworkCamera("rtsp://host/front", first_wait=0.01, patience=0.1)
    answers = iter([(True, image), (False, None), (True, image)])
    monkeypatch.setattr(camera, "_connect", lambda: True)
    monkeypatch.setattr(camera, "_read_once", lambda: next(answers, (False, None)))
    monkeypatch.setattr("mmseg_reservoir.footage.frames.open_frames", lambda *_: camera)
    told = run("rtsp://host/front", tmp_path / "out", "--no-adapt", "--overlay=none")
    assert (told[-1]["gaps"], told[-1]["gap_seconds"] >= 0.01) == (1, True)
    assert ", 0 s lost in gaps (1); all of it is in" in capsys.readouterr().out


def test_ids_of_cityscapes_are_refused_for_five_classes(tiny_model, tmp_path, capsys):
    state = {
        name: tensor[:5] if "conv_seg" in name else tensor
        for name, tensor in tiny_model.state_dict().items()
    }
    torch.save({"state_dict": state}, tmp_path / "five.pth")
    base = ROOT / "configs" / "minicity" / "segformer-tiny_source.py"
    (tmp_path / "five.py").write_text(
        f"_base_ = {str(base)!r}\nmodel = dict(decode_head=dict(num_classes=5))\n"
    )
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((128, 256, 3), np.uint8))
    flags = [f"--model={tmp_path / 'five.py'}", f"--weights={tmp_path / 'five.pth'}"]
    flags += [f"--out={tmp_path / 'out'}", "--no-adapt", "--labels=labelids"]
    assert adapt.main([str(tmp_path / "a.png"), *flags]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "the model has 5 other classes: write 'trainids' (--labels trainids)" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["drive.mp4"], "there is no drive.mp4: name an image"),
        (["nowhere", MODEL], "there is no nowhere: name an image"),
        ([".", MODEL, "--source-images=nowhere"], "there is no image in the folder nowhere"),
        ([".", MODEL, "--every=0"], "every must be 1"),
        ([".", "--model=segformer"], "no model of mmseg's zoo"),
    ],
)
def test_a_mistake_ends_in_one_line(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cv2.imwrite("0.png", np.zeros((8, 8, 3), np.uint8))
    assert adapt.main(flags) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("error: ")
    assert message in told


def test_footage_needs_no_model(tmp_path, capsys):
    random = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(tmp_path / name), random.integers(0, 255, (256, 512, 3), np.uint8))
    out = tmp_path / "out"
    assert adapt.main([str(tmp_path), f"--out={out}", "--overlay=none", "--labels=trainids"]) == 0
    assert [line["name"] for line in lines(out)] == ["a", "b"]
    assert "the model: the bundled EfficientViT-Seg-B0" in capsys.readouterr().out
    labels = [cv2.imread(str(path), -1) for path in out.rglob("*_gt_labelTrainIds.png")]
    assert [image.shape for image in labels] == [(256, 512)] * 2


def test_a_busy_port_is_told_before_anything_else(minicity, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with open_port(0) as taken:
        port = taken.getsockname()[1]
        assert adapt.main([str(minicity / "rgb_anon/fog"), MODEL, f"--serve={port}"]) == 2
        assert adapt.main([f"--serve={port}"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert all(f"port {port} (" in line for line in told.err.splitlines())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def night_and_fog(minicity, tmp_path_factory):
    """Six frames, the flags for them, and the folder of a run to their end."""
    root = tmp_path_factory.mktemp("night_and_fog")
    footage = root / "footage"
    footage.mkdir()
    for number, path in enumerate(sorted(minicity.glob("rgb_anon/[fn]*/train/*/*.png"))):
        (footage / f"{number}.png").write_bytes(path.read_bytes())
    flags = [f"--source-images={minicity / 'rgb_anon/clear'}", "--save-every=2", "--segment=4"]
    flags += ["--cfg-options", f"reservoir.calibration.cache={root / 'cache'}"]
    flags += ["reservoir.pipeline.unfit=learn"]  # six frames are too few for a domain
    run(footage, root / "whole", *flags)
    return footage, flags, root / "whole"


def saved_frames(folder):
    return StateFolder(folder / "state").newest()[1]["position"]["frames"]


def same(folder, other):
    """Whether two runs wrote the same, apart from times."""
    told = [[{**line, "seconds": 0} for line in lines(one)] for one in (folder, other)]
    assert told[0] == told[1]
    first, second = (read_folder(one / "reservoir").experts for one in (folder, other))
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.parameters, b.parameters)
        assert a.tally == b.tally


def test_sigterm_ends_well_and_resume_continues(night_and_fog, tmp_path, monkeypatch, capsys):
    footage, flags, whole = night_and_fog
    out = tmp_path / "out"
    segment = ReservoirInferencer.segment

    def stop_at_2(self, frame):
        if frame.index == 2:
            signal.raise_signal(signal.SIGTERM)
        return segment(self, frame)

    with monkeypatch.context() as patch:
        patch.setattr(ReservoirInferencer, "segment", stop_at_2)
        assert [line["index"] for line in run(footage, out, *flags)] == [0, 1, 2]
    assert [frames_in(path) for path in sorted((out / "overlay").iterdir())] == [2, 1]
    assert sum(expert.tally.images for expert in read_folder(out / "reservoir").experts) == 3
    other = [*flags[:-3], "--resume", "--min-confidence=0.4", *flags[-3:]]
    assert adapt.main([str(footage), MODEL, f"--out={out}", *other]) == 2
    assert "min_confidence was 0.0, is 0.4" in capsys.readouterr().err
    run(footage, out, *flags[:-3], "--resume", *flags[-3:])
    same(out, whole)
    assert [frames_in(path) for path in sorted((out / "overlay").iterdir())] == [2, 1, 1, 2]


def test_without_out_the_newest_folder_is_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "drive"
    assert adapt._default_folder(folder, False) == adapt._default_folder(folder, True) == folder
    folder.mkdir()
    (tmp_path / "drive_2").mkdir()
    assert adapt._default_folder(folder, False) == tmp_path / "drive_3"
    assert adapt._default_folder(folder, True) == tmp_path / "drive_2"


@pytest.mark.parametrize("word", ["512", "512x", "axb"])
def test_a_size_is_width_and_height(word, capsys):
    with pytest.raises(SystemExit):
        adapt.main([".", MODEL, f"--size={word}"])
    assert "write WIDTHxHEIGHT" in capsys.readouterr().err


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    """A drive, and a folder of its source."""
    root = tmp_path_factory.mktemp("drive")
    write_dataset(root / "source", counts={"clear": {"train": 100}})
    return write_drive(root / "drive.avi", frames=PART), root / "source" / "rgb_anon"


@pytest.fixture(scope="module")
def driven(drive, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, run(drive[0], out, f"--source-images={drive[1]}", "--segment=16")


def most_common(told):
    return Counter(line["expert"] for line in told).most_common(1)[0]


@pytest.mark.slow
def test_fog_returns_to_its_expert(driven):
    out, told = driven
    assert [line["index"] for line in told] == list(range(4 * PART))
    clear, fog, night, again = (told[i * PART : (i + 1) * PART] for i in range(4))
    assert len({most_common(part)[0] for part in (clear, fog, night)}) == 3
    assert most_common(again)[0] == most_common(fog)[0]
    assert most_common(again)[1] >= PART - 3
    assert not any(line["opened"] for line in again)
    assert [frames_in(path) for path in sorted((out / "overlay").iterdir())] == [16, 16, 8]


@pytest.mark.slow
def test_a_saved_reservoir_recognises_fog_within_its_first_frames(drive, driven, tmp_path):
    out, told = driven
    video = write_drive(tmp_path / "fog.avi", frames=5, parts=("fog",), seed=1)
    start = [f"--source-images={drive[1]}", f"--start-from={out / 'reservoir'}"]
    later = run(video, tmp_path / "later", *start)
    fog = most_common(told[PART : 2 * PART])[0]
    assert [line["expert"] for line in later[1:]] == [fog] * 4
    assert {line["k"] for line in later} == {told[-1]["k"]}


@pytest.mark.slow
def test_what_was_killed_is_resumed_and_ends_as_if_it_had_not_been(drive, driven, tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "adapt.py"), str(drive[0]), MODEL]
    command += [f"--source-images={drive[1]}", f"--out={tmp_path / 'out'}", "--segment=4"]
    command += ["--save-every=6"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    out = tmp_path / "out"
    while process.poll() is None and not ((out / STREAM).is_file() and len(lines(out)) > 12):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    told = lines(out)
    assert [line["index"] for line in told] == list(range(len(told)))
    assert 12 < len(told) < 4 * PART
    whole = sorted(p for p in (out / "overlay").iterdir() if "partial" not in p.name)
    assert [frames_in(path) for path in whole[:4]] == [4, 2] * 2
    assert saved_frames(out) in range(12, len(told) + 1, 6)
    assert read_folder(out / "reservoir").experts

    assert subprocess.run([*command, "--resume"], cwd=tmp_path).returncode == 0
    same(out, driven[0])
    videos = sorted((out / "overlay").iterdir())
    assert [frames_in(path) for path in videos] == [4, 2] * 6 + [4]


@pytest.mark.slow
def test_without_arguments_it_drives_through_minicity(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert adapt.main([]) == 0
    out = tmp_path / "work_dirs" / "adapt" / "drive"
    told = lines(out)
    assert len(told) == 56
    assert most_common(told[14:28])[0] == most_common(told[42:])[0]
    assert (out / "reservoir" / "manifest.json").is_file()
    assert "a drive through MiniCity" in capsys.readouterr().out


@contextlib.contextmanager
def served(drive, out):
    """The process of a page, and its state as a viewer gets it."""
    video, source = drive
    command = [sys.executable, "-u", ROOT / "tools" / "adapt.py", video, MODEL, "--serve=0"]
    command += [f"--out={out}", f"--source-images={source}"]
    log = out.with_suffix(".txt")
    with log.open("w") as file:
        process = subprocess.Popen(list(map(str, command)), cwd=out.parent, stdout=file)

    def page(path):
        while not (found := re.search(r"127\.0\.0\.1:\d+", log.read_text())):
            time.sleep(0.2)
            assert process.poll() is None, "it ended before it could be seen"
        with urlopen(f"http://{found[0]}{path}") as answer:
            return answer.read()

    try:
        yield process, page
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_it_can_be_watched_while_it_runs(drive, tmp_path):
    with served(drive, tmp_path / "out") as (process, page):
        while json.loads(page("/state"))["frame"] < 3:
            time.sleep(0.1)
        seen = json.loads(page("/state"))
        assert len(seen["timeline"]) == seen["frame"]
        assert page("/frame/overlay.jpg").startswith(b"\xff\xd8")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    told = lines(tmp_path / "out")
    assert seen["frame"] <= len(told) < 4 * PART
    (video,) = (tmp_path / "out" / "overlay").iterdir()
    assert frames_in(video) == len(told)
    assert saved_frames(tmp_path / "out") == len(told)
    assert read_folder(tmp_path / "out" / "reservoir").experts


@pytest.mark.slow
def test_all_is_final_at_the_end_of_the_stream_while_the_page_stays(drive, driven, tmp_path):
    with served(drive, tmp_path / "out") as (process, page):
        while json.loads(page("/state"))["running"]:
            time.sleep(0.2)
        same(tmp_path / "out", driven[0])
        (video,) = (tmp_path / "out" / "overlay").iterdir()
        assert (video.name, frames_in(video)) == ("segment_00000.mp4", 4 * PART)
        assert f"{4 * PART} frames; all of it is in" in (tmp_path / "out.txt").read_text()
        assert json.loads(page("/state"))["frame"] == 4 * PART
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
