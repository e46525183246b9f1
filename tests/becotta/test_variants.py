import pytest

from mmseg_reservoir.becotta import VARIANTS, Variant, find_variant
from mmseg_reservoir.errors import ReservoirError


def test_found_by_name_or_options():
    assert find_variant("S") is VARIANTS["S"]
    options = dict(experts=2, top_k=2, ranks=[0, 1])
    assert find_variant(options) == Variant(2, 2, (0, 1))
    assert find_variant(find_variant(options).as_dict()) == find_variant(options)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("XL", "unknown variant of BECoTTA 'XL' .*valid: L, M, S"),
        (dict(experts=2, top_k=2, rank=[1]), "variant has no option 'rank'"),
        (dict(experts=2, top_k=3, ranks=[1]), "between 1 and the 2 experts, got 3"),
        (dict(experts=2, top_k=1, ranks=[1]), "leaves the gates without a gradient"),
        (dict(experts=2, top_k=2, ranks=[0, 0]), "at least one mixture"),
    ],
)
def test_mistakes_are_explained(variant, message):
    with pytest.raises(ReservoirError, match=message):
        find_variant(variant)
