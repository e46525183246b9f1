import pytest

from mmseg_reservoir.check.locate import check_root
from mmseg_reservoir.errors import ReservoirError


def test_the_root_is_accepted(small):
    check_root(small.root, "acdc")


@pytest.mark.parametrize("below", ["rgb_anon", "rgb_anon/fog", "gt"])
def test_too_deep_names_the_root(small, below):
    with pytest.raises(ReservoirError, match=rf"did you mean {small.root}\?"):
        check_root(small.root / below, "acdc")


def test_too_high_names_the_root(small):
    with pytest.raises(ReservoirError, match=rf"did you mean {small.root}\?"):
        check_root(small.root.parent, "acdc")


def test_another_data_set_is_named(small, minicity):
    with pytest.raises(ReservoirError, match=r"is ACDC, not Cityscapes: check it with 'acdc'"):
        check_root(small.root, "cityscapes")
    with pytest.raises(ReservoirError, match=r"is MiniCity, not ACDC: check it with 'minicity'"):
        check_root(minicity, "acdc")


def test_what_is_nothing_known_tells_where_to_get_it(tmp_path):
    with pytest.raises(ReservoirError, match=r"no leftImg8bit in it\); get leftImg8bit_train"):
        check_root(tmp_path, "cityscapes")
    with pytest.raises(ReservoirError, match=r"no folder .*; get rgb_anon_trainvaltest.zip"):
        check_root(tmp_path / "absent", "acdc")
