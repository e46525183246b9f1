import pytest
import torch

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style import StyleEncoder
from mmseg_reservoir.style.calibration import calibrate
from mmseg_reservoir.style.source_styles import pooled_styles


@pytest.fixture
def images():
    return torch.rand(10, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Counting(StyleEncoder):
    """Knows how many images it has looked at."""

    seen = 0

    def _at_taps(self, images, measure):
        self.seen += len(images)
        return super()._at_taps(images, measure)


@pytest.mark.parametrize("statistic", ["logvar", "var", "mean", "mean_var"])
def test_a_batch_of_images_encoded_once_has_the_style_of_the_batch(images, statistic):
    encoder = Counting("seeded", taps=(2, 5), statistic=statistic)
    styles = pooled_styles(encoder, images.split(4), batches=60)
    assert encoder.seen == 10
    generator = torch.Generator().manual_seed(0)
    for style in styles[:3]:
        batch = images[torch.randperm(10, generator=generator)[:4]]
        torch.testing.assert_close(style, encoder(batch), rtol=1e-4, atol=1e-5)


def test_calibration_by_one_pass(images):
    calibration = calibrate(StyleEncoder("seeded"), images.split(4), batches=60, once=True)
    assert calibration.styles.shape == (60, 320)
    with pytest.raises(ReservoirError, match="say how many"):
        calibrate(StyleEncoder("seeded"), images.split(4), once=True)


def test_what_cannot_be_pooled_is_refused(images):
    with pytest.raises(ReservoirError, match="tells the moments of single images"):
        pooled_styles(lambda batch: batch.mean((0, 2, 3)), images.split(4), 60)
    with pytest.raises(ReservoirError, match="'gram' does not follow"):
        pooled_styles(StyleEncoder("seeded", statistic="gram"), images.split(4), 60)
    mixed = [torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 16)]
    with pytest.raises(ReservoirError, match="different sizes"):
        pooled_styles(StyleEncoder("seeded"), mixed, 60)
    with pytest.raises(ReservoirError, match="no complete batch"):
        pooled_styles(StyleEncoder("seeded"), [], 60)
