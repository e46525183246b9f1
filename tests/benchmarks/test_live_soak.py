import json

import cv2
import numpy as np
import pytest

from benchmarks import live_soak
from mmseg_reservoir.footage.frame_writer import count_frames
from mmseg_reservoir.snapshot import read_folder


def note(seconds, step, cpu):
    fixed = {"k": 3, "memory_mb": 600.0, "threads": 6, "files": 11, "reservoir_kb": 2000.0}
    return {"seconds": seconds, "step": step, "cpu": cpu, "state_kb": 4000.0, **fixed}


def test_rates_are_those_between_two_notes():
    first, second = live_soak.rates([note(100, 10, 1.0), note(110, 60, 3.5), note(130, 80, 4.5)])
    assert (first["seconds"], first["fps"], first["cpu_ms"]) == (10, 5.0, 50.0)
    assert (second["seconds"], second["fps"], second["cpu_ms"]) == (30, 1.0, 50.0)


def test_the_table_begins_and_ends_with_the_run():
    notes = live_soak.rates([note(60 * n, 100 * n, n) for n in range(20)])
    lines = live_soak.table(notes, rows=4).splitlines()
    assert len(lines) == 6
    assert lines[2].startswith("| 1.0 | 100 | 600.0 | 6 | 11 | 3 | 2000 | 1.7 |")
    assert lines[-1].startswith("| 19.0 | 1900 |")


def test_the_video_goes_on_as_long_as_it_is_told_to(tmp_path, monkeypatch):
    pictures = [np.full((16, 32, 3), 40 * n, np.uint8) for n in range(5)]
    monkeypatch.setattr(live_soak, "render_drive", lambda length, parts: pictures)
    live_soak.write_video(tmp_path / "drive.mp4", 23, 1)
    assert count_frames(tmp_path / "drive.mp4") == 23


@pytest.mark.slow
def test_a_short_soak_runs_to_its_end(tmp_path, capsys):
    picture = tmp_path / "soak.png"
    times = ["--every=1", "--act-every=2", "--length=4", f"--keep={tmp_path}"]
    assert live_soak.main(["--frames=30", f"--out={picture}", *times]) == 0
    kept = json.loads(picture.with_suffix(".json").read_text())
    assert kept["notes"][-1]["step"] >= 30
    assert kept["found"]["frames"] >= kept["notes"][-1]["step"]
    assert kept["found"]["experts"] == len(read_folder(tmp_path / "out" / "reservoir").experts)
    assert "| minutes | frames |" in picture.with_suffix(".md").read_text()
    assert cv2.imread(str(picture)).shape[1] > 900
    assert "memory_mb: last fifth over second fifth" in capsys.readouterr().out
