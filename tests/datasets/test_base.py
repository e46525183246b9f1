import numpy as np
import pytest
import torch
from image_files import cifar_records
from small_domains import SmallDomains

from mmseg_reservoir.datasets import SourceBatches, build_source
from mmseg_reservoir.datasets.base import ArrayImages
from mmseg_reservoir.errors import ReservoirError


def test_names_are_checked():
    assert SmallDomains().names == ("fog", "snow", "noise")
    assert SmallDomains(["noise", "fog"]).names == ("noise", "fog")
    with pytest.raises(ReservoirError, match=r"Small has no domain 'fogg'.*did you mean 'fog'"):
        SmallDomains(["fogg"])
    for names in ([], ["fog", "fog"]):
        with pytest.raises(ReservoirError, match="name each domain of Small once"):
            SmallDomains(names)
    with pytest.raises(ReservoirError, match=r"must be a list, got 'fog': write \[fog\]"):
        SmallDomains("fog")
    with pytest.raises(ReservoirError, match="no domain 'snow' was asked for"):
        SmallDomains(["fog"]).domain("snow")


def test_severities_are_checked():
    data = SmallDomains(severity=4)
    data.domain("fog")
    data.domain("fog", 2)
    assert data.opened == [("fog", 4), ("fog", 2)]
    assert data.describe() == dict(title="Small", domains=["fog", "snow", "noise"], severity=4)
    for wrong in (0, 6, "5"):
        with pytest.raises(ReservoirError, match="severity must be 1, 2, 3, 4 or 5"):
            data.domain("fog", wrong)
    with pytest.raises(ReservoirError, match="Small has no severities"):
        SmallDomains().domain("fog", 5)


def test_arrays():
    pixels = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    images = ArrayImages(pixels, np.array([7, 3], np.uint8))
    read, labels = images.batch([1, 0, 1])
    assert len(images) == 2
    assert read.shape == (3, 3, 4, 4)
    assert torch.equal(read[1] * 255, torch.from_numpy(pixels[0]).permute(2, 0, 1).float())
    assert labels.tolist() == [3, 7, 3]
    assert labels.dtype == torch.int64


def test_wrong_arrays():
    good = np.zeros((2, 4, 4, 3), np.uint8)
    with pytest.raises(ReservoirError, match=r"bytes \(n, H, W, 3\), got float64"):
        ArrayImages(good.astype(float), np.zeros(2))
    with pytest.raises(ReservoirError, match=r"2 images, but labels of shape \(3,\)"):
        ArrayImages(good, np.zeros(3))


def test_every_pass_over_the_source_has_the_same_images_in_another_order(tmp_path):
    cifar_records(10, 1).tofile(tmp_path / "test_batch.bin")
    images = build_source(dict(type="cifar10", root=tmp_path, train=False))
    batches = SourceBatches(images, batch_size=4, count=9, seed=1)
    assert len(batches) == 2
    passes = [list(batches) for _ in range(20)]
    for pixels, labels in (batch for once in passes for batch in once):
        assert labels.tolist() == (pixels[:, 0, 0, 0] * 255).round().int().tolist()
    seen = [torch.cat([labels for _, labels in once]).tolist() for once in passes]
    assert all(len(set(labels)) == 8 for labels in seen)
    assert len({number for labels in seen for number in labels}) == 9  # not the tenth image
    assert len({tuple(labels) for labels in seen}) > 10
    again = SourceBatches(images, batch_size=4, count=9, seed=1)
    assert torch.cat([labels for _, labels in again]).tolist() == seen[0]
    with pytest.raises(ReservoirError, match="10 source images make no batch of"):
        SourceBatches(images, batch_size=11)
