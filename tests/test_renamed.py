"""Old import paths work and name the new ones."""

import importlib

import pytest

from mmseg_reservoir._renamed import RENAMED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("build.Plan", "config.builder.RunBuilder"),
        ("cls.backbones.Normalised", "cls.backbones.Normalized"),
        ("datasets.LabelledImages", "datasets.LabeledImages"),
        ("live.Station", "live.StreamWorker"),
        ("portable.Contents", "snapshot.ReservoirSnapshot"),
        ("resume.RunSaver", "runs.run_saver.RunSaver"),
        ("spaces.base.ParamSpace", "params.base.ParamSpace"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_name_is_the_new_object(old, new):
    objects = []
    for path in (old, new):
        module, _, name = f"mmseg_reservoir.{path}".rpartition(".")
        objects.append(getattr(importlib.import_module(module), name))
    assert objects[0] is objects[1]


def test_warnings_name_the_new_path():
    from mmseg_reservoir import live

    with pytest.warns(DeprecationWarning, match=r"mmseg_reservoir\.live\.StreamWorker"):
        live.Station  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        live.nothing  # noqa: B018


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("old", sorted(RENAMED))
def test_every_new_module_exists(old):
    new = importlib.import_module(f"mmseg_reservoir.{RENAMED[old]}")
    assert importlib.import_module(f"mmseg_reservoir.{old}") is new


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_of_a_renamed_room_is_loaded_once():
    """Else its parts would be registered twice, and its classes would not be the same."""
    old = importlib.import_module("mmseg_reservoir.portable.merge")
    assert old is importlib.import_module("mmseg_reservoir.snapshot.merge")
