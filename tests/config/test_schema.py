import pytest

from mmseg_reservoir.config.schema import without_scope
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import choose, construct


def make(a, b=2, *, c=3):
    return a, b, c


def test_choose_lists_valid_names():
    assert choose("x", {"x": 1}, "letter") == 1
    with pytest.raises(ReservoirError, match=r"unknown letter 'z'; valid: x, y$"):
        choose("z", {"x": 1, "y": 2}, "letter")
    with pytest.raises(ReservoirError, match="did you mean 'reservoir'"):
        choose("reservior", {"reservoir": 1}, "part")


def test_construct_checks_names():
    assert construct(make, {"c": 5}, "make", a=1) == (1, 2, 5)
    with pytest.raises(ReservoirError, match=r"make has no option 'd'; valid: b, c"):
        construct(make, {"d": 5}, "make", a=1)
    with pytest.raises(ReservoirError, match="make has no option 'a'"):
        construct(make, {"a": 5}, "make", a=1)
    with pytest.raises(ReservoirError, match="make needs the option 'a'"):
        construct(make, {}, "make")


def test_the_scope_of_mmengine_is_no_option():
    part = object()
    inherited = {"type": "a", "_scope_": "mmseg", "b": [{"_scope_": "mmseg", "c": (1, part)}]}
    assert without_scope(inherited) == {"type": "a", "b": [{"c": (1, part)}]}
