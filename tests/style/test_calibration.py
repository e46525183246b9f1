import pytest
import torch

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style.calibration import Calibration, cache_key


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
    assert loaded.about == calibration.about
    assert [p.name for p in path.parent.iterdir()] == ["calibration.safetensors"]


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
