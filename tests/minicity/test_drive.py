import cv2
import numpy as np
import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity import render_frame
from mmseg_reservoir.minicity.drive import render_drive, write_drive


def read(path):
    capture, frames = cv2.VideoCapture(str(path)), []
    while (answer := capture.read())[0]:
        frames.append(answer[1])
    return frames


def test_a_drive_is_written_without_loss_and_kept(tmp_path):
    path = write_drive(tmp_path / "new" / "drive.avi", frames=2, parts=("fog", "night", "fog"))
    frames = read(path)
    assert len(frames) == 6
    for frame, rendered in zip(frames, render_drive(2, ("fog", "night", "fog")), strict=True):
        np.testing.assert_array_equal(frame, rendered)
    np.testing.assert_array_equal(frames[4][..., ::-1], render_frame("fog", "val", 2).rgb)
    before = path.stat().st_mtime_ns
    assert write_drive(path) == path
    assert path.stat().st_mtime_ns == before
    assert [p.name for p in path.parent.iterdir()] == ["drive.avi"]


def test_a_drive_of_nothing_leaves_nothing(tmp_path):
    with pytest.raises(ReservoirError, match="needs frames and parts"):
        write_drive(tmp_path / "drive.avi", frames=0)
    assert not list(tmp_path.iterdir())
