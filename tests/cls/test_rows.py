"""Choosing a row of a table."""

import copy

import pytest

from mmseg_reservoir.cls.rows import choose_row, row_label
from mmseg_reservoir.config.presets import PRESETS
from mmseg_reservoir.errors import ReservoirError

TABLE = {
    "data": {"type": "digits"},
    "method": {"optimizer": {"type": "Adam", "lr": 1e-3, "betas": (0.9, 0.999)}},
    "params": {"type": "norm_affine"},
    "with_reservoir": {"preset": "published", "calibration": {"batches": 100}},
    "rows": {
        "tent": {},
        "sar": {
            "method": {"optimizer": {"type": "SGD", "lr": 1e-4}},
            "params": {"skip": ("layer4",)},
        },
        "cotta": {"method": {"type": "cotta_images", "optimizer": {"lr": 1e-5}}},
        "vpt": {"params": {"type": "prompt", "count": 8}},
    },
}


def test_a_row_is_named_after_its_method_and_takes_the_optimizer_of_all():
    before = copy.deepcopy(TABLE)
    options = choose_row(TABLE, "tent")
    assert options == {
        "data": {"type": "digits"},
        "method": {"type": "tent", **TABLE["method"]},
        "params": {"type": "norm_affine"},
    }
    options["method"]["optimizer"]["lr"] = 1.0
    assert before == TABLE


def test_what_a_row_says_goes_over_the_rest_and_another_type_replaces_its_group():
    sar = choose_row(TABLE, "sar")
    assert sar["method"] == {"type": "sar", "optimizer": {"type": "SGD", "lr": 1e-4}}
    assert sar["params"] == {"type": "norm_affine", "skip": ("layer4",)}
    assert choose_row(TABLE, "cotta")["method"] == {
        "type": "cotta_images",
        "optimizer": {"type": "Adam", "lr": 1e-5, "betas": (0.9, 0.999)},
    }
    assert choose_row(TABLE, "vpt")["params"] == {"type": "prompt", "count": 8}


def test_the_reservoir_comes_only_where_it_is_wanted():
    assert "reservoir" not in choose_row(TABLE, "tent")
    options = choose_row(TABLE, "tent", with_reservoir=True)
    assert options["reservoir"] == TABLE["with_reservoir"]
    assert "with_reservoir" not in options
    own = {**TABLE, "reservoir": {"k_max": 4}}
    for wanted in (False, True):
        assert choose_row(own, "tent", wanted)["reservoir"] == {"k_max": 4}
    plain = {"method": {"type": "tent"}, "reservoir": None}
    assert choose_row(plain, None, with_reservoir=True)["reservoir"] == {"preset": "robust"}


def test_a_preset_may_be_named_in_place_of_the_tables_or_the_configs_own():
    named = choose_row(TABLE, "tent", with_reservoir="paper")
    assert named["reservoir"] == {"preset": "paper", "calibration": {"batches": 100}}
    own = {**TABLE, "reservoir": {"preset": "stream", "k_max": 4}}
    assert choose_row(own, "tent", "robust")["reservoir"] == {"preset": "robust", "k_max": 4}
    by_name = {**TABLE, "reservoir": "stream"}
    assert choose_row(by_name, "tent", "robust")["reservoir"] == {"preset": "robust"}
    assert TABLE["with_reservoir"]["preset"] == "published"
    plain = {"method": {"type": "tent"}}
    assert choose_row(plain, None, "published")["reservoir"] == {"preset": "published"}


def test_a_method_without_a_row_takes_what_is_said_for_all():
    assert choose_row(TABLE, "eata")["method"] == {"type": "eata", **TABLE["method"]}


@pytest.mark.parametrize("method", ["tent", {"type": "tent", "steps": 2}])
def test_a_config_with_its_own_method_needs_no_row(method):
    plain = {"data": {"type": "digits"}, "method": method}
    assert choose_row(plain, None) == plain
    # One that inherits a table, too; and the table is gone.
    assert choose_row({**TABLE, **plain}, None) == {**plain, "params": TABLE["params"]}
    with pytest.raises(ReservoirError, match=r"has its own method, 'tent': leave --method out"):
        choose_row({**TABLE, **plain}, "sar")


def test_a_table_without_a_choice_lists_its_rows():
    with pytest.raises(ReservoirError, match=r"--method NAME, of tent, sar, cotta, vpt$"):
        choose_row(TABLE, None)
    with pytest.raises(ReservoirError, match=r"no method 'tant' \(did you mean 'tent'\?\).*; rows"):
        choose_row(TABLE, "tant")


def test_labels():
    assert row_label("eata", {}) == "eata"
    assert row_label("eata", {"reservoir": None}) == "eata"
    assert row_label("eata", {"reservoir": {"k_max": 4}}) == "eata_robust"  # no preset is named
    assert row_label(None, {"reservoir": {}}) is None


@pytest.mark.parametrize("preset", PRESETS)
def test_the_robust_preset_has_a_label_of_its_own(preset):
    expected = "eata_robust" if preset == "robust" else "eata_reservoir"
    assert row_label("eata", {"reservoir": {"preset": preset}}) == expected
    assert row_label("eata", {"reservoir": preset}) == expected
    assert row_label("eata", choose_row(TABLE, "eata", preset)) == expected
