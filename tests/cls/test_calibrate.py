import pytest
import torch

from mmseg_reservoir.cls.calibrate import calibrate
from mmseg_reservoir.core import Calibration
from mmseg_reservoir.errors import ReservoirError


class Shuffled:
    """Three batches of one number, others in every pass."""

    def __init__(self):
        self.passes = 0

    def __call__(self):
        self.passes += 1
        return iter([torch.full((1,), 10.0 * self.passes + i) for i in range(3)])


@pytest.mark.parametrize(
    ("batches", "passes", "expected"),
    [
        (None, 1, [10, 11, 12]),
        (2, 1, [10, 11]),
        (3, 1, [10, 11, 12]),
        (7, 3, [10, 11, 12, 20, 21, 22, 30]),
    ],
)
def test_reads_until_there_are_enough(batches, passes, expected):
    read = Shuffled()
    found = calibrate(read, torch.neg, batches=batches)
    assert read.passes == passes
    assert found.styles.flatten().tolist() == [-number for number in expected]


def test_what_is_known_is_not_read_again():
    known = Calibration(torch.eye(3))
    assert calibrate(None, None, known=known, batches=5) is known


@pytest.mark.parametrize("batches", [0, 1, -3, 2.5, "many"])
def test_senseless_numbers(batches):
    with pytest.raises(ReservoirError, match="batches must be a whole number, 2 or more"):
        calibrate(Shuffled(), torch.neg, batches=batches)


def test_a_source_that_gives_nothing_new():
    with pytest.raises(ReservoirError, match="no complete batch"):
        calibrate(lambda: iter([]), torch.neg)
    same = [torch.zeros(1), torch.ones(1)]
    with pytest.raises(ReservoirError, match=r"asks for 5 .* the same 2 in every pass"):
        calibrate(lambda: iter(same), torch.neg, batches=5)
    passes = iter([same, []])
    with pytest.raises(ReservoirError, match="let it shuffle"):
        calibrate(lambda: iter(next(passes)), torch.neg, batches=5)
