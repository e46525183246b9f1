import numpy as np
import pytest
import torch
from small_domains import SmallDomains

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
