"""Whatever a calibration file holds, it is used or refused in the project's own words."""

import contextlib
import json

import hypothesis.strategies as st
import pytest
import torch
from damage import changed, damaged
from hypothesis import given
from small_reservoirs import calibration

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import read_tensors, write_tensors
from mmseg_reservoir.routing import SegmentRouter, StyleRouter
from mmseg_reservoir.style import Calibration
from mmseg_reservoir.style.calibration import calibrate

VECTORS = ("mean", "logvar", "mean_spread", "logvar_spread")
REFERENCE = {"layers": {"norm": 4}, **{name: torch.ones(4) for name in VECTORS}}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    whole = Calibration(calibration().styles, {"style": "x"}, [3, 3], REFERENCE)
    return whole.save(tmp_path_factory.mktemp("calibration") / "whole.safetensors")


def use(path):
    """All that is done with a calibration file."""
    before = path.read_bytes()
    with contextlib.suppress(ReservoirError):  # and nothing else
        loaded = calibrate(lambda images: images, None, file=str(path))
        for router in (StyleRouter(k_max=3), SegmentRouter(k_max=3)):
            with contextlib.suppress(ReservoirError):
                router.fit(loaded).route(loaded.centroid)
    assert path.read_bytes() == before


@given(data=st.data())
def test_damaged_files(file, tmp_path, data):
    path = tmp_path / "a.safetensors"
    path.write_bytes(data.draw(damaged(file.read_bytes())))
    use(path)


@given(data=st.data())
def test_changed_tensors_and_texts(file, tmp_path, data):
    tensors, texts = (dict(sorted(part.items())) for part in read_tensors(file))
    texts = {name: json.loads(text) if name != "format" else text for name, text in texts.items()}
    tree = data.draw(changed({"tensors": tensors, "texts": texts}))
    tensors = tree.get("tensors")
    texts = tree.get("texts")
    tensors = {k: v for k, v in _items(tensors) if isinstance(v, torch.Tensor)}
    texts = {
        k: v if isinstance(v, str) and k == "format" else json.dumps(v, default=str)
        for k, v in _items(texts)
    }
    path = tmp_path / "a.safetensors"
    write_tensors(path, tensors, texts)
    use(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("groups", '["3", 3]', "groups must be whole numbers above 0"),
        ("about", "[]", "about must be a dict"),
        ("layers", '[["norm", 5]]', r"feature moments must be 5 finite numbers, got \(4,\)"),
    ],
)
def test_what_does_not_fit_is_named(file, tmp_path, name, text, message):
    tensors, texts = read_tensors(file)
    path = write_tensors(tmp_path / "a.safetensors", tensors, {**texts, name: text})
    with pytest.raises(ReservoirError, match=message):
        Calibration.load(path)


def _items(value):
    return value.items() if isinstance(value, dict) else ()
