import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from mmseg_reservoir.cls import AdaptiveClassifier
from mmseg_reservoir.cls.streams import build_stream
from mmseg_reservoir.datasets import Corrupted, build_dataset, build_source
from mmseg_reservoir.datasets.base import ArrayImages
from mmseg_reservoir.datasets.corruptions import CORRUPTIONS
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


def clean(count=20):
    rng = np.random.default_rng(0)
    pixels = rng.integers(60, 200, (count, 32, 32, 3)).astype(np.uint8)
    return ArrayImages(pixels, np.arange(count) % 4)


def test_domains_are_corruptions():
    images = clean()
    data = Corrupted(images, severity=4)
    assert data.names == tuple(CORRUPTIONS)
    assert data.classes == 4
    bright = data.domain("brightness")
    assert bright.labels.tolist() == images.labels.tolist()
    shift = (bright.read(range(20)) - images.read(range(20))).mean()
    assert abs(float(shift) - 0.24) < 0.01
    worse = data.domain("brightness", 5).read([0])
    assert worse.mean() > bright.read([0]).mean()


def test_an_image_looks_the_same_in_every_batch():
    data = Corrupted(clean(), ["gaussian_noise"])
    noise = data.domain("gaussian_noise")
    assert noise is data.domain("gaussian_noise")
    assert torch.equal(noise.read([3, 7])[1], noise.read([7])[0])
    again = Corrupted(clean(), ["gaussian_noise"]).domain("gaussian_noise")
    assert np.array_equal(noise.pixels, again.pixels)
    other = Corrupted(clean(), ["gaussian_noise"], seed=1).domain("gaussian_noise")
    assert not np.array_equal(noise.pixels, other.pixels)


def test_a_stream_of_them_goes_through_the_classifier():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 4),
    )
    data = Corrupted(clean(), ["fog", "contrast"])
    stream = build_stream(dict(type="csc", batch_size=10, rounds=2), data)
    # An oracle needs no style, and no VGG-19 in a test.
    model = AdaptiveClassifier(net, "tent", reservoir=dict(router=dict(type="oracle")))
    experts = []
    for batch in stream:
        assert model(batch.images, domain=batch.domain).shape == (10, 4)
        experts.append(model.last.k)
    assert [k - experts[0] for k in experts] == [0, 0, 1, 1, 1, 1, 1, 1]
