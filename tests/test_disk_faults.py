"""Whatever write fails: what was there before is whole, and the error names path and remedy."""

import csv
import errno
import importlib
import json
import logging
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from disk_faults import ERRORS, FailingDisk
from small_reservoirs import calibration, make_pipeline, show

from mmseg_reservoir.core.outcome import NOT_ADAPTING
from mmseg_reservoir.errors import ReservoirError, WriteError
from mmseg_reservoir.io.checkpoints import read_checkpoint, write_checkpoint
from mmseg_reservoir.io.files import append_bytes, remove_file, write_figure, write_text
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.runs.record import RunRecord
from mmseg_reservoir.runs.route_log import read_routes
from mmseg_reservoir.runs.state_folder import StateFolder
from mmseg_reservoir.runs.style_sample import read_styles
from mmseg_reservoir.snapshot import save_reservoir
from mmseg_reservoir.snapshot.folder import check_folder, read_folder
from mmseg_reservoir.style import Calibration

REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EIO: "check the disk",
    errno.EROFS: "make the disk writable",
}

CONFIGS = Path(__file__).resolve().parent.parent / "configs"

# A case prepares version 1 in a folder, and returns what writes version 2. Its reader returns the
# version that is there, and fails if anything is not whole.


def text(folder):
    write_text(folder / "a.txt", "1")
    return lambda: write_text(folder / "a.txt", "2")


def read_text(folder):
    return int((folder / "a.txt").read_text())


def checkpoint(folder):
    write_checkpoint(folder / "a.pth", {"version": 1, "state_dict": {"w": torch.zeros(9)}})
    content = {"version": 2, "state_dict": {"w": torch.zeros(9)}}
    return lambda: write_checkpoint(folder / "a.pth", content)


def read_checkpoint_version(folder):
    return read_checkpoint(folder / "a.pth")["version"]


def source_styles(folder):
    calibration().save(folder / "calibration.safetensors")
    other = Calibration(calibration().styles, {"version": 2})
    return lambda: other.save(folder / "calibration.safetensors")


def read_source_styles(folder):
    return Calibration.load(folder / "calibration.safetensors").origin.get("version", 1)


def state(folder):
    states = StateFolder(folder / "state")
    for images in (0, 1):
        states.save(images, {"weights": torch.full((9,), images)}, {})
    return lambda: states.save(2, {"weights": torch.full((9,), 2)}, {})


def read_state_version(folder):
    return int(StateFolder(folder / "state").newest()[1]["weights"][0])


@cache
def shown_pipeline():
    pipeline = make_pipeline()
    show(pipeline, ["clear"], count=2)
    return pipeline


def reservoir(folder):
    pipeline = shown_pipeline()
    save_reservoir(pipeline, folder / "reservoir", {"version": 1})
    return lambda: save_reservoir(pipeline, folder / "reservoir", {"version": 2})


def read_reservoir(folder):
    return read_folder(folder / "reservoir").about["version"]


def record(folder, end=False):
    run = RunRecord(folder, "mIoU", {"seed": 0})
    for version in (1, 2):
        run.add_images(version, "fog", ["a.png"], NOT_ADAPTING)
        run.visit(version, "fog").score = 50.0
        run.styles.add(version, torch.zeros(3))
        if version == 1:
            run.write()
    return (lambda: run.finish({})) if end else run.write


def finished_record(folder):
    return record(folder, end=True)


def read_record(folder):
    results = json.loads((folder / "results.json").read_text())
    rows = list(csv.reader((folder / "results.csv").open()))
    assert len(rows) - 1 in (len(results["visits"]), len(results["visits"]) - 1)
    routes = results["routes"] if results["complete"] else read_routes(folder)
    assert len(routes) >= len(results["visits"])
    assert len(read_styles(folder).routes) in (1, 2)
    return len(results["visits"])


def frames(folder):
    from small_outcomes import make_outcome

    from mmseg_reservoir.footage import FrameResult
    from mmseg_reservoir.footage.frame_writer import FrameWriter

    palette = [[0, 0, 0], [255, 0, 0]]
    writer = FrameWriter(
        folder, "drive", palette, shown="frames", labels="trainids", confidence=True
    )
    image, labels = np.zeros((16, 16, 3), np.uint8), np.zeros((16, 16), np.uint8)
    confidence = np.ones((16, 16), np.float32)

    def write(version):
        outcome = make_outcome(seconds=0.1)
        result = FrameResult(f"{version}", version, image, labels, confidence, outcome)
        writer.write(result)

    write(1)
    return lambda: write(2)


def read_frames(folder):
    pictures = [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in folder.rglob("*.png")]
    assert all(picture.shape[:2] == (16, 16) for picture in pictures)
    lines = (folder / "stream.jsonl").read_text().splitlines(keepends=True)
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    assert len(pictures) >= 4 * len(whole)
    return len(whole)


def figure(folder):
    from matplotlib.figure import Figure

    write_figure(folder / "a.png", Figure(figsize=(1, 1)), dpi=10)
    return lambda: write_figure(folder / "a.png", Figure(figsize=(2, 2)), dpi=10)


def read_figure(folder):
    return cv2.imread(str(folder / "a.png")).shape[0] // 10


def data_set(folder):
    def write(version):
        counts = {"fog": {"train": version}}
        return write_dataset(folder / "minicity", counts=counts, overwrite=True)

    write(1)
    return lambda: write(2)


def read_data_set(folder):
    told = json.loads((folder / "minicity" / "minicity.json").read_text())["counts"]
    found = len([cv2.imread(str(path)).shape for path in folder.glob("minicity/*/*/*/*/*.png")])
    assert found == 2 * told["fog"]["train"]
    return told["fog"]["train"]


CASES = {
    "text": (text, read_text),
    "checkpoint": (checkpoint, read_checkpoint_version),
    "calibration": (source_styles, read_source_styles),
    "state": (state, read_state_version),
    "reservoir": (reservoir, read_reservoir),
    "record": (record, read_record),
    "finished record": (finished_record, read_record),
    "frames": (frames, read_frames),
    "figure": (figure, read_figure),
    "data set": (data_set, read_data_set),
}


def listing(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def message_of(write):
    """What the error of a write says; None if there was none."""
    try:
        write()
    except WriteError as error:
        return str(error)
    return None


def is_explained(message, disk, folder):
    """Whether a message names a path that is concerned, and what to do."""
    return (
        str(folder) in message
        and REMEDIES[disk.error] in message
        and os.strerror(disk.error) in message
        and "\n" not in message
    )


@pytest.mark.parametrize("case", [case for case in CASES if case != "data set"])
@pytest.mark.parametrize(("error", "lasting"), [(errno.ENOSPC, False), (errno.EROFS, True)])
def test_some_write_fails(tmp_path, case, error, lasting):
    fail_writes(tmp_path, case, error, lasting, step=4)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("case", CASES)
def test_whatever_write_fails(tmp_path, case, error, lasting):
    fail_writes(tmp_path, case, error, lasting, step=1)


def fail_writes(tmp_path, case, error, lasting, step):
    """Let every so-many-th write fail, and look at what is left."""
    prepare, read = CASES[case]
    with FailingDisk(tmp_path, error=error).mounted() as disk:
        second = prepare(tmp_path / "counted")
        before = len(disk.writes)
        assert read(tmp_path / "counted") == 1
        known = listing(tmp_path / "counted")
        second()
    assert read(tmp_path / "counted") == 2
    known |= listing(tmp_path / "counted")
    total = len(disk.writes) - before
    assert total > 3
    for number in range(1, total + 1, step):
        folder = tmp_path / str(number)
        second = prepare(folder)
        failing = FailingDisk(folder, number, error, lasting)
        with failing.mounted():
            message = message_of(second)
        assert failing.failed
        failed = message is not None
        assert not failed or is_explained(message, failing, folder), (failing.failed, message)
        version = check_left(folder, case, read, failing)
        # Only what is left over may fail to be removed without a word.
        assert failed or (version == 2 and failing.failed[0].split()[0] in ("rmdir", "unlink"))
        where = (failing.failed, listing(folder))
        strangers = listing(folder) - known
        assert all(".partial" in name or name.startswith(".") for name in strangers), where
        assert lasting or not failed or not strangers, where
        shutil.rmtree(folder)


def check_left(folder, case, read, disk):
    """The version that is there; a disk that lets nothing be renamed back may hide it."""
    if case in ("reservoir", "data set"):
        name = "reservoir" if case == "reservoir" else "minicity"
        if not (folder / name).exists():
            assert disk.lasting
            (old,) = folder.glob(f".{name}.*.old")
            if case == "reservoir":
                with pytest.raises(ReservoirError, match=f"rename {old}, which was being replaced"):
                    check_folder(folder / name)
            old.rename(folder / name)
    return read(folder)


def test_bytes_that_were_appended_before_stay(tmp_path):
    path = tmp_path / "a.jsonl"
    size = append_bytes(path, b"one\n", 0)
    with (
        FailingDisk(tmp_path, 3).mounted(),
        pytest.raises(
            WriteError, match=r"cannot write .*a\.jsonl \(No space left on device\): free"
        ),
    ):
        append_bytes(path, b"a second\n", size)
    assert path.read_bytes() == b"one\n"
    path.write_bytes(b"one\nhalf a l")  # where it was killed
    assert append_bytes(path, b"two\n", size) == 8
    assert path.read_bytes() == b"one\ntwo\n"


def test_what_cannot_be_removed_is_named(tmp_path):
    with (
        FailingDisk(tmp_path, 1, errno.EROFS).mounted(),
        pytest.raises(WriteError, match=r"cannot remove .*a\.txt \(Read-only file system\): make"),
    ):
        remove_file(tmp_path / "a.txt")


def test_a_reservoir_is_saved_where_a_process_of_this_number_was_killed(tmp_path):
    second = reservoir(tmp_path)
    for kind in ("new", "old"):
        left = tmp_path / f".reservoir.{os.getpid()}.{kind}"
        left.mkdir()
        (left / "expert_07.safetensors").touch()
    second()
    assert read_reservoir(tmp_path) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["reservoir"]
    assert not (tmp_path / "reservoir" / "expert_07.safetensors").exists()


def test_a_full_device_is_explained(tmp_path):
    """Without any pretending: /dev/full is always full."""
    partial = tmp_path / f"a.txt.{os.getpid()}.partial"
    partial.symlink_to("/dev/full")
    with pytest.raises(WriteError, match=r"a\.txt \(No space left on device\): free some space"):
        write_text(tmp_path / "a.txt", "text")
    assert list(tmp_path.iterdir()) == []
    assert Path("/dev/full").exists()


def segmentation(folder, data):
    """The command line of a test of three images, with pictures, saved often."""
    names = ("StrictCheckpointHook", "AdaptationHook", "ProgressHook", "ResultsHook")
    hooks = [dict(type=name) for name in names]
    hooks += [dict(type="PseudoLabelHook", show_dir=str(folder / "panels"), frames=[1])]
    hooks += [dict(type="ResumeHook", images=2)]
    steps = [dict(type="LoadImageFromFile"), dict(type="Resize", scale=(64, 32))]
    steps += [dict(type="LoadAnnotations"), dict(type="PackSegInputs")]
    config = folder.parent / f"{folder.name}.py"
    config.write_text(
        f"_base_ = {str(CONFIGS / 'minicity/segformer-tiny_tent_reservoir.py')!r}\n"
        f"custom_hooks = {hooks}\ntest_dataloader = dict(dataset=dict(pipeline={steps}))\n"
    )
    options = {
        "test_dataloader.dataset.data_root": data,
        "source_images.data_root": data / "rgb_anon/clear/train",
        "test_cfg.domains": "[fog]",
        "test_cfg.rounds": 1,
        "reservoir.preset": "published",
        "reservoir.style.weights": "seeded",
        "reservoir.calibration.cache": folder.parent / "cache",
    }
    return [config, "--random-weights", f"--work-dir={folder / 'w'}", *as_options(options)]


def classification(folder, data):
    """The command line of a test of four batches, saved often."""
    options = {
        "model.pretrained": False,
        "model.random": True,
        "stream.rounds": 1,
        "stream.batch_size": 100,
        "data.corruptions": "[fog,snow]",
        "device": "cpu",
        "saving.images": 200,
        "source_images.num_images": 100,
        "reservoir.calibration.batches": 4,
        "reservoir.calibration.cache": folder.parent / "cache",
    }
    config = CONFIGS / "cls" / "digits_convnet.py"
    row = ["--method=tent", "--with-reservoir=published"]
    return [config, *row, f"--work-dir={folder / 'w'}", *as_options(options)]


def as_options(options):
    return ["--cfg-options", *(f"{name}={value}" for name, value in options.items())]


RUNS = {"test_tta": segmentation, "test_cls": classification}


def run_tool(tool, words, capsys):
    """The exit code of a run in this process, and what it printed."""
    if "mmengine.logging" in sys.modules:
        sys.modules["mmengine.logging"].MMLogger._instance_dict.clear()  # see conftest.py
    logging.getLogger("mmseg_reservoir").handlers.clear()  # that write to an earlier stderr
    capsys.readouterr()
    code = importlib.import_module(f"tools.{tool}").main([str(word) for word in words])
    return code, capsys.readouterr()


def run_to_the_end(tool, folder, data, capsys):
    """The writes of a run on a good disk."""
    folder.mkdir()
    with FailingDisk(folder).mounted() as disk:
        code, printed = run_tool(tool, RUNS[tool](folder, data), capsys)
    assert code == 0, printed.err
    return disk.writes


def fail_and_resume(tool, disk, folder, data, capsys):
    """Begin a run on a disk that fails, look at what is left, and resume the run."""
    words = RUNS[tool](folder, data)
    with disk.mounted():
        code, printed = run_tool(tool, words, capsys)
    told = f"{disk.failed}\n{printed.out}{printed.err}"
    assert disk.failed, told
    assert "Traceback" not in told
    if code:
        (line,) = [x for x in printed.err.splitlines() if x.startswith("error: ")]
        assert code == 2
        assert is_explained(line, disk, folder), told
    else:  # what a run can do without: a state of several, its log, the number in its lock
        assert re.search(r"cannot write|(unlink|rmdir) |close .*lock|open \S+/w'", told), told
    assert not [x for x in listing(folder) if ".partial" in x] or disk.lasting, told
    code, printed = run_tool(tool, [*words, "--resume"], capsys)
    assert code == 0, f"{told}{printed.err}"
    assert not [x for x in listing(folder) if ".partial" in x], told


def outcome(folder):
    """All that came out of a run, but for its clocks and its folder."""
    results = json.loads((folder / "w" / "results.json").read_text())
    assert results["complete"]
    read_folder(folder / "w" / "reservoir")
    pictures = {path.name: path.read_bytes() for path in folder.rglob("*.png")}
    routes = [{k: v for k, v in route.items() if k != "seconds"} for route in results["routes"]]
    scores = [visit.get("mIoU", visit.get("error")) for visit in results["visits"]]
    return routes, scores, pictures


@pytest.mark.parametrize(
    ("tool", "write", "error", "lasting"),
    [
        ("test_tta", r"write .*overlay\.png", errno.ENOSPC, False),
        ("test_cls", r"fsync .*expert_00", errno.EROFS, True),
    ],
)
def test_a_run_is_resumed_after_a_fault(tmp_path, minicity, capsys, tool, write, error, lasting):
    folder = tmp_path / "run"
    folder.mkdir()
    disk = FailingDisk(folder, write, error, lasting)
    fail_and_resume(tool, disk, folder, minicity, capsys)
    assert outcome(folder)


@pytest.mark.slow
@pytest.mark.parametrize("tool", RUNS)
def test_a_run_is_resumed_whatever_write_failed(tmp_path, minicity, capsys, tool):
    run_to_the_end(tool, tmp_path / "first", minicity, capsys)  # fills the cache
    writes = run_to_the_end(tool, tmp_path / "whole", minicity, capsys)
    whole = outcome(tmp_path / "whole")
    kinds = [(error, lasting) for error in ERRORS for lasting in (False, True)]
    for number in range(1, len(writes) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        error, lasting = kinds[number % len(kinds)]
        disk = FailingDisk(folder, number, error, lasting)
        fail_and_resume(tool, disk, folder, minicity, capsys)
        assert outcome(folder) == whole, disk.failed
        shutil.rmtree(folder)
