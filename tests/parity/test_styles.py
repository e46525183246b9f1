"""Style vectors, source centroid and threshold of the published implementation."""

import pytest
import torch
from parity_trace import runs, shared, source_batches, source_images

_RELATIVE = 1e-4


def assert_same_styles(ours, recorded):
    error = (ours - recorded).norm(dim=-1) / recorded.norm(dim=-1)
    assert float(error.max()) < _RELATIVE


def test_source_styles(book):
    assert_same_styles(book.calibration().styles, shared("styles")["source.LOGVAR"])


def test_source_styles_are_those_of_whole_batches(book):
    batches = list(source_batches(0))
    for position in (0, len(batches) - 1):
        style = book.encode(source_images(batches[position]))
        assert_same_styles(style, book.calibration().styles[position])


@runs("tau")
def test_stream_styles(run, book):
    ours = torch.stack([book.encode(batch, run.style_format) for batch in run.batches()])
    assert_same_styles(ours, run.styles)


@runs("tau")
def test_source_centroid_and_threshold(run, book):
    quantile = run.cfg["RESERVOIRTTA"]["QUANTILE_THR"]
    calibration = book.calibration(run.style_format)
    assert calibration.threshold(quantile) == pytest.approx(float(run.trace["tau"]), rel=_RELATIVE)
    assert_same_styles(calibration.centroid, run.trace["source_centroid"])
