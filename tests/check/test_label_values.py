import pytest

from mmseg_reservoir.check import finding
from mmseg_reservoir.check.label_values import label_fault
from mmseg_reservoir.check.layouts.acdc import ACDC


@pytest.mark.parametrize("values", [(0,), (18,), tuple(range(19)), (3, 255)])
def test_train_ids_are_fine(values):
    assert label_fault(values, ACDC) is None


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        ((7, 8, 11, 21, 23, 26), finding.RAW_IDS, ": has 21, 23, 26"),
        ((7, 33, 255), finding.RAW_IDS, ": has 33"),
        ((0, 34), finding.BAD_VALUES, ": has 34"),
        ((0, 19, 70, 200), finding.BAD_VALUES, ": has 19, 70, 200"),
        (tuple(range(60)), finding.BAD_VALUES, ": has 19, 20, 21, 22, 23, 24, 25, 26, ..."),
        ((255,), finding.ALL_IGNORED, ": only 255"),
        (None, finding.COLOURS, ": has several channels"),
    ],
)
def test_mistakes_are_told_apart(values, kind, text):
    assert label_fault(values, ACDC) == (kind, text)
