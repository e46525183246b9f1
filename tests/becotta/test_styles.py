import pytest
import torch

from mmseg_reservoir.becotta import DOMAINS, STYLES, apply_styles
from mmseg_reservoir.becotta.styles import find_styles
from mmseg_reservoir.errors import ReservoirError

SEEDS = range(6)


def street(height=64, width=128):
    """Bright sky, dark ground, a few coloured boxes."""
    image = torch.full((3, height, width), 0.35)
    image[:, : height // 2] = torch.tensor([0.6, 0.7, 0.9]).view(3, 1, 1)
    image[0, height // 3 : -height // 4, 10:40] = 0.9
    image[2, height // 3 : -height // 4, 60:80] = 0.05
    return image


def styled(name, seed, image=None):
    return STYLES[name](street() if image is None else image, torch.Generator().manual_seed(seed))


def edges(image):
    """Contrast of neighbouring columns."""
    return float(image.diff(dim=2).abs().mean())


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("size", [(64, 128), (33, 17), (5, 7)])
def test_gives_an_image_of_the_same_size_in_range(name, size):
    image = street(*size)
    kept = image.clone()
    result = styled(name, 0, image)
    assert result.shape == image.shape
    assert result.min() >= 0
    assert result.max() <= 1
    assert torch.equal(image, kept)


@pytest.mark.parametrize("name", DOMAINS)
def test_follows_the_seed_alone(name):
    first = styled(name, 3)
    torch.manual_seed(1)
    assert torch.equal(styled(name, 3), first)
    assert torch.equal(styled(name, 4), first) == (name == "clear")


@pytest.mark.parametrize("seed", SEEDS)
def test_fog_takes_contrast_away_most_near_the_horizon(seed):
    image, foggy = street(), styled("fog", seed)
    assert edges(foggy) < 0.7 * edges(image)
    assert foggy.std() < image.std()
    left = [
        edges(foggy[:, rows]) / edges(image[:, rows]) for rows in (slice(26, 32), slice(42, 47))
    ]
    assert left[0] < left[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_night_is_dark_and_bluish_with_noise(seed):
    image, dark = street(), styled("night", seed)
    assert dark.mean() < 0.75 * image.mean()
    assert dark.median() < 0.6 * image.median()
    grey = torch.full((3, 64, 128), 0.5)
    assert styled("night", seed, grey).flatten(1).std(1).min() > 0.005


def test_night_is_bluish_on_average():
    grey = torch.full((3, 64, 128), 0.5)
    red, _, blue = torch.stack(
        [styled("night", s, grey).flatten(1).median(1)[0] for s in SEEDS]
    ).mean(0)
    assert blue > red


@pytest.mark.parametrize("seed", SEEDS)
def test_rain_draws_upright_streaks(seed):
    grey = torch.full((3, 96, 96), 0.2)
    wet = styled("rain", seed, grey)[0]
    wet = wet - wet.median(dim=1, keepdim=True)[0]  # the haze is the same along a row
    bright = wet > 0.02
    assert 0.005 < bright.float().mean() < 0.6
    along = (bright[1:] & bright[:-1]).sum()
    across = (bright[:, 1:] & bright[:, :-1]).sum()
    assert along > 1.3 * across


@pytest.mark.parametrize("seed", SEEDS)
def test_snow_brightens_the_ground_and_draws_spots(seed):
    grey = torch.full((3, 96, 96), 0.3)
    white = styled("snow", seed, grey)
    assert white[:, 60:].mean() > 0.33
    spots = white[0] - white[0].median(dim=1, keepdim=True)[0] > 0.1
    assert spots[:40].float().mean() > 0.001


def test_every_image_of_a_batch_gets_the_style_of_its_label():
    images = torch.stack([street(), street()])
    result = apply_styles(
        images,
        torch.tensor([1, 0]),
        find_styles(["clear", "night"]),
        torch.Generator().manual_seed(0),
    )
    assert torch.equal(result[1], images[1])
    assert torch.equal(result[0], styled("night", 0))


def test_unknown_styles_are_named():
    with pytest.raises(ReservoirError, match=r"style 'smog'.*valid: clear, fog"):
        find_styles(["clear", "smog"])
