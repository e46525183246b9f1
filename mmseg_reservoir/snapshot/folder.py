"""The folder of a reservoir: a manifest, the shared state, and one file per expert."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.reservoir import Tally
from ..errors import ReservoirError, refusing
from ..io.files import digest, file_digest, kept_folders, replace_folder, write_text
from ..io.state_files import read_state, write_state
from ..style.calibration import Calibration
from .reservoir_snapshot import Expert, ReservoirSnapshot
from .vector_layout import VectorLayout

FORMAT = "mmseg_reservoir.reservoir"
SCHEMA = 2
"""Raise it when the layout of the folder changes. Other schemas are refused."""

MANIFEST = "manifest.json"
_SHARED, _CALIBRATION = "shared.safetensors", "calibration.safetensors"


def write_folder(snapshot: ReservoirSnapshot, folder: str | os.PathLike) -> Path:
    """Write a reservoir completely or not at all; an existing reservoir is replaced."""
    folder = Path(folder).expanduser()
    if folder.exists() and not (folder / MANIFEST).is_file() and _has_entries(folder):
        raise ReservoirError(
            f"{folder} exists and is not a reservoir: choose another name, or remove it"
        )
    new = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    shutil.rmtree(new, ignore_errors=True)  # left by a killed process
    try:
        _write_files(snapshot, new)
        replace_folder(folder, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def _write_files(snapshot: ReservoirSnapshot, folder: Path) -> None:
    header = {"reservoir": SCHEMA}
    shared = {"layout": snapshot.layout.to_json(), **snapshot.shared}
    files = [write_state(folder / _SHARED, shared, header)]
    if snapshot.calibration is not None:
        files.append(snapshot.calibration.save(folder / _CALIBRATION))
    for index, expert in enumerate(snapshot.experts):
        state = {**vars(expert), "tally": asdict(expert.tally)}
        files.append(write_state(folder / expert_file(index), state, header))
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "identity": snapshot.identity,
        "k_max": snapshot.k_max,
        "about": snapshot.about,
        "experts": [{**asdict(e.tally), **snapshot.summary(e)} for e in snapshot.experts],
        "files": {file.name: file_digest(file) for file in files},
    }
    try:
        text = _text({**manifest, "sha256": _digest(manifest)})
    except (TypeError, ValueError) as error:
        raise ReservoirError(
            f"the argument about of a reservoir must be plain JSON: {error}"
        ) from error
    write_text(folder / MANIFEST, text)  # last: a folder with a manifest is complete


def read_folder(folder: str | os.PathLike) -> ReservoirSnapshot:
    """Read a reservoir, and check that every byte is as it was written.

    Raises:
        ReservoirError: If the folder is not a reservoir, is damaged, or of another version.
    """
    folder = Path(folder).expanduser()
    manifest = _read_manifest(folder)
    for name, checksum in manifest["files"].items():
        if name != Path(name).name or not (folder / name).is_file():
            raise ReservoirError(f"the reservoir {folder} lacks the file {name}: {_TO_DO}")
        if file_digest(folder / name) != checksum:
            raise ReservoirError(f"{folder / name} is not the file that was written: {_TO_DO}")
    with refusing(f"the content of the reservoir {folder} is invalid", _TO_DO):
        shared, _ = read_state(folder / _SHARED)
        layout = VectorLayout.from_json(shared.pop("layout"))
        calibration = None
        if _CALIBRATION in manifest["files"]:
            calibration = Calibration.load(folder / _CALIBRATION)
        names = [expert_file(index) for index in range(len(manifest["experts"]))]
        experts = [_read_expert(folder / name, layout) for name in names]
        return ReservoirSnapshot(
            manifest["identity"],
            layout,
            manifest["k_max"],
            manifest["about"],
            calibration,
            shared,
            experts,
        )


_TO_DO = "save it again, or restore a copy of it"


def check_folder(folder: str | os.PathLike) -> Path:
    """Return the path of the manifest; raise an error for a folder without one."""
    path = Path(folder).expanduser() / MANIFEST
    if not path.is_file():
        kept = [str(old) for old in kept_folders(path.parent) if (old / MANIFEST).is_file()]
        hint = (
            f"rename {kept[0]}, which was being replaced"
            if kept
            else ("give the folder WORK_DIR/reservoir of a run with a reservoir")
        )
        raise ReservoirError(f"{folder} is not a saved reservoir: it has no {MANIFEST}; {hint}")
    return path


def expert_file(index: int) -> str:
    """Return the name of an expert's file."""
    return f"expert_{index:02d}.safetensors"


def _read_expert(path: Path, layout: VectorLayout) -> Expert:
    state, _ = read_state(path)
    expert = Expert(**{**state, "tally": Tally(**state["tally"])})
    if tuple(expert.parameters.shape) != (len(layout),):
        raise ValueError(f"{path.name} has {tuple(expert.parameters.shape)} parameters")
    if not expert.parameters.isfinite().all():
        raise ValueError(f"{path.name} has parameters that are not finite")
    return expert


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = check_folder(folder)
    with refusing(f"{path} is damaged", _TO_DO):
        manifest = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
        checksum = manifest.pop("sha256")
        kind, schema = manifest["format"], manifest["schema"]
        if kind == FORMAT and schema != SCHEMA:
            raise ReservoirError(
                f"{path} was written by mmseg_reservoir {manifest.get('version')} with schema "
                f"{schema} of saved reservoirs, this version reads schema {SCHEMA}: use the "
                "version that wrote it, or let its run save the reservoir again with this one"
            )
        if kind != FORMAT or checksum != _digest(manifest):
            raise ValueError("its content has changed since it was written")
        for name, types in _FIELDS.items():
            if type(manifest[name]) is not types:
                raise TypeError(f"{name} must be a {types.__name__}")
        if not manifest["experts"] or not manifest["identity"].keys() >= {"router", "options"}:
            raise ValueError("it lists no expert, no router, or no options")
        return manifest


_FIELDS = {
    "identity": dict,
    "k_max": int,
    "about": dict,
    "experts": list,
    "files": dict,
}


def _text(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=1, allow_nan=False) + "\n"


def _digest(manifest: Mapping[str, Any]) -> str:
    plain = json.dumps(manifest, sort_keys=True, allow_nan=False)
    return digest(plain)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _has_entries(folder: Path) -> bool:
    return not folder.is_dir() or any(folder.iterdir())
