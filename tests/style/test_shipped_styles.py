import pytest
import torch

from mmseg_reservoir.config.builder import SEGMENTATION, RunBuilder
from mmseg_reservoir.config.presets import STREAM
from mmseg_reservoir.io.files import shipped
from mmseg_reservoir.style import Calibration, StyleEncoder, calibrate
from mmseg_reservoir.style.shipped_styles import (
    CITYSCAPES,
    SIZE,
    misfit,
    with_cityscapes_styles,
)


def encoder():
    options = {name: value for name, value in STREAM["style"].items() if name != "type"}
    return StyleEncoder(**{**options, "size": SIZE})


def test_the_shipped_file_fits_the_encoder_that_the_options_make():
    options = with_cityscapes_styles({"preset": "robust", "k_max": 4})
    assert options["k_max"] == 4
    assert not RunBuilder(SEGMENTATION, "tent", reservoir=options).needs_calibration
    calibration = calibrate(encoder(), None, **options["calibration"])
    assert calibration.styles.shape == (300, 640)
    assert calibration.styles.dtype == torch.float32
    assert sum(calibration.groups) == 640
    assert shipped(CITYSCAPES).stat().st_size < 500_000


def test_what_is_given_stays():
    given = {"style": {"size": None}, "calibration": {"file": "own.safetensors"}}
    assert with_cityscapes_styles(given) == given


def test_half_precision_changes_no_threshold():
    styles = torch.randn(60, 20, generator=torch.Generator().manual_seed(0)) * 3 + 5
    exact, coarse = (Calibration(s).threshold(0.99) for s in (styles, styles.half().float()))
    assert coarse == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((1024, 2048), None),
        ((256, 512), None),
        ((540, 960), None),
        ((128, 256), None),
        ((64, 128), "smaller than 256x128"),
        ((720, 960), "other proportions"),
        ((480, 1280), "other proportions"),
    ],
)
def test_sizes_that_cannot_be_compared_are_told(size, words):
    told = misfit(*size)
    assert told is None if words is None else words in told
