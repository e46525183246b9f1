"""The folder of a reservoir is written whole, and read strictly."""

import contextlib
import json
import math
import shutil
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from small_reservoirs import make_pipeline, show

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.state_files import read_state
from mmseg_reservoir.snapshot import folder as folder_module
from mmseg_reservoir.snapshot import save_reservoir
from mmseg_reservoir.snapshot.folder import read_folder, write_folder
from mmseg_reservoir.snapshot.merge import same
from mmseg_reservoir.snapshot.reservoir_snapshot import take_snapshot

FILES = ["calibration.safetensors", "expert_00.safetensors", "expert_01.safetensors"]
FILES += ["manifest.json", "shared.safetensors"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A reservoir of two experts. To be read only."""
    pipeline = make_pipeline("segment", care=True)
    show(pipeline, ["clear", "dark"])
    about = {"checkpoint": "segformer.pth"}
    return save_reservoir(pipeline, tmp_path_factory.mktemp("portable") / "saved", about)


@pytest.fixture
def copied(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "copied"))


def test_a_manifest_and_a_file_for_every_expert(saved):
    assert sorted(path.name for path in saved.iterdir()) == FILES
    text = (saved / "manifest.json").read_text()
    manifest = json.loads(text, parse_constant=pytest.fail)
    assert manifest["schema"] == 2
    assert manifest["about"] == {"checkpoint": "segformer.pth"}
    assert manifest["k_max"] == 6
    assert manifest["identity"]["method"] == "Tent"
    assert manifest["identity"]["options"]["router"]["tau"] > 0
    first, second = manifest["experts"]
    assert first["images"] + second["images"] == 24
    assert second["visits"] == 1
    assert 0 < second["guard"]["scale"] <= 1
    assert sorted([*manifest["files"], "manifest.json"]) == FILES


def test_what_is_read_is_what_was_written_and_can_be_written_again(saved, tmp_path):
    snapshot = read_folder(saved)
    again = write_folder(snapshot, tmp_path / "again")
    for name in ("shared", "expert_00", "expert_01"):  # metadata have no order in safetensors
        one, other = (read_state(folder / f"{name}.safetensors") for folder in (saved, again))
        assert same(one, other)
    one, other = (json.loads((f / "manifest.json").read_text()) for f in (saved, again))
    told = [name for name in one if name not in ("files", "sha256")]
    assert {name: other[name] for name in told} == {name: one[name] for name in told}


def test_a_reservoir_is_replaced_whole(copied, saved):
    (copied / "expert_07.safetensors").write_bytes(b"of a larger one before")
    write_folder(read_folder(saved), copied)
    assert sorted(path.name for path in copied.iterdir()) == FILES
    assert [p.name for p in copied.parent.iterdir()] == ["copied"]


def test_a_failure_leaves_what_was_there(copied, saved, monkeypatch):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(folder_module, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        write_folder(read_folder(saved), copied)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before
    assert [p.name for p in copied.parent.iterdir()] == ["copied"]


def test_a_folder_that_is_something_else_is_not_replaced(saved, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ReservoirError, match="exists and is not a reservoir"):
        write_folder(read_folder(saved), tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_is_told_must_be_strict_json(tmp_path):
    with pytest.raises(ReservoirError, match="must be plain JSON"):
        write_folder(take_snapshot(make_pipeline(), {"score": math.nan}), tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_other_folders_and_schemas_are_refused(copied, tmp_path):
    with pytest.raises(ReservoirError, match=r"is not a saved reservoir: it has no manifest\.json"):
        read_folder(tmp_path)
    manifest = copied / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema": 2', '"schema": 1'))
    with pytest.raises(ReservoirError, match=r"schema 1 of saved reservoirs, .* reads schema 2: u"):
        read_folder(copied)


@pytest.mark.parametrize("name", [n for n in FILES if n != "manifest.json"])
def test_files_that_are_missing_damaged_or_of_another_reservoir(name, copied):
    path = copied / name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ReservoirError, match=f"{name} is not the file that was written"):
        read_folder(copied)
    path.unlink()
    with pytest.raises(ReservoirError, match=f"lacks the file {name}"):
        read_folder(copied)


def seal(folder: Path, manifest: dict) -> None:
    """Write a manifest as if this package had, whatever it says."""
    manifest = {name: value for name, value in manifest.items() if name != "sha256"}
    digest = folder_module._digest(manifest)
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sha256": digest}))


@given(data=st.binary(max_size=300))
def test_any_bytes_in_place_of_the_manifest_are_refused(data, copied):
    (copied / "manifest.json").write_bytes(data)
    with pytest.raises(ReservoirError, match=r"manifest\.json is damaged"):
        read_folder(copied)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)  # as JSON has them
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(data=st.data())
def test_any_value_in_a_sealed_manifest_is_read_or_refused(data, copied, saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    name = data.draw(st.sampled_from(sorted(manifest)))
    manifest[name] = data.draw(anything)
    if data.draw(st.booleans()):
        del manifest[data.draw(st.sampled_from(sorted(manifest)))]
    seal(copied, manifest)
    with contextlib.suppress(ReservoirError):
        read_folder(copied)


@given(data=st.data(), name=st.sampled_from([n for n in FILES if n != "manifest.json"]))
def test_any_bytes_in_a_file_are_refused_even_where_the_manifest_says_so(data, name, copied, saved):
    original = (saved / name).read_bytes()
    start = data.draw(st.integers(0, len(original) - 1))
    new = data.draw(st.binary(min_size=1, max_size=40))
    damaged = original[:start] + new + original[start + len(new) :]
    if data.draw(st.booleans()):
        damaged = damaged[:start]
    manifest = json.loads((saved / "manifest.json").read_text())
    for other in FILES:
        if other != "manifest.json":
            shutil.copyfile(saved / other, copied / other)
    (copied / name).write_bytes(damaged)
    manifest["files"][name] = folder_module.file_digest(copied / name)
    seal(copied, manifest)
    if name == "calibration.safetensors":  # which has no checksum of its own
        with contextlib.suppress(ReservoirError):
            read_folder(copied)
    elif damaged != original:
        with pytest.raises(ReservoirError, match=str(copied)):
            read_folder(copied)


def test_paths_in_a_manifest_lead_nowhere_else(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["../secret"] = "0"
    (copied.parent / "secret").write_text("x")
    seal(copied, manifest)
    with pytest.raises(ReservoirError, match=r"lacks the file \.\./secret"):
        read_folder(copied)
