import pytest

from mmseg_reservoir.methods.common.by_classes import by_classes


@pytest.mark.parametrize(
    ("classes", "d_margin", "fisher_alpha", "confidence"),
    [(10, 0.4, 1, 0.92), (100, 0.4, 1, 0.72), (1000, 0.05, 2000, 0.1)],
)
def test_published_values_where_there_are_some(classes, d_margin, fisher_alpha, confidence):
    assert by_classes("d_margin", classes) == d_margin
    assert by_classes("fisher_alpha", classes) == fisher_alpha
    assert by_classes("confidence", classes) == confidence


@pytest.mark.parametrize(
    ("classes", "like"), [(2, 10), (19, 10), (31, 10), (32, 100), (126, 100), (316, 100)]
)
def test_otherwise_those_of_about_as_many_classes(classes, like):
    assert by_classes("confidence", classes) == by_classes("confidence", like)


@pytest.mark.parametrize("classes", [317, 345, 21843])
def test_many_classes_are_like_imagenet(classes):
    assert by_classes("d_margin", classes) == 0.05
