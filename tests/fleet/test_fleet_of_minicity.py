"""Four MiniCity streams on two workers, one of which is killed."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from mmseg_reservoir.cli import adapt, fleet
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.minicity.drive import render_drive
from mmseg_reservoir.seg.label_images import write_image
from mmseg_reservoir.snapshot import read_folder
from mmseg_reservoir.snapshot.merge import same

pytest.importorskip("ray", reason="fleets need the extra ray")

MODEL = "--model=minicity/segformer-tiny_tent_robust"
PARTS = (("fog", "night"), ("night", "rain"), ("rain", "snow"), ("snow", "fog"))
FRAMES = 8
CLOCKS = ("seconds",)


def lines(folder):
    told = [json.loads(line) for line in (folder / "stream.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in CLOCKS} for line in told]


def experts(folder):
    return [{**vars(e), "tally": vars(e.tally)} for e in read_folder(folder).experts]


def kill_when_saved(folder: Path, killed: list[int]) -> None:
    """End the process that writes into a folder, once it has saved a state."""
    for _ in range(6000):
        if list((folder / "state").glob("*.safetensors")):
            killed.append(int((folder / ".lock").read_text()))
            os.kill(killed[0], signal.SIGKILL)
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_all_finish_and_equal_single_runs_where_nothing_is_merged(tmp_path):
    source = tmp_path / "source"
    write_dataset(source, counts={"clear": {"train": 40}})
    streams = []
    for number, parts in enumerate(PARTS):
        streams.append(tmp_path / "footage" / f"camera{number}")
        for index, image in enumerate(render_drive(FRAMES, parts, seed=number)):
            write_image(streams[-1] / f"{index:03d}.png", image)
    flags = [MODEL, f"--source-images={source / 'rgb_anon/clear/train'}", "--device=cpu"]
    out, killed = tmp_path / "fleet", []
    threading.Thread(target=kill_when_saved, args=(out / "camera1", killed), daemon=True).start()
    words = [*map(str, streams), *flags, f"--out={out}", "--no-merge", "--save-every=4", "--jobs=2"]
    assert fleet.main(words) == 0
    assert killed
    for stream in streams:
        single = tmp_path / "single" / stream.name
        assert adapt.main([str(stream), *flags, f"--out={single}", "--overlay=none"]) == 0
        assert lines(out / stream.name) == lines(single)
        assert same(experts(out / stream.name / "reservoir"), experts(single / "reservoir"))
    assert not (out / "reservoir").exists()

    merged = tmp_path / "merged"
    words = [*map(str, streams), *flags, f"--out={merged}", "--merge-every=8", "--jobs=2"]
    assert fleet.main(words) == 0
    images = [expert["tally"]["images"] for expert in experts(merged / "reservoir")]
    # Frames that fit no domain yet are only predicted, and not counted.
    assert 0 < sum(images) <= len(PARTS) * 2 * FRAMES
