import pytest
import torch

from mmseg_reservoir.cls.source_stream import SourceStream, images_of
from mmseg_reservoir.core import ImageRange
from mmseg_reservoir.errors import ReservoirError

IMAGES = torch.rand(20, 3, 2, 2, generator=torch.Generator().manual_seed(0))


def stream(batches, size=None):
    return SourceStream(batches, size, ImageRange("unit"), torch.device("cpu"))


@pytest.mark.parametrize(
    ("given", "size", "sizes"),
    [
        (8, None, [8, 8, 4]),
        (8, 8, [8, 8, 4]),
        (8, 5, [5, 5, 5, 5]),
        (4, 6, [6, 6, 6, 2]),
        (20, 3, [3, 3, 3, 3, 3, 3, 2]),
        (3, 50, [20]),
    ],
)
def test_batches_are_cut_to_the_streams_size(given, size, sizes):
    source = stream(IMAGES.split(given), size)
    for _ in range(2):  # it can be read again
        batches = list(source)
        assert [len(batch) for batch in batches] == sizes
        assert torch.equal(torch.cat(batches), IMAGES)
    assert source.batch_size == (size or given)
    assert source.identity() is None


def test_images_are_found_among_what_a_loader_gives():
    labels = torch.zeros(20)
    for batch in (IMAGES, (IMAGES, labels), [labels, IMAGES], (labels, IMAGES, "names")):
        assert images_of(batch) is IMAGES
    with pytest.raises(ReservoirError, match=r"single images \[\(3, 2, 2\)\]"):
        images_of((IMAGES[0], 3))
    for batch in (labels, "names", (IMAGES, IMAGES)):
        with pytest.raises(ReservoirError, match="must be a tensor of images"):
            images_of(batch)


def test_images_out_of_range_are_refused():
    with pytest.raises(ReservoirError, match="divide by 255"):
        list(stream([255 * IMAGES]))
