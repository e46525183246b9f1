import logging

import pytest
import torch

from mmseg_reservoir.core.moments import Reference
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import write_tensors
from mmseg_reservoir.style import StyleEncoder
from mmseg_reservoir.style.calibration import Calibration, cache_key, calibrate


def test_threshold_is_the_quantile_of_pairwise_distances():
    styles = torch.randn(40, 7)
    calibration = Calibration(styles)
    distances = torch.stack([(a - b).norm() for i, a in enumerate(styles) for b in styles[:i]])
    for q in (0.1, 0.5, 0.999, 1.0):
        expected = torch.quantile(distances, q).item()
        assert calibration.threshold(q) == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(calibration.centroid, styles.mean(0))


def test_repeated_images_do_not_lower_the_threshold():
    styles = torch.randn(10, 3)
    repeated = Calibration(styles.repeat(2, 1))
    assert repeated.threshold(0.01) > 0


def test_file_round_trip(tmp_path):
    calibration = Calibration(torch.randn(5, 3), {"style": {"taps": [2]}, "batch_size": 1})
    path = calibration.save(tmp_path / "new" / "calibration.safetensors")
    loaded = Calibration.load(path)
    assert torch.equal(loaded.styles, calibration.styles)
    assert loaded.origin == calibration.origin
    assert [p.name for p in path.parent.iterdir()] == ["calibration.safetensors"]


def test_the_reference_of_an_alignment_is_saved_with_the_styles(tmp_path):
    means = torch.randn(4, 3)
    measured = {"z.norm": [(means, means)], "a.norm": [(means[:, :2], means[:, :2])]}
    reference = Reference.of(measured).state_dict()
    path = Calibration(torch.randn(5, 3), reference=reference).save(tmp_path / "c.safetensors")
    loaded = Calibration.load(path).reference
    assert list(loaded["layers"].items()) == [("z.norm", 3), ("a.norm", 2)]  # in their order
    for name, value in reference.items():
        assert name == "layers" or torch.equal(loaded[name], value)
    assert Calibration.load(Calibration(torch.randn(5, 3)).save(path)).reference is None


def test_key_depends_on_everything_but_the_order():
    about = {"batch_size": 1, "style": {"taps": [2, 5]}}
    assert cache_key(about) == cache_key({"style": {"taps": [2, 5]}, "batch_size": 1})
    assert cache_key(about) != cache_key({**about, "batch_size": 2})


def test_mistakes_are_explained(tmp_path):
    for q in (0, -1, 1.1):
        with pytest.raises(ReservoirError, match=r"must lie in \(0, 1\]"):
            Calibration(torch.randn(4, 3)).threshold(q)
    with pytest.raises(ReservoirError, match="at least 2 source batches, got 1"):
        Calibration(torch.randn(1, 3))
    with pytest.raises(ReservoirError, match="not finite"):
        Calibration(torch.tensor([[1.0], [float("nan")]]))
    with pytest.raises(ReservoirError, match="same style"):
        Calibration(torch.ones(4, 3)).threshold()
    with pytest.raises(ReservoirError, match="no calibration file at"):
        Calibration.load(tmp_path / "none.safetensors")
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(b"12345678901234567890")
    with pytest.raises(ReservoirError, match=r"cannot be read.*calibrate again"):
        Calibration.load(damaged)


class Shuffled:
    """Three batches of one number, others in every pass."""

    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return iter([torch.full((1,), 10.0 * self.passes + i) for i in range(3)])


class Known:
    """Batches of a source that knows what they are."""

    def __init__(self, batches, name="a", batch_size=None):
        self.batches, self.name, self.batch_size = batches, name, batch_size
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return iter(self.batches)

    def identity(self):
        return {"name": self.name}


IMAGES = [torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(i)) for i in range(4)]


@pytest.mark.parametrize(
    ("batches", "passes", "expected"),
    [
        (None, 1, [10, 11, 12]),
        (2, 1, [10, 11]),
        (3, 1, [10, 11, 12]),
        (7, 3, [10, 11, 12, 20, 21, 22, 30]),
    ],
)
def test_reads_until_there_are_enough(batches, passes, expected):
    source = Shuffled()
    found = calibrate(torch.neg, source, batches=batches)
    assert source.passes == passes
    assert found.styles.flatten().tolist() == [-number for number in expected]


@pytest.mark.parametrize("batches", [0, 1, -3])
def test_senseless_numbers(batches):
    with pytest.raises(ReservoirError, match="batches must be a whole number of at least 2"):
        calibrate(torch.neg, Shuffled(), batches=batches)


def test_a_source_that_gives_nothing_new():
    with pytest.raises(ReservoirError, match="no complete batch"):
        calibrate(torch.neg, [])
    with pytest.raises(ReservoirError, match=r"asks for 5 .* the same 2 in every pass"):
        calibrate(torch.neg, [torch.zeros(1), torch.ones(1)], batches=5)
    with pytest.raises(ReservoirError, match=r"needs source images, or reservoir.calibration.file"):
        calibrate(torch.neg, None)


def test_smaller_batches_are_left_out():
    source = Known([*IMAGES, IMAGES[0][:1]], batch_size=2)
    source.identity = lambda: None
    encoder = StyleEncoder("seeded")
    styles = calibrate(encoder, source).styles
    assert torch.equal(styles, torch.stack([encoder(images) for images in IMAGES]))


def test_what_a_source_has_told_is_kept_in_the_cache(tmp_path):
    encoder, source = StyleEncoder("seeded"), Known(IMAGES)
    first = calibrate(encoder, source, cache=tmp_path)
    again = calibrate(StyleEncoder("seeded"), source, cache=tmp_path)
    assert source.passes == 1
    assert torch.equal(first.styles, again.styles)
    assert again.groups == encoder.groups == [64, 128, 128]
    calibrate(StyleEncoder("seeded", statistic="mean"), source, cache=tmp_path)
    calibrate(encoder, Known(IMAGES, "b"), cache=tmp_path)
    calibrate(encoder, source, batches=3, cache=tmp_path)
    assert source.passes == 3
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_needs_no_source_but_the_same_encoder(tmp_path):
    encoder = StyleEncoder("seeded")
    file = calibrate(encoder, IMAGES).save(tmp_path / "saved.safetensors")
    assert calibrate(encoder, None, file=str(file)).groups == encoder.groups
    with pytest.raises(ReservoirError, match="made with another style encoder"):
        calibrate(StyleEncoder("seeded", statistic="var"), None, file=str(file))
    # A plain function cannot tell what it is.
    assert isinstance(calibrate(torch.neg, None, file=str(file)), Calibration)


def test_few_batches_are_told(caplog):
    calibrate(torch.neg, [torch.rand(1) for _ in range(49)])
    assert "only 49 source batches" in caplog.text
    caplog.clear()
    calibrate(torch.neg, [torch.rand(1) for _ in range(50)])
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_cache_that_cannot_be_written_costs_a_warning_only(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    encoder, source = StyleEncoder("seeded"), Known(IMAGES, "a")
    found = calibrate(encoder, source, cache=str(tmp_path / "file" / "cache"))
    assert len(found.styles) == len(IMAGES)
    assert "cannot be cached (" in caplog.text
    assert "Set reservoir.calibration.cache to another folder" in caplog.text


@pytest.mark.parametrize("damage", ["empty", "half", "nothing said"])
def test_a_damaged_cache_is_made_anew(tmp_path, caplog, damage):
    encoder, source = StyleEncoder("seeded"), Known(IMAGES, "a")
    first = calibrate(encoder, source, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    if damage == "nothing said":
        write_tensors(file, {}, {"format": "mmseg_reservoir.calibration.2"})
    else:
        file.write_bytes(b"" if damage == "empty" else content[: len(content) // 2])
    again = calibrate(encoder, source, cache=tmp_path)
    assert torch.equal(again.styles, first.styles)
    assert f"{file}" in caplog.text
    assert "ignoring a damaged file in the cache" in caplog.text
    assert torch.equal(Calibration.load(file).styles, first.styles)


def test_progress_is_logged_without_a_terminal(monkeypatch, caplog):
    monkeypatch.setattr("mmseg_reservoir.style.calibration.INTERVAL", 0.0)
    with caplog.at_level("INFO"):
        calibrate(lambda images: images.mean(dim=(0, 2, 3)), IMAGES)
    lines = [text for text in caplog.messages if text.startswith("calibrating: ")]
    assert lines[0] == "calibrating: reading the source images ..."
    assert lines[-1] == f"calibrating: {len(IMAGES)} source batches so far"
