import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from mmseg_reservoir.datasets import build_dataset, build_source
from mmseg_reservoir.datasets.digits import corrupted_digits, digits
from mmseg_reservoir.errors import ReservoirError


def test_split_is_fixed_and_leaves_out_nothing():
    train, stream = digits(train=True), digits(train=False)
    assert (len(train), len(stream)) == (1597, 200)
    counts = np.bincount(train.labels) + np.bincount(stream.labels)
    assert counts.tolist() == np.bincount(load_digits().target).tolist()
    assert np.array_equal(digits(train=False).pixels, stream.pixels)


def test_images_are_the_scans_enlarged():
    stream = digits(train=False)
    images, labels = stream.batch(range(10))
    assert images.shape == (10, 3, 32, 32)
    assert torch.equal(images[:, 0], images[:, 1])
    assert images.min() == 0
    assert images.max() == 1
    assert labels.tolist() == stream.labels[:10].tolist()
    # The mean over 4 x 4 pixels is nearly the scan's pixel: bilinear enlargement only smooths.
    scans = torch.from_numpy(load_digits().images).float() / 16
    small = torch.nn.functional.avg_pool2d(images[:, 0], 4)
    nearest = torch.cdist(small.flatten(1), scans.flatten(1)).min(dim=1).indices
    assert load_digits().target[nearest.numpy()].tolist() == labels.tolist()


def test_configs_know_it_by_name():
    data = build_dataset({"type": "digits", "corruptions": ["fog", "contrast"], "severity": 3})
    assert data.names == ("fog", "contrast")
    assert len(data.domain("fog")) == 200
    assert len(build_source({"type": "digits"})) == 1597
    with pytest.raises(ReservoirError, match="Digits-C has no domain 'mist'"):
        corrupted_digits(["mist"])
