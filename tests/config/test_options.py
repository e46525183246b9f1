"""The annotations of constructors are the schema of their options."""

import json
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Interval

import mmseg_reservoir.cls.streams  # noqa: F401
from mmseg_reservoir.config.builder import CLASSIFICATION, RunBuilder
from mmseg_reservoir.config.schema import pick
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.option_types import (
    Count,
    Momentum,
    NonNegative,
    Positive,
    PositiveFraction,
    check_value,
)
from mmseg_reservoir.registry import KINDS, checked, construct, find, parameters_of, table
from mmseg_reservoir.style.space import StyleSpace

OF_TYPE_CHECKERS = {"router", "method"}
"""Arguments whose types are imported for type checkers only."""


@checked
class Part:
    def __init__(self, count: Count = 1, *, rate: Positive | None = None) -> None:
        self.count, self.rate = count, rate


class Larger(Part):
    def __init__(self, momentum: Momentum = 0.5, **options: Any) -> None:
        super().__init__(**options)


@checked
def double(value: Annotated[float, Interval(ge=1, le=2)], shape: tuple[int, ...] = ()) -> float:
    return 2 * value


@pytest.mark.parametrize(
    ("value", "annotation", "words"),
    [
        (0, Count, "must be a whole number of at least 1, got 0"),
        (True, Count, "got True"),
        (1.0, Count, "got 1.0"),
        ("1", int, "must be a whole number, got '1'"),
        (float("nan"), Positive, "must be a number above 0, got nan"),
        (-1, NonNegative | None, "must be a number of at least 0, or None, got -1"),
        (1, Momentum, r"must be a number in \[0, 1\), got 1"),
        (0, PositiveFraction, r"must be a number in \(0, 1\], got 0"),
        ("c", Literal["a", "b"], "must be one of a, b, got 'c'"),
        (1, bool, "must be True or False, got 1"),
        ("ab", tuple[str, ...], "must be a list, each a string, got 'ab'"),
        ([1], tuple[int, int], "must be 2 values, each a whole number, got"),
        ([1, 0], Annotated[tuple[Count, Count], "(width, height)"], r"must be \(width, height\)"),
    ],
)
def test_a_wrong_value_is_explained_in_one_line(value, annotation, words):
    with pytest.raises(ReservoirError, match=rf"^group\.option .*{words}") as error:
        check_value(value, annotation, "group.option")
    assert "\n" not in str(error.value)


def test_lists_paths_and_whole_numbers_pass_where_they_can_be_meant(tmp_path):
    check_value([1, 2], tuple[int, int], "")
    check_value(tmp_path, str | None, "")
    check_value(3, Positive, "")
    check_value("anything", Part, "")  # types that are not plain are not checked


def test_direct_calls_are_checked():
    assert Part(2, rate=3).rate == 3
    with pytest.raises(ReservoirError, match=r"Part\.count must be .*got 0"):
        Part(0)
    with pytest.raises(ReservoirError, match=r"Larger\.rate must be a number above 0, or None"):
        Larger(rate=-1)
    with pytest.raises(ReservoirError, match=r"double\.value must be a number in \[1, 2\], got 3"):
        double(3)
    assert double(1, shape=[1, 2]) == 2


def test_numbers_of_numpy_become_plain_numbers():
    part = Part(np.int64(2), rate=np.float32(0.5))
    assert (type(part.count), type(part.rate), part.rate) == (int, float, 0.5)
    pair = check_value([np.int64(1), np.int32(2)], tuple[int, int], "pair")
    assert [type(number) for number in pair] == [int, int]
    with pytest.raises(ReservoirError, match="must be a whole number"):
        check_value(np.float32(1), int, "count")
    options = {"k_max": np.int64(8), "router": {"type": "style", "quantile": np.float64(0.5)}}
    builder = RunBuilder(CLASSIFICATION, "tent", None, np.float32(0.5), options, np.int64(3))
    reservoir = builder.options["reservoir"]
    assert (builder.options["seed"], builder.options["statistics"]) == (3, 0.5)
    assert (reservoir["k_max"], reservoir["router"]["quantile"]) == (8, 0.5)
    json.dumps(builder.options)


def test_options_of_a_base_are_options_too():
    assert list(parameters_of(Larger)) == ["momentum", "count", "rate"]
    assert construct(Larger, {"count": 3}, "part").count == 3


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"optimizer", "backbone"}))
def test_every_annotation_of_a_registered_part_can_be_evaluated(kind):
    for name, part in table(kind).items():
        for option, parameter in parameters_of(part).items():
            if option not in OF_TYPE_CHECKERS:
                assert parameter.annotation is not Any, (name, option)


def test_british_names_still_work():
    with pytest.warns(DeprecationWarning, match="'standardise' is now 'standardize'"):
        space = StyleSpace(all=["standardise"])
    assert space.chains == {"all": [find("transform", "standardize")]}
    with pytest.warns(DeprecationWarning, match="'regulariser' is now 'regularizer'"):
        petta = pick("method", {"type": "petta", "regulariser": "l2"}, "method", injected=INJECTED)
    assert petta.options == {"regularizer": "l2"}


INJECTED = ("forward", "space", "optimizer")
