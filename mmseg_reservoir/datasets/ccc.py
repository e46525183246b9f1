"""CCC, Continuously Changing Corruptions (Press et al., NeurIPS 2023), as its generator stores it.

A run is a folder ``baseline_B_transition+speed_S_seed_N`` of shards ``serial_00000.tar``, ..., in
the order of the stream. A shard may also be an unpacked folder. For each image it contains
``sample_I.input.jpg``, ``sample_I.output.cls`` (the class) and ``sample_I.info`` (both corruptions
and their severities).
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from ..errors import ReservoirError
from .disk_layout import Cell, Layout
from .imagenet_c import IMAGENET_CLASSES
from .manifest import manifest_hash
from .pictures import Preprocess, list_folders

if TYPE_CHECKING:
    from torch import Tensor

RUN = re.compile(r"baseline_(\d+)(?:\.0)?_transition.speed_(\d+)_seed_(\d+)")
"""Pattern of a run's folder, with baseline, speed and seed."""
RUN_IMAGES = 7_500_000
"""Smallest number of images of a run; the generator fills the last shard."""
SHARD_IMAGES = 25_000
"""Smallest number of images of a shard; the generator completes a step of the transition."""
_SHARD = re.compile(r"serial_(\d+)(\.tar)?")
_IMAGE, _LABEL, _INFO = "input.jpg", "output.cls", "info"
_REQUIRED = (_IMAGE, _LABEL)
_TAR_END = 1024
"""Number of zero bytes at the end of an archive."""
_REMEDY = "generate or download the shard again"


def shards_of(speed: int) -> tuple[int, int]:
    """Return the number of shards of a run, and the number of images of a shard."""
    images = -(-SHARD_IMAGES // speed) * speed
    return -(-RUN_IMAGES // images), images


def list_runs(root: Path) -> dict[Path, tuple[int, int, int]]:
    """Return baseline, speed and seed of the runs in a folder, sorted by name."""
    runs = {}
    for name in list_folders(root):
        if match := RUN.fullmatch(name):
            runs[root / name] = (int(match[1]), int(match[2]), int(match[3]))
    return runs


def _cell(folder: Path, baseline: int, speed: int, seed: int) -> Cell:
    shards, images = shards_of(speed)
    expected = shards if any(folder.glob("*.tar")) else shards * images
    return Cell(f"baseline{baseline}", f"speed{speed}_seed{seed}", folder.name, expected=expected)


LAYOUT = Layout(
    title="CCC",
    # Only the runs on disk have a cell, because no study needs all 27.
    cells=lambda root: [_cell(folder, *numbers) for folder, numbers in list_runs(root).items()],
    markers=("baseline_*_seed_*",),
    image_suffix=(".tar", ".input.jpg"),
    download=(
        "generate it with github.com/oripress/CCC, so that {root} holds "
        "baseline_B_transition+speed_S_seed_N/serial_00000.tar, ..."
    ),
)


@dataclass(frozen=True)
class Sample:
    """One image of CCC.

    Attributes:
        image: ``(3, H, W)``, floats in [0, 1].
        domain: Both corruptions, such as ``"fog+contrast"``; ``"unknown"`` without an info file.
    """

    image: Tensor
    label: int
    domain: str


class CCC:
    """One run of CCC.

    Args:
        root: Folder of the runs, or of one run.
        baseline: Accuracy in percent that a ResNet-50 keeps: 40 (easy), 20 (medium) or 0 (hard).
        speed: Images between two steps of the transition: 1000, 2000 or 5000.
        run_seed: Seed of the generator: 43, 44 or 45.
        crop, resize: See `Preprocess`. The images are 224 x 224.
    """

    title = "CCC"
    classes = IMAGENET_CLASSES

    def __init__(
        self,
        root: str | Path,
        baseline: int = 20,
        speed: int = 1000,
        run_seed: int = 43,
        crop: int | None = 224,
        resize: int | tuple[int, int] | None = None,
    ) -> None:
        self.folder = _find_run(Path(root), (baseline, speed, run_seed))
        self.preprocess = Preprocess(resize, crop)
        self.shards = _list_shards(self.folder)
        if not self.shards:
            raise ReservoirError(
                f"{self.folder} has no serial_00000.tar or folder serial_00000: see "
                f"reservoir check ccc {self.folder.parent}"
            )

    def __iter__(self) -> Iterator[Sample]:
        return self.from_image(0)

    def from_image(self, start: int) -> Iterator[Sample]:
        """Yield the samples from index ``start``. Earlier ones are not decoded."""
        encoded = ((shard, *sample) for shard in self.shards for sample in _read_samples(shard))
        for shard, name, parts in islice(encoded, start, None):
            yield self._decode(f"{shard}: {name}", parts)

    def describe(self) -> dict[str, str]:
        """Return the title and the run of CCC for a record."""
        return {"title": self.title, "run": self.folder.name}

    def manifest(self) -> str:
        """Return a hash of the shards' names and sizes, which identifies the stream."""
        paths = [p for s in self.shards for p in ([s] if s.is_file() else sorted(s.iterdir()))]
        return manifest_hash(paths, self.folder)

    def _decode(self, name: str, parts: dict[str, bytes]) -> Sample:
        try:
            label = int(parts[_LABEL])
        except ValueError as error:
            raise ReservoirError(
                f"{name} has the label {parts[_LABEL][:20]!r}: {_REMEDY}"
            ) from error
        image = self.preprocess(io.BytesIO(parts[_IMAGE]), name)
        return Sample(image, label, _domain(parts.get(_INFO, b"").decode("utf-8", "replace")))


def _find_run(root: Path, numbers: tuple[int, int, int]) -> Path:
    if RUN.fullmatch(root.name) and root.is_dir():
        return root
    runs = {numbers: folder for folder, numbers in list_runs(root).items()}
    if numbers not in runs:
        names = ", ".join(folder.name for folder in runs.values()) or "no run of CCC"
        raise ReservoirError(
            f"no run with baseline {numbers[0]}, speed {numbers[1]}, seed {numbers[2]} in {root}; "
            f"it has {names}"
        )
    return runs[numbers]


def _domain(info: str) -> str:
    """Return ``fog+snow`` for the info ``++n1++fog++s1++1.5++n2++snow++s2++0.25``."""
    words = info.split("++")[1:]
    fields = dict(zip(words[::2], words[1::2], strict=False))
    return f"{fields['n1']}+{fields['n2']}" if {"n1", "n2"} <= fields.keys() else "unknown"


def _list_shards(folder: Path) -> list[Path]:
    """Return the shards by number; an archive has priority over its unpacked copy."""
    shards: dict[int, Path] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.suffix != ".tar"):
        match = _SHARD.fullmatch(path.name)
        if match and (path.is_dir() or path.suffix == ".tar"):
            shards.setdefault(int(match[1]), path)
    numbers = sorted(shards)
    gap = next((index for index, number in enumerate(numbers) if index != number), None)
    if gap is not None:
        raise ReservoirError(
            f"{folder} has shards up to serial_{numbers[-1]:05d}, but no serial_{gap:05d}: the "
            "stream would jump; generate or download it"
        )
    return [shards[number] for number in numbers]


def _read_samples(shard: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield name and files of each sample: adjacent files with the same name before the dot."""
    files = _tar_files(shard) if shard.suffix == ".tar" else _folder_files(shard)
    for name, group in groupby(files, key=lambda file: file[0].partition(".")[0]):
        parts = {file.partition(".")[2]: data for file, data in group}
        missing = [part for part in _REQUIRED if part not in parts]
        if missing:
            raise ReservoirError(f"{shard} has no {name}.{missing[0]}: {_REMEDY}")
        yield name, parts


def tar_fault(path: Path) -> str | None:
    """Return the problem of a shard, or None. Names are read, but not images."""
    samples: dict[str, set[str]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if member.isfile():
                    sample, _, part = Path(member.name).name.partition(".")
                    samples.setdefault(sample, set()).add(part)
    except tarfile.TarError as error:
        return f"is no whole archive: {error}"
    if not _is_closed(path):
        return "is truncated"
    missing = [f"{name}.{p}" for name in samples for p in _REQUIRED if p not in samples[name]]
    if missing:
        return f"has no {missing[0]}"
    return None if samples else "holds no samples"


def _is_closed(path: Path) -> bool:
    # tarfile does not notice an archive that is cut off between two members.
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAR_END))
        return file.read() == bytes(_TAR_END)


def _tar_files(shard: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isfile():
                    file = cast("IO[bytes]", archive.extractfile(member))
                    yield Path(member.name).name, file.read()
        if not _is_closed(shard):
            raise tarfile.ReadError("it breaks off")
    except (tarfile.TarError, OSError) as error:
        raise ReservoirError(f"{shard} is damaged ({error}): {_REMEDY}") from error


def _folder_files(shard: Path) -> Iterator[tuple[str, bytes]]:
    def by_number(path: Path) -> tuple[int, str]:
        digits = re.findall(r"\d+", path.name.split(".")[0])
        return (int(digits[-1]) if digits else -1, path.name)

    # sample_10 comes after sample_9, not after sample_1.
    for path in sorted(shard.iterdir(), key=by_number):
        if path.is_file() and not path.name.startswith("."):
            yield path.name, path.read_bytes()
