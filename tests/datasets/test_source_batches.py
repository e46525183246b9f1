import pytest
import torch
from image_files import cifar_records

from mmseg_reservoir.datasets import SourceBatches, build_source
from mmseg_reservoir.errors import ReservoirError


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
    with pytest.raises(ReservoirError, match="batch_size must be 1 to 10, the number of source"):
        SourceBatches(images, batch_size=11)
