from pathlib import Path

import pytest
from mmengine.config import Config

from mmseg_reservoir.config.presets import DEFAULT, PRESETS, with_preset
from mmseg_reservoir.errors import ReservoirError

CONFIGS = Path(__file__).parents[2] / "configs"
WITH_RESERVOIR = sorted(
    path
    for path in CONFIGS.rglob("*.py")
    if "_base_" not in path.parts
    and ("reservoir" in path.stem or "robust" in path.stem or path.parent.name == "cls")
)


def reservoir_of(path: Path) -> dict:
    """A config's options of the reservoir; those of a table wait for who wants them."""
    cfg = Config.fromfile(path).to_dict()
    return cfg["with_reservoir"] if "rows" in cfg else cfg["reservoir"]


def test_options_go_over_the_preset_and_another_type_replaces_its_group():
    merged = with_preset({"preset": "paper", "k_max": 3, "clustering": {"lr": 1.0}})
    assert merged["k_max"] == 3
    assert merged["clustering"]["lr"] == 1.0
    assert merged["clustering"]["temperature"] == "sqrt_d"
    replaced = with_preset({"clustering": {"type": "kmeans"}})
    assert replaced["clustering"] == {"type": "kmeans"}
    assert PRESETS["paper"]["k_max"] == 16


def test_an_object_replaces_its_group():
    def encode(images):
        return images.mean(dim=(0, 2, 3))

    assert with_preset({"style": encode})["style"] is encode


def test_a_preset_may_be_given_by_its_name():
    assert with_preset("paper") == with_preset({"preset": "paper"}) == PRESETS["paper"]
    with pytest.raises(ReservoirError, match=r"unknown preset 'papre' .*did you mean 'paper'"):
        with_preset("papre")
    with pytest.raises(ReservoirError, match="options or a preset's name, got True"):
        with_preset(True)


def test_without_a_name_it_is_the_robust_preset():
    assert DEFAULT == "robust"
    assert with_preset({}) == PRESETS["robust"]
    assert with_preset({"k_max": 4}) == {**PRESETS["robust"], "k_max": 4}


def test_the_robust_preset_is_that_of_streams_with_alignment_guard_and_pooling():
    robust, stream = with_preset("robust"), with_preset("stream")
    assert robust.pop("alignment") == {"type": "moments"}
    assert robust.pop("guard") == {"type": "labels"}
    assert robust.pop("pooling") == {"type": "evidence"}
    pipeline = robust.pop("pipeline")
    assert (pipeline["ensemble"], pipeline["unfit"]) == (False, "predict")
    assert stream.pop("pipeline").get("ensemble", True) is True
    assert robust == stream
    assert robust["router"]["type"] == "segment"
    assert with_preset({"guard": None})["guard"] is None


@pytest.mark.parametrize("preset", ["paper", "published", "published_code", "stream"])
def test_no_other_preset_watches_its_experts_or_lets_them_share(preset):
    assert not {"alignment", "guard", "pooling"} & set(with_preset(preset))


@pytest.mark.parametrize("preset", PRESETS)
def test_no_preset_lets_experts_rest(preset):
    assert "trigger" not in with_preset(preset)


def test_the_published_preset_is_the_published_code_with_the_papers_memory():
    published, code = with_preset("published"), with_preset("published_code")
    assert published.pop("memory") == with_preset("paper")["memory"] != code.pop("memory")
    assert published["router"].pop("learn_incomplete") is False
    assert code["router"].pop("learn_incomplete") is True
    assert published == code


def test_the_former_name_of_the_published_preset_is_not_one_any_more():
    with pytest.raises(ReservoirError, match=r"unknown preset 'default'.*published"):
        with_preset("default")


@pytest.mark.parametrize("name", ["paper", "published", "robust", "stream"])
def test_the_base_config_of_a_preset_names_it(name):
    files = CONFIGS / "_base_" / "reservoir"
    assert Config.fromfile(files / f"{name}.py").reservoir == {"preset": name}
    assert not (files / "default.py").exists()


@pytest.mark.parametrize("path", WITH_RESERVOIR, ids=lambda path: path.stem)
def test_no_config_repeats_options_of_a_preset(path):
    """Else a preset that is chosen on the command line would be changed by the config."""
    written = reservoir_of(path)
    written.pop("preset")
    in_presets = {
        (group, option)
        for preset in PRESETS.values()
        for group, options in preset.items()
        for option in (options if isinstance(options, dict) else [None])
    } - {("style", "size"), ("style", "crop")}  # which go by the images
    for group, options in written.items():
        assert (group, None) not in in_presets
        assert not [option for option in options if (group, option) in in_presets]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("path", WITH_RESERVOIR[::3], ids=lambda path: path.stem)
def test_a_named_preset_is_what_one_gets(path, preset):
    reservoir = reservoir_of(path)
    merged = with_preset({**reservoir, "preset": preset})
    for group, options in PRESETS[preset].items():
        expected = dict(options) if isinstance(options, dict) else {}
        if group == "style":  # the size of the view goes by the images
            expected.pop("size", None)
        got = merged[group] if isinstance(options, dict) else {}
        assert {name: got[name] for name in expected} == expected
