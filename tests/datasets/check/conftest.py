"""A data set of eight tiny files in ACDC's folders, to be damaged by the tests."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.check.checks import check_all
from mmseg_reservoir.datasets.check.survey import list_files, read_files
from mmseg_reservoir.datasets.disk_layout import Cell

SMALL = replace(
    LAYOUTS["acdc"],
    cells=lambda root: (
        [
            Cell("train", c, f"rgb_anon/{c}/train", f"gt/{c}/train", expected=2)
            for c in ("fog", "rain")
        ]
        + [Cell("test", c, f"rgb_anon/{c}/test", needed=False) for c in ("fog", "rain")]
    ),
    size=(4, 6),
)


class Small:
    """The data set: paths of its files, and a check of it."""

    layout = SMALL

    def __init__(self, root):
        self.root = root
        rng = np.random.default_rng(0)
        for condition in ("fog", "rain"):
            for index in range(2):
                write(self.image(condition, index), rng.integers(0, 256, (4, 6, 3), np.uint8))
                write(self.label(condition, index), rng.integers(0, 19, (4, 6), np.uint8))

    def image(self, condition="fog", index=0):
        return self.root / f"rgb_anon/{condition}/train/GOPR1/{index}_rgb_anon.png"

    def label(self, condition="fog", index=0, kind="labelTrainIds"):
        return self.root / f"gt/{condition}/train/GOPR1/{index}_gt_{kind}.png"

    def survey(self, layout=SMALL, **options):
        survey = list_files(layout, self.root)
        for _ in read_files(survey, **options):
            pass
        return survey

    def problems(self, layout=SMALL, **options):
        """(title, cell, text) of everything but notes."""
        findings = check_all(self.survey(layout, **options))
        return [(f.kind.title, f.cell, f.text) for f in findings if not f.kind.is_note]

    def notes(self, layout=SMALL):
        findings = check_all(self.survey(layout))
        return [(f.kind.title, f.cell, f.text) for f in findings if f.kind.is_note]

    write = staticmethod(lambda path, pixels: write(path, pixels))


def write(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.asarray(pixels, np.uint8))


@pytest.fixture
def small(tmp_path):
    return Small(tmp_path / "acdc")
