import contextlib
import json
import os
import signal
import socket
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

from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.minicity.drive import write_drive
from mmseg_reservoir.portable import read_folder
from mmseg_reservoir.seg.video_frames import NetworkCamera
from tools import adapt

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
    assert sorted(path.name for path in again.iterdir()) == ["reservoir", "stream.jsonl"]


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
    monkeypatch.setattr(adapt, "open_frames", lambda *_: camera)
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
    assert "the model has 5 classes of its own: write 'trainids' (--labels trainids)" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["drive.mp4"], "which model? The one that comes with us knows MiniCity alone"),
        (["nowhere", MODEL], "there is no nowhere: name an image"),
        ([".", MODEL, "--source-images=nowhere"], "there is no image in the folder nowhere"),
        ([".", MODEL, "--every=0"], "every must be 1"),
        ([".", MODEL, "--save-every=0"], "--save-every must be 1 frame or more, got 0"),
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
def test_after_an_end_by_force_all_that_was_finished_is_there(drive, tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "adapt.py"), str(drive[0]), MODEL]
    command += [f"--source-images={drive[1]}", f"--out={tmp_path / 'out'}", "--segment=4"]
    command += ["--save-every=9"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    stream = tmp_path / "out" / "stream.jsonl"
    while process.poll() is None and not (stream.is_file() and len(lines(tmp_path / "out")) >= 18):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    told = lines(tmp_path / "out")
    assert [line["index"] for line in told] == list(range(len(told)))
    assert 18 <= len(told) < 4 * PART
    whole = sorted(p for p in (tmp_path / "out/overlay").iterdir() if "partial" not in p.name)
    assert len(whole) >= 4
    assert all(frames_in(path) == 4 for path in whole)
    saved = read_folder(tmp_path / "out" / "reservoir")
    assert sum(expert.tally.images for expert in saved.experts) in range(9, len(told) + 1, 9)


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


@pytest.mark.slow
def test_it_can_be_watched_while_it_runs(drive, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    video, source = drive
    command = [sys.executable, ROOT / "tools" / "adapt.py", video, MODEL, f"--serve={port}"]
    command += [f"--out={tmp_path / 'out'}", f"--source-images={source}"]
    process = subprocess.Popen(list(map(str, command)), cwd=tmp_path)

    def state():
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/state") as answer:
            return json.load(answer)
        time.sleep(0.2)
        assert process.poll() is None, "it ended before it could be seen"
        return {"frame": 0}

    try:
        while state()["frame"] < 3:
            time.sleep(0.1)
        seen = state()
        assert len(seen["timeline"]) == seen["frame"]
        with urlopen(f"http://127.0.0.1:{port}/frame/overlay.jpg") as picture:
            assert picture.read(2) == b"\xff\xd8"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert len(lines(tmp_path / "out")) >= seen["frame"]
    assert (tmp_path / "out" / "reservoir" / "manifest.json").is_file()
