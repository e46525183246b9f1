import torch
from small_net import make_method

from mmseg_reservoir.core.change import Change, read_flags
from mmseg_reservoir.methods import Rotta


def test_flags_keep_their_names_and_order():
    flags = {"b": torch.tensor(True), "a": torch.tensor(False)}
    assert list(read_flags(flags).items()) == [("b", True), ("a", False)]


def test_a_change_is_relative_to_before_and_to_the_source():
    method = make_method(Rotta, supports="images")
    space, source = method.space, method.source
    adapted, carried = source.clone(), source.clone()
    adapted[0] += 1
    carried[-1] += 1
    cases = {
        (source, source): Change(moved=False, at_source=True),
        (source, adapted): Change(moved=True, at_source=False),
        (adapted, adapted): Change(moved=False, at_source=False),
        (source, carried): Change(moved=True, at_source=True),  # no gradient moves what is carried
    }
    for (before, after), expected in cases.items():
        assert Change(**read_flags(Change.flags(space, before, after, source))) == expected
