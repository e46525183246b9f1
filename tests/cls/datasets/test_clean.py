import numpy as np
import pytest
import torch
from image_files import values, write_image

from mmseg_reservoir.cls.datasets import SourceBatches, build_source
from mmseg_reservoir.errors import ReservoirError


def records(count, head, first=0):
    """Labels, then planes of red, green and blue: red says which image, green the row."""
    found = np.zeros((count, head + 3072), np.uint8)
    found[:, head - 1] = np.arange(count) % 10
    found[:, head : head + 1024] = (first + np.arange(count))[:, None]
    found[:, head + 1024 : head + 2048] = np.repeat(np.arange(32), 32)
    return found


def test_cifar10(tmp_path):
    for part in range(1, 6):
        records(3, 1, first=3 * part).tofile(tmp_path / f"data_batch_{part}.bin")
    images = build_source(dict(type="cifar10", root=tmp_path))
    assert len(images) == 15
    assert images.labels[:4].tolist() == [0, 1, 2, 0]
    found = images.read([0, 14]) * 255
    assert found.shape == (2, 3, 32, 32)
    assert found[:, 0, 0, 0].tolist() == [3, 17]
    assert torch.allclose(found[0, 1, :, 5], torch.arange(32.0))


def test_cifar100_has_the_fine_labels(tmp_path):
    data = records(4, 2)
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


def test_a_folder_of_images(tmp_path):
    for label, name in enumerate(("a", "b")):
        write_image(tmp_path / name / "x.JPEG", 50 + 100 * label, size=(10, 14))
    images = build_source(dict(type="image_folder", root=tmp_path, resize=8, crop=6))
    assert images.labels.tolist() == [0, 1]
    assert values(images.read([1, 0])) == [150, 50]
    assert images.read([0]).shape == (1, 3, 6, 6)
    with pytest.raises(ReservoirError, match=r"there are no images in .*absent"):
        build_source(dict(type="image_folder", root=tmp_path / "absent"))


def test_every_pass_over_the_source_has_the_same_images_in_another_order(tmp_path):
    records(10, 1).tofile(tmp_path / "test_batch.bin")
    images = build_source(dict(type="cifar10", root=tmp_path, train=False))
    batches = SourceBatches(images, batch_size=4, count=9, seed=1)
    assert len(batches) == 2
    passes = [list(batches) for _ in range(20)]
    for found, labels in (batch for once in passes for batch in once):
        assert labels.tolist() == (found[:, 0, 0, 0] * 255).round().int().tolist()
    seen = [torch.cat([labels for _, labels in once]).tolist() for once in passes]
    assert all(len(set(labels)) == 8 for labels in seen)
    assert len({number for labels in seen for number in labels}) == 9  # not the tenth image
    assert len({tuple(labels) for labels in seen}) > 10
    again = SourceBatches(images, batch_size=4, count=9, seed=1)
    assert torch.cat([labels for _, labels in again]).tolist() == seen[0]
    with pytest.raises(ReservoirError, match="batch_size must be 1 to 10, the number of source"):
        SourceBatches(images, batch_size=11)
