import doctest
import math

import pytest
import torch

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.common import augment
from mmseg_reservoir.methods.common.augment import Augment, as_gray, blurred, rotated_hue

NOTHING = dict(
    brightness=0, contrast=0, saturation=0, hue=0, gamma=0, degrees=0, shift=0, scale=0, noise=0
)
NOTHING["blur"] = (1e-3, 1e-3)


def images(n=4, channels=3, seed=0):
    return torch.rand(n, channels, 9, 7, generator=torch.Generator().manual_seed(seed))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_example_of_the_documentation():
    assert doctest.testmod(augment).attempted >= 2
    assert doctest.testmod(augment).failed == 0


def test_without_any_strength_only_the_flip_is_left():
    x = images(16)
    view = Augment(**NOTHING)(x, generator())
    flipped = [torch.allclose(v, i.flip(-1), atol=1e-5) for v, i in zip(view, x, strict=True)]
    plain = [torch.allclose(v, i, atol=1e-5) for v, i in zip(view, x, strict=True)]
    assert 3 < sum(flipped) < 13
    assert all(a != b for a, b in zip(flipped, plain, strict=True))


def test_the_share_of_mirrored_images():
    x = images(16)
    never, always = (Augment(**NOTHING, flip=share)(x, generator()) for share in (0.0, 1.0))
    assert torch.allclose(never, x, atol=1e-5)
    assert torch.allclose(always, x.flip(-1), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_changes_in_its_own_way_and_stays_in_range(dtype, channels):
    same = images(1, channels).to(dtype).expand(6, -1, -1, -1)
    view = Augment()(same, generator())
    assert view.shape == same.shape
    assert view.dtype == dtype
    assert view.amin() >= 0
    assert view.amax() <= 1
    distances = torch.cdist(view.flatten(1), view.flatten(1)) + torch.eye(6)
    assert distances.min() > 0.1


def test_only_the_given_generator_counts():
    x, one, other = images(), generator(), generator()
    torch.manual_seed(1)
    first = Augment()(x, one)
    torch.manual_seed(2)
    assert torch.equal(Augment()(x, other), first)
    assert not torch.equal(Augment()(x, one), first)


def test_normalised_images_are_augmented_as_what_they_were():
    x, mean, std = images(), [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]
    m, s = (torch.tensor(v).view(3, 1, 1) for v in (mean, std))
    view = Augment(mean=mean, std=std)((x - m) / s, generator())
    torch.testing.assert_close(view * s + m, Augment()(x, generator()), rtol=0, atol=1e-5)


def test_images_of_another_range_are_an_error_unless_nothing_is_clipped():
    x = 3 * images() - 1
    with pytest.raises(
        ReservoirError, match=r"must be in \[0, 1\], got -0.99.* to .*mean=.*clip=False"
    ):
        Augment()(x, generator())
    view = Augment(clip=False)(x, generator())
    assert torch.isfinite(view).all()
    assert view.amin() < -0.5


def test_colour_changes_as_by_hand():
    x = images(1)
    bright = Augment(**NOTHING | {"brightness": 0.4})(x, generator(3))
    factor = 1 + 0.4 * (2 * torch.rand(1, generator=generator(3)) - 1)
    expected = (x * factor).clamp(0, 1)
    assert any(torch.allclose(bright, e, atol=1e-5) for e in (expected, expected.flip(-1)))
    assert abs(float(factor) - 1) > 0.05


def test_hue_keeps_grey_and_luma_and_a_whole_turn_is_none():
    x = images(2)
    torch.testing.assert_close(rotated_hue(x, torch.ones(2)), x, rtol=0, atol=1e-5)
    turned = rotated_hue(x, torch.tensor([0.1, 0.3]))
    torch.testing.assert_close(as_gray(turned), as_gray(x), rtol=0, atol=1e-3)
    assert (turned - x).abs().max() > 0.1
    grey = as_gray(x).expand(-1, 3, -1, -1)
    torch.testing.assert_close(rotated_hue(grey, torch.tensor([0.1, 0.3])), grey, rtol=0, atol=1e-3)


def test_blur_is_a_gaussian_of_each_images_own_width():
    x = torch.zeros(2, 1, 9, 9)
    x[:, :, 4, 4] = 1
    sigma = torch.tensor([0.5, 1.0]).view(2, 1, 1, 1)
    view = blurred(x, sigma)
    for row, s in zip(view[:, 0], (0.5, 1.0), strict=True):
        weights = torch.tensor([math.exp(-0.5 * (d / s) ** 2) for d in range(-2, 3)])
        expected = torch.outer(weights, weights) / weights.sum() ** 2
        torch.testing.assert_close(row[2:7, 2:7], expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(view.sum(dim=(1, 2, 3)), torch.ones(2))


def test_rotation_is_of_pixels_whatever_the_shape_of_the_image(monkeypatch):
    def largest(self, middle, spread):
        return torch.full((1, 1, 1, 1), float(middle + spread))

    monkeypatch.setattr(augment._Draw, "around", largest)
    x = torch.zeros(1, 1, 21, 41)
    x[:, :, 10, 10:31] = 1  # a line of 21 pixels through the middle
    upright = torch.zeros(1, 1, 21, 41)
    upright[:, :, :, 20] = 1
    view = Augment(**NOTHING | {"degrees": 90})(x, generator())
    torch.testing.assert_close(view, upright, rtol=0, atol=1e-4)
    half = Augment(**NOTHING | {"scale": -0.5})(x, generator())
    assert float(half[0, 0, 10].sum()) == pytest.approx(21 / 2, abs=1)  # half as long
    moved = Augment(**NOTHING | {"shift": 1 / 21})(upright, generator())  # 41 / 21 pixels aside
    assert int(moved.sum(dim=(0, 1, 2)).argmax()) in (18, 22)
