import numpy as np
import pytest
import torch
from image_files import cifar_records

from mmseg_reservoir.datasets import build_dataset, build_source, cifar_c
from mmseg_reservoir.datasets.imagenet_c import CORRUPTIONS
from mmseg_reservoir.errors import ReservoirError

N = 20


@pytest.fixture
def root(tmp_path, monkeypatch):
    """All corruptions with 20 instead of 10,000 images of each severity."""
    monkeypatch.setattr(cifar_c, "IMAGES", N)
    np.save(tmp_path / "labels.npy", np.tile(np.arange(N, dtype=np.uint8) % 10, 5))
    for place, name in enumerate(CORRUPTIONS):
        pixels = np.zeros((5 * N, 32, 32, 3), np.uint8)
        pixels[..., 0] = np.repeat(np.arange(1, 6), N).reshape(-1, 1, 1)
        pixels[..., 1] = place
        pixels[..., 2] = np.tile(np.arange(N), 5).reshape(-1, 1, 1)
        np.save(tmp_path / f"{name}.npy", pixels)
    return tmp_path


def pixels_of(images, indices):
    return (images.read(indices)[:, :, 5, 7] * 255).round().int().tolist()


def test_severities_follow_one_another(root):
    data = build_dataset(dict(type="cifar10c", root=root))
    assert data.names == CORRUPTIONS
    assert (data.title, data.classes, data.severity) == ("CIFAR-10-C", 10, 5)
    fog = data.domain("fog")
    assert len(fog) == N
    assert pixels_of(fog, [3, 0]) == [[5, 9, 3], [5, 9, 0]]
    assert fog.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert pixels_of(data.domain("shot_noise", 2), [4]) == [[2, 1, 4]]


def test_nothing_is_read_before_it_is_needed(root):
    data = build_dataset(dict(type="cifar10c", root=root, corruptions=["fog"]))
    assert isinstance(data.domain("fog").pixels, np.memmap)
    batch, _ = data.domain("fog").batch(np.array([1]))
    batch += 1  # a copy: the file is read-only


def test_limit(root):
    data = build_dataset(dict(type="cifar10c", root=root, limit=4))
    assert len(data.domain("snow")) == 4
    assert pixels_of(data.domain("snow", 3), [0]) == [[3, 7, 0]]
    with pytest.raises(ReservoirError, match=r"limit must be .* at least 1"):
        build_dataset(dict(type="cifar10c", root=root, limit=0))


def test_a_missing_corruption_names_those_that_are_there(root):
    for name in CORRUPTIONS[2:]:
        (root / f"{name}.npy").unlink()
    message = "no .*fog.npy; .* has gaussian_noise, labels, shot_noise: .*reservoir check cifar10c"
    with pytest.raises(ReservoirError, match=message):
        build_dataset(dict(type="cifar10c", root=root, corruptions=["shot_noise", "fog"]))
    with pytest.raises(ReservoirError, match=r"has no .npy files"):
        build_dataset(dict(type="cifar10c", root=root / "absent"))


def test_the_other_data_set_is_recognised(root):
    with pytest.raises(ReservoirError, match="not CIFAR-100-C: its labels go from 0 to 9, 10 cl"):
        build_dataset(dict(type="cifar100c", root=root))


def test_wrong_files(root):
    np.save(root / "fog.npy", np.zeros((N, 32, 32, 3), np.uint8))
    with pytest.raises(ReservoirError, match=r"fog.npy holds uint8 \(20, 32, 32, 3\), not uint8 "):
        build_dataset(dict(type="cifar10c", root=root))
    (root / "fog.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ReservoirError, match=r"fog.npy is damaged"):
        build_dataset(dict(type="cifar10c", root=root))
    np.save(root / "labels.npy", np.zeros(7, np.uint8))
    with pytest.raises(ReservoirError, match=r"labels.npy has shape \(7,\), not \(100,\)"):
        build_dataset(dict(type="cifar10c", root=root))


def test_options_are_checked(root):
    with pytest.raises(
        ReservoirError, match=r"unknown data set 'cifar10'.*did you mean 'cifar10c'"
    ):
        build_dataset(dict(type="cifar10", root=root))
    with pytest.raises(ReservoirError, match="data needs the option 'root'"):
        build_dataset(dict(type="cifar10c"))
    with pytest.raises(ReservoirError, match="CIFAR-10-C has no domain 'smog'"):
        build_dataset(dict(type="cifar10c", root=root, corruptions=["smog"]))


def test_cifar10(tmp_path):
    for part in range(1, 6):
        cifar_records(3, 1, first=3 * part).tofile(tmp_path / f"data_batch_{part}.bin")
    images = build_source(dict(type="cifar10", root=tmp_path))
    assert len(images) == 15
    assert images.labels[:4].tolist() == [0, 1, 2, 0]
    pixels = images.read([0, 14]) * 255
    assert pixels.shape == (2, 3, 32, 32)
    assert pixels[:, 0, 0, 0].tolist() == [3, 17]
    assert torch.allclose(pixels[0, 1, :, 5], torch.arange(32.0))


def test_cifar100_has_the_fine_labels(tmp_path):
    data = cifar_records(4, 2)
    data[:, 0] = 9
    data.tofile(tmp_path / "test.bin")
    images = build_source(dict(type="cifar100", root=tmp_path, train=False))
    assert images.labels.tolist() == [0, 1, 2, 3]


def test_wrong_cifar(tmp_path):
    with pytest.raises(ReservoirError, match=r"no .*data_batch_1.bin: unpack cifar-10-binary"):
        build_source(dict(type="cifar10", root=tmp_path))
    (tmp_path / "test_batch.bin").write_bytes(bytes(3074))
    with pytest.raises(ReservoirError, match="has 3074 bytes, no multiple of 3073"):
        build_source(dict(type="cifar10", root=tmp_path, train=False))
