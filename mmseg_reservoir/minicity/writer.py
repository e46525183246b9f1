"""Write MiniCity to disk in ACDC's folder layout, completely or not at all."""

import hashlib
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from rich.console import Console
from rich.progress import track

from ..errors import ReservoirError
from ..io.files import explain_disk_errors, replace_folder, write_bytes, write_text
from .frame import CONDITIONS, SPLITS, Frame, check_name, render_frame

VERSION = 1  # increase it whenever the images change
MANIFEST = "minicity.json"
FRAMES_PER_SEQUENCE = 20
FAST_COMPRESSION = (cv2.IMWRITE_PNG_COMPRESSION, 1)

Counts = Mapping[str, Mapping[str, int]]


def make_counts(train: int = 800, val: int = 100, adverse_train: int = 40, adverse_val: int = 20):
    """Return the number of images by condition and split."""
    counts = {name: {"train": adverse_train, "val": adverse_val} for name in CONDITIONS}
    return {**counts, "clear": {"train": train, "val": val}}


@dataclass(frozen=True)
class Written:
    """The result of `write_dataset`."""

    root: Path  # root of the data set
    counts: dict[str, dict[str, int]]  # images by condition and split
    sha256: str  # checksum of all pixels, in the order of writing
    reused: bool  # whether it existed already
    seconds: float  # duration


def frame_paths(root: Path, condition: str, split: str, index: int) -> tuple[Path, Path]:
    """Return the paths of an image and its label map, in ACDC's layout."""
    # sequence numbers differ between conditions and splits, so that names are unique
    number = index // FRAMES_PER_SEQUENCE + 1 + 5000 * SPLITS.index(split)
    sequence = f"GP{CONDITIONS.index(condition) + 1:02d}{number:04d}"
    name = f"{sequence}_frame_{index % FRAMES_PER_SEQUENCE + 1:06d}"
    folder = Path(condition) / split / sequence
    return (
        root / "rgb_anon" / folder / f"{name}_rgb_anon.png",
        root / "gt" / folder / f"{name}_gt_labelTrainIds.png",
    )


def write_dataset(
    root: str | Path,
    seed: int = 0,
    counts: Counts | None = None,
    overwrite: bool = False,
    workers: int = 1,
) -> Written:
    """Write the data set, or check that it exists already.

    All files are written to a temporary folder beside `root`, which is renamed at the end. So an
    interrupted run leaves no partial data set.

    Args:
        root: Folder of the data set.
        seed: Seed of all scenes.
        counts: Number of images by condition and split. Defaults to `make_counts()`.
        overwrite: Whether to replace another MiniCity data set at `root`.
        workers: Number of processes that render. It does not change the files. Defaults to 1.

    Raises:
        ReservoirError: If an argument is invalid, or `root` holds something else.
    """
    start = time.perf_counter()
    root = Path(root).resolve()
    counts = _checked(make_counts() if counts is None else counts)
    if seed < 0:
        raise ReservoirError(f"seed must be 0 or more, got {seed}")
    expected = {"generator": "MiniCity", "version": VERSION, "seed": seed, "counts": counts}
    old = _existing(root)
    if old is not None and not overwrite:
        _check_same(root, old, expected)
        return Written(root, counts, old["sha256"], True, time.perf_counter() - start)

    with explain_disk_errors(root):
        root.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{root.name}-", dir=root.parent))
        try:
            fresh = temporary / "new"
            sha256 = _write_frames(fresh, seed, counts, workers)
            manifest = json.dumps({**expected, "sha256": sha256}, indent=2)
            write_text(fresh / MANIFEST, manifest + "\n")
            replace_folder(root, fresh)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Written(root, counts, sha256, False, time.perf_counter() - start)


def _checked(counts: Counts) -> dict[str, dict[str, int]]:
    """Copy the counts, in the order of writing, and refuse invalid ones."""
    for condition, splits in counts.items():
        check_name("condition", condition, CONDITIONS)
        for split, count in splits.items():
            check_name("split", split, SPLITS)
            if count < 0:
                raise ReservoirError(
                    f"number of {condition} {split} pictures must be 0 or more, got {count}"
                )
    return {
        condition: {split: int(counts[condition].get(split, 0)) for split in SPLITS}
        for condition in CONDITIONS
        if condition in counts
    }


def _existing(root: Path) -> dict | None:
    """Return the manifest at `root`, None if there is nothing; refuse another data set."""
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return None
    try:
        manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("generator") != "MiniCity":
        raise ReservoirError(
            f"{root} exists and is not a MiniCity data set (no valid {MANIFEST} in it); "
            "choose another folder, or move it away yourself"
        )
    return manifest


def _check_same(root: Path, old: dict, expected: dict) -> None:
    """Refuse a data set that has other options, or that lost files."""
    for key, value in expected.items():
        if old.get(key) != value:
            raise ReservoirError(
                f"{root} holds a MiniCity data set with {key} {old.get(key)}, not {value}; "
                "replace it with --overwrite (overwrite=True), or choose another folder"
            )
    lost = [
        path
        for condition, split, index in _order(expected["counts"])
        for path in frame_paths(root, condition, split, index)
        if not path.is_file()
    ]
    if lost or "sha256" not in old:
        raise ReservoirError(
            f"{root} is damaged: {len(lost)} files are missing; "
            "write it again with --overwrite (overwrite=True)"
        )


def _order(counts: Counts) -> Iterator[tuple[str, str, int]]:
    """Yield condition, split and index of each image."""
    for condition, splits in counts.items():
        for split, count in splits.items():
            for index in range(count):
                yield condition, split, index


def _write_frames(root: Path, seed: int, counts: Counts, workers: int) -> str:
    """Render and write all images; return the checksum of their pixels."""
    checksum = hashlib.sha256()
    root.mkdir()
    order = list(_order(counts))
    frames = track(
        _rendered(order, seed, workers),
        "Drawing MiniCity",
        total=len(order),
        transient=True,
        disable=not Console().is_terminal,
    )
    for (condition, split, index), frame in zip(order, frames, strict=True):
        bgr = np.ascontiguousarray(frame.rgb[..., ::-1])
        paths = frame_paths(root, condition, split, index)
        for path, pixels in zip(paths, (bgr, frame.label), strict=True):
            data = cv2.imencode(path.suffix, pixels, FAST_COMPRESSION)[1].data
            write_bytes(path, data, durable=False)
        checksum.update(frame.rgb.tobytes())
        checksum.update(frame.label.tobytes())
    return checksum.hexdigest()


def _rendered(order: Sequence[tuple[str, str, int]], seed: int, workers: int) -> Iterator[Frame]:
    """Yield the images in order."""
    arguments = [*zip(*order, strict=True), [seed] * len(order)]
    if workers == 1:
        yield from map(render_frame, *arguments)
        return
    # Spawn: the progress bar runs a thread in this process, and a fork may then hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(render_frame, *arguments, chunksize=8)
