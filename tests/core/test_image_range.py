import pytest
import torch

from mmseg_reservoir.core.image_range import IMAGENET, ImageRange, extremes
from mmseg_reservoir.errors import NotFiniteError, ReservoirError

MEAN, STD = (torch.tensor(value).view(3, 1, 1) for value in IMAGENET)
UNIT = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
WANTED = (UNIT - MEAN) / STD


@pytest.mark.parametrize(
    ("known", "images"),
    [
        (ImageRange("unit"), UNIT),
        (ImageRange("imagenet"), WANTED),
        (ImageRange((0.5, 0.25)), (UNIT - 0.5) / 0.25),
        (ImageRange((0.0, 1 / 255)), 255 * UNIT),
        (ImageRange((0.0, 1 / 255), bgr=True), 255 * UNIT.flip(1)),
        (ImageRange((IMAGENET[0][::-1], IMAGENET[1][::-1]), bgr=True), WANTED.flip(1)),
    ],
)
def test_all_images_become_what_vgg_wants(known, images):
    torch.testing.assert_close(known.to_imagenet(images), WANTED, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(known.to_unit(images), UNIT, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(known.from_unit(UNIT), images, rtol=1e-4, atol=1e-4)
    known.check(images)


def test_what_is_right_already_is_not_touched():
    assert ImageRange("imagenet").to_imagenet(WANTED) is WANTED


def test_mistakes_are_explained():
    for images in ("bytes", (1,), ()):
        with pytest.raises(ReservoirError, match='use "unit" for values in'):
            ImageRange(images)
    with pytest.raises(ReservoirError, match="got 0 to 200: divide by 255"):
        ImageRange("unit").check(torch.tensor([0.0, 200.0]).view(1, 1, 1, 2).expand(1, 3, 1, 2))
    with pytest.raises(ReservoirError, match=r"instead of \[0, 1\]: normalize them"):
        ImageRange("imagenet").check(255 * UNIT)
    with pytest.raises(ReservoirError, match=r"\(2, 1, 4, 5\): repeat a grey channel"):
        ImageRange("unit").to_imagenet(UNIT[:, :1])


def test_extremes_are_of_every_channel():
    low, high = extremes(UNIT)
    for channel in range(3):
        assert low[channel] == UNIT[:, channel].min()
        assert high[channel] == UNIT[:, channel].max()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_value_that_is_not_finite_is_enough(value):
    images = UNIT.clone()
    images[1, 2, 3, 4] = value
    with pytest.raises(NotFiniteError, match="NaN or infinite values"):
        ImageRange("unit").check(images)
