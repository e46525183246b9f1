import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from benchmarks import style_streams
from benchmarks.style_streams import image_statistics, pooled, read, select, stream_order
from mmseg_reservoir.datasets.base import ArrayImages
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity import render_frame
from mmseg_reservoir.style.vgg import StyleEncoder

SHALLOW = {"taps": "shallow", "statistic": "logvar"}


def normalise(images):
    mean = torch.tensor([123.675, 116.28, 103.53]).view(3, 1, 1)
    std = torch.tensor([58.395, 57.12, 57.375]).view(3, 1, 1)
    return (torch.from_numpy(images).permute(0, 3, 1, 2).float() - mean) / std


def test_conditions_are_never_sorted_by_accident():
    names = ["Snow", "source", "dusk", "Fog", "dawn", "Night", "unseen", "Rain"]
    assert stream_order(names) == ["Fog", "Night", "Rain", "Snow", "dusk", "dawn"]
    told = stream_order(names, ["night", "Dawn", "snow"])
    assert told == ["Night", "dawn", "Snow", "dusk", "Fog", "Rain"]


@pytest.fixture
def file(tmp_path):
    rows = torch.zeros(2, 320)
    names = ("source", "snow", "dusk", "dawn", "fog")
    tensors = {f"{n}/{part}": rows.clone() for n in names for part in ("mean", "logvar")}
    path = tmp_path / "styles.safetensors"

    def write(about=None, metadata=None):
        save_file(tensors, path, metadata=metadata)
        if about is not None:
            path.with_suffix(".json").write_text(json.dumps(about))
        return path

    return write


def test_the_order_that_the_file_tells(file):
    assert read(file()).conditions == ["fog", "snow", "dawn", "dusk"]
    counts = {"source": 2, "dusk": 2, "snow": 2, "dawn": 2, "fog": 2, "gone": 1}
    assert read(file({"counts": counts})).conditions == ["fog", "snow", "dusk", "dawn"]
    told = {"counts": counts, "order": ["dawn", "snow", "fog", "dusk"]}
    assert read(file(told)).conditions == told["order"]
    metadata = {"order": json.dumps(["snow", "dusk", "dawn", "fog"])}
    assert read(file(told, metadata)).conditions == ["snow", "dusk", "dawn", "fog"]


def test_fewer_taps_may_be_recorded():
    statistics = {"fog/logvar": torch.arange(640.0).view(2, 320)}
    assert torch.equal(select(statistics, "fog", SHALLOW), statistics["fog/logvar"])
    with pytest.raises(ReservoirError, match=r"\[2, 5, 7\] are recorded: taps \[2, 10\] are miss"):
        select(statistics, "fog", {**SHALLOW, "taps": [2, 10]})


@pytest.mark.parametrize("statistic", ["logvar", "mean", "mean_var"])
def test_pooled_statistics_are_those_of_the_encoder(statistic):
    images = 255 * np.random.default_rng(0).random((60, 8, 8, 3), dtype=np.float32)
    images[:30] /= 4
    means, variances = image_statistics(style_streams._encoder("seeded"), images)
    assert means.shape == variances.shape == (60, 320)
    batch = pooled(means, variances, torch.tensor([64] * 64 + [16] * 256))
    statistics = {f"fog/{part}": value[None] for part, value in batch.items()}
    found = select(statistics, "fog", {"taps": "shallow", "statistic": statistic})[0].float()
    expected = StyleEncoder("seeded", statistic=statistic)(normalise(images))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_minicity_is_encoded_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    few = {"source": 2, "unseen": 1, "condition": 1}
    found = style_streams.minicity("seeded", few)
    assert found.conditions == ["fog", "night", "rain", "snow"]
    assert found.statistics["source/mean"].shape == (2, 320)
    rain = normalise(render_frame("rain", "train", 0).rgb[None])
    style = select(found.statistics, "rain", SHALLOW)[0]
    torch.testing.assert_close(style, StyleEncoder("seeded")(rain), rtol=1e-4, atol=1e-4)
    assert not torch.equal(found.statistics["unseen/mean"][0], found.statistics["source/mean"][0])
    monkeypatch.setattr(style_streams, "render_frame", None)
    again = style_streams.minicity("seeded", few)
    assert torch.equal(again.statistics["snow/mean"], found.statistics["snow/mean"])
    with pytest.raises(TypeError):  # another recipe is not the same
        style_streams.minicity("seeded", {**few, "source": 3})


def test_batches_of_digits(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    halves = {train: style_streams.digits(train, stream_images=898) for train in (True, False)}
    assert [len(half) for half in halves.values()] == [899, 898]
    few = {t: ArrayImages(half.pixels[:6], half.labels[:6]) for t, half in halves.items()}
    monkeypatch.setattr(style_streams, "digits", lambda train, stream_images: few[train])
    monkeypatch.setattr(style_streams, "BATCH", 4)
    found = style_streams.classification("seeded", {"source": 5, "unseen": 3, "condition": 2})
    assert found.conditions == list(style_streams.CORRUPTIONS)
    shapes = {key: tuple(value.shape) for key, value in found.statistics.items()}
    assert shapes["source/logvar"] == (5, 320)
    assert shapes["unseen/image_logvar"] == (3, 320)
    assert shapes["pixelate/mean"] == (2, 320)
    assert all(torch.isfinite(value).all() for value in found.statistics.values())
