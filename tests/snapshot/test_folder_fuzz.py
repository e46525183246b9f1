"""Whatever a folder of a reservoir holds, it is loaded or refused in the project's own words."""

import contextlib
import json
import shutil
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from damage import changed, damaged
from hypothesis import given
from small_reservoirs import batches, make_pipeline, show

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.state_files import read_state, write_state
from mmseg_reservoir.snapshot import folder as folder_module
from mmseg_reservoir.snapshot import load_reservoir, save_reservoir
from mmseg_reservoir.snapshot.folder import MANIFEST, read_folder
from mmseg_reservoir.snapshot.merge import merge
from mmseg_reservoir.snapshot.overview import overview
from mmseg_reservoir.snapshot.prune import prune

KINDS = ("style", "segment", "oracle")
STATES = ("shared.safetensors", "expert_00.safetensors", "expert_01.safetensors")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A reservoir of each kind. To be read only."""
    folders = {}
    for kind in KINDS:
        pipeline = make_pipeline(kind, care=kind != "oracle")
        show(pipeline, ["clear", "dark"])
        folders[kind] = save_reservoir(pipeline, tmp_path_factory.mktemp("saved") / kind)
    return folders


@pytest.fixture
def place(tmp_path):
    return tmp_path / "copy"


def fresh(source: Path, place: Path) -> Path:
    if place.exists():
        shutil.rmtree(place)
    return Path(shutil.copytree(source, place))


def seal(folder: Path, manifest: dict) -> None:
    """Write a manifest as if this package had, of the files as they are."""
    manifest = {name: value for name, value in manifest.items() if name != "sha256"}
    if isinstance(manifest.get("files"), dict):
        for name in manifest["files"]:
            if (folder / name).is_file():
                manifest["files"][name] = folder_module.file_digest(folder / name)
    digest = folder_module._digest(manifest)
    (folder / MANIFEST).write_text(json.dumps({**manifest, "sha256": digest}))


def use(folder: Path, kind: str) -> None:
    """All that is done with a reservoir."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with contextlib.suppress(ReservoirError):  # and nothing else
        snapshot = read_folder(folder)
        with contextlib.suppress(ReservoirError):
            overview(snapshot, folder)
        with contextlib.suppress(ReservoirError):
            prune(snapshot, [1])
        with contextlib.suppress(ReservoirError):
            merge(snapshot, snapshot)
        pipeline = make_pipeline(kind, care=kind != "oracle")
        load_reservoir(pipeline, folder)
        pipeline.infer(batches("dark", 1)[0], domain="dark")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_changed_manifest_with_a_right_checksum(saved, place, kind, data):
    folder = fresh(saved[kind], place)
    manifest = json.loads((folder / MANIFEST).read_text())
    json_values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=4,
    )
    seal(folder, data.draw(changed(manifest, json_values)))
    use(folder, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), name=st.sampled_from(STATES))
def test_changed_states_with_right_checksums(saved, place, kind, data, name):
    folder = fresh(saved[kind], place)
    state, header = read_state(folder / name)
    write_state(folder / name, data.draw(changed(state)), header)
    seal(folder, json.loads((folder / MANIFEST).read_text()))
    use(folder, kind)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("shared", lambda state: state.pop("method"), "is invalid .*KeyError: 'method'"),
        ("shared", lambda state: state.pop("router"), "is invalid .*KeyError: 'router'"),
        ("expert_01", lambda state: state["parameters"].fill_(torch.nan), "are not finite"),
        ("expert_01", lambda state: state.update(method=True), "'bool' object is not iterable"),
    ],
)
def test_what_is_missing_or_of_another_kind_is_named(saved, place, name, change, message):
    folder = fresh(saved["style"], place)
    path = folder / f"{name}.safetensors"
    state, header = read_state(path)
    change(state)
    write_state(path, state, header)
    seal(folder, json.loads((folder / MANIFEST).read_text()))
    with pytest.raises(ReservoirError, match=message):
        load_reservoir(make_pipeline("style", care=True), folder)


@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_damaged_files(saved, place, kind, data):
    folder = fresh(saved[kind], place)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    use(folder, kind)
